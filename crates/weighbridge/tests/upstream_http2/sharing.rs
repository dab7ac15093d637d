//! Many requests on few connections.

use crate::engine::{single, single_on, stands_still};
use crate::support::{Api, PATIENCE, SOON, expect_idle, expect_outcomes, expect_whole, wait_running};
use std::time::Duration;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::upstream::Http2;
use weighbridge_test_engine::{Upstream, eventually, par};

#[test]
fn requests_at_once_share_one_connection() {
    let a = Upstream::start("A");
    // All of them come while the connection is being made.
    a.set_http2(Http2 {
        greets_after: 1.5,
        ..Http2::default()
    });
    let gateway = single(&a, "timeouts: {connect: 20s}");
    par(60, |_| {
        let answer = Api::Chat.whole(&gateway.url(""), "delay=0.5").send();
        assert_eq!(answer.status, 200, "{}", answer.text());
    });
    let stats = a.stats();
    assert_eq!(stats.conns, 1, "nobody connects for themselves: {stats:?}");
    assert!(stats.peak > 30, "{stats:?}");
    assert!(a.posts().iter().all(|post| post.conn == a.posts()[0].conn));
}

#[test]
fn a_connection_without_a_free_stream_is_joined_by_another() {
    let a = Upstream::start("A");
    a.set_http2(Http2 {
        max_streams: Some(4),
        ..Http2::default()
    });
    let gateway = single(&a, "");
    let running: Vec<_> = (0..12)
        .map(|_| Api::Chat.whole(&gateway.url(""), "delay=60").begin().unwrap())
        .collect();
    wait_running(&a, 12);
    let posts = a.posts();
    for post in &posts {
        let beside = posts.iter().filter(|other| other.conn == post.conn).count();
        assert!(beside <= 4, "{beside} streams on a connection that takes 4");
    }
    assert!((3..=4).contains(&a.stats().conns), "{:?}", a.stats());
    // What comes free is used before more are made.
    running.into_iter().for_each(|pending| pending.abort());
    assert!(eventually(SOON, || a.stats().in_flight == 0));
    for _ in 0..10 {
        assert_eq!(Api::Chat.whole(&gateway.url(""), "").send().status, 200);
    }
    assert!(a.stats().conns <= 4, "{:?}", a.stats());
}

#[test]
fn one_stream_at_a_time_is_enough() {
    let a = Upstream::start("A");
    a.set_http2(Http2 {
        max_streams: Some(1),
        ..Http2::default()
    });
    let gateway = single(&a, "");
    par(20, |i| {
        let ask = if i % 2 == 0 { Api::stream } else { Api::whole };
        for _ in 0..5 {
            let answer = ask(Api::Chat, &gateway.url(""), "delay=0.02").send();
            assert!(answer.status == 200 && answer.end.is_whole(), "{}", answer.text());
        }
    });
    assert_eq!(a.posts().len(), 100);
    expect_outcomes(&gateway, "ok", 100.0);
}

#[test]
fn an_engine_that_allows_no_stream_cannot_be_reached() {
    let a = Upstream::start("A");
    a.set_http2(Http2 {
        max_streams: Some(0),
        ..Http2::default()
    });
    let gateway = single(&a, "");
    let answer = Api::Chat.whole(&gateway.url(""), "").send();
    assert_eq!(answer.status, 503, "{}", answer.text());
    let line = gateway.wait_log(SOON, |line| line["status"] == 503);
    assert!(
        line["reason"].as_str().unwrap().contains("allows no request"),
        "{line}"
    );
}

#[test]
fn an_idle_connection_is_dropped_after_its_time() {
    let a = Upstream::start("A");
    let gateway = single(&a, "keepalive: 300ms");
    let mut stream = Api::Chat.stream(&gateway.url(""), "gap=0.2,chunks=12").open();
    expect_whole(Api::Chat, &mut stream);
    assert_eq!(a.stats().conns, 1, "one that is in use is kept");
    assert!(eventually(PATIENCE, || a.stats().open == 0), "{:?}", a.stats());
    assert_eq!(Api::Chat.whole(&gateway.url(""), "").send().status, 200);
    assert_eq!(a.stats().conns, 2);
}

#[test]
fn a9_streams_that_hang_hold_up_no_other_on_their_connection() {
    let a = Upstream::start("A");
    let gateway = single(&a, "");
    let base = gateway.url("");
    let hanging: Vec<_> = (0..100)
        .map(|n| {
            let mode = ["hang=headers", "hang=body", "hang=2"][n % 3];
            Api::Chat.stream(&base, mode).begin().unwrap()
        })
        .collect();
    wait_running(&a, 100);
    for _ in 0..20 {
        let answer = Api::Chat.whole(&base, "").send();
        assert_eq!(answer.status, 200);
        assert!(answer.elapsed < Duration::from_secs(2), "{:?}", answer.elapsed);
    }
    assert_eq!(a.stats().conns, 1);
    drop(hanging);
    assert!(eventually(SOON, || a.stats().in_flight == 0), "{:?}", a.stats());
    expect_idle(&gateway);
}

#[test]
fn str_7_answers_that_nobody_reads_leave_room_for_others_on_their_connection() {
    let a = Upstream::start("A");
    let gateway = single(&a, "timeouts: {connect: 20s}");
    let base = gateway.url("");
    // Each with more bytes than the sockets take.
    let unread: Vec<_> = (0..12)
        .map(|n| {
            let mut client = crate::support::narrow_client(crate::support::address(&gateway));
            let request = crate::support::chat_bytes("big=3000000,chunks=1000", true, "");
            std::io::Write::write_all(&mut client, request.as_bytes()).unwrap();
            wait_running(&a, n + 1);
            client
        })
        .collect();
    stands_still(&a);
    for _ in 0..5 {
        let mut stream = Api::Chat.stream(&base, "chunks=100").open();
        expect_whole(Api::Chat, &mut stream);
    }
    assert_eq!(a.stats().conns, 1);
    let running = a.posts()[..12].iter().filter(|post| post.is_running()).count();
    assert!(running > 6, "{running} of 12 answers wait");
    drop(unread);
    assert!(
        eventually(PATIENCE, || a.stats().in_flight == 0),
        "{:?}",
        a.stats()
    );
    expect_idle(&gateway);
}

#[test]
fn a_large_prompt_goes_up_as_fast_as_the_engine_takes_it() {
    let a = Upstream::start("A");
    a.set_http2(Http2 {
        window: Some(1000),
        ..Http2::default()
    });
    let gateway = single(&a, "");
    let prompt = "long ".repeat(100_000);
    let body = format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "{prompt}"}}]}}"#);
    par(3, |_| {
        let answer = Request::post(&gateway.url("/v1/chat/completions"), &body).send();
        assert_eq!(answer.status, 200, "{}", answer.text());
    });
    for post in a.posts() {
        assert_eq!(post.body_len, body.len() as u64);
        assert_eq!(post.header("content-length"), Some(&*body.len().to_string()));
    }
}

#[test]
fn requests_are_in_the_form_that_http_2_has() {
    let a = Upstream::start("A");
    let gateway = single_on(&format!(
        "pools: [{{name: m, kind: generic, health: false, http: 2, api_key: key-of-the-engine, endpoints: ['{}/base?v=1']}}]",
        a.url()
    ));
    let answer = Api::Chat
        .whole(&gateway.url(""), "")
        .header("connection", "keep-alive, x-hop")
        .header("keep-alive", "timeout=5")
        .header("x-hop", "1")
        .header("te", "trailers")
        .header("x-mine", "2")
        .send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let post = &a.posts()[0];
    assert_eq!(
        (&*post.version, &*post.target),
        ("HTTP/2", "/base/v1/chat/completions?v=1")
    );
    assert_eq!(post.header(":authority"), Some(&*a.url().replace("http://", "")));
    assert_eq!(post.header("authorization"), Some("Bearer key-of-the-engine"));
    assert_eq!(post.header("x-mine"), Some("2"));
    for name in [
        "host",
        "connection",
        "keep-alive",
        "x-hop",
        "te",
        "transfer-encoding",
        "upgrade",
    ] {
        assert_eq!(post.header(name), None, "{name}");
    }
    assert_eq!(answer.header("x-mock-name"), Some("A"));
}

#[test]
fn probes_speak_it_too() {
    let a = Upstream::start("A");
    let _gateway = single_on(&format!(
        "pools: [{{name: m, kind: generic, http: 2, health: {{path: /health, interval: 100ms}}, endpoints: ['{}']}}]",
        a.url()
    ));
    let probed = || a.log().iter().filter(|record| record.target == "/health").count() >= 3;
    assert!(eventually(PATIENCE, probed), "{:?}", a.log());
    assert!(a.log().iter().all(|record| record.version == "HTTP/2"));
    assert!(
        eventually(SOON, || a.stats().open <= 1),
        "probes leave no connections: {:?}",
        a.stats()
    );
}

#[test]
fn a_reload_changes_the_version_for_new_requests_only() {
    let a = Upstream::start("A");
    let config = |http: u8| {
        format!(
            "pools: [{{name: m, kind: generic, health: false, http: {http}, endpoints: [{{name: a, url: '{}'}}]}}]",
            a.url()
        )
    };
    let gateway = single_on(&config(2));
    let mut running = Api::Chat.stream(&gateway.url(""), "gap=0.2,chunks=15").open();
    assert!(running.wait_events(1, PATIENCE));
    gateway.write_config(&config(1));
    gateway.signal(weighbridge_test_engine::harness::Signal::HUP);
    let changed = eventually(PATIENCE, || {
        assert_eq!(Api::Chat.whole(&gateway.url(""), "").send().status, 200);
        a.posts().last().unwrap().version == "HTTP/1.1"
    });
    assert!(changed, "{:?}", a.posts());
    // And back: idle connections of the other version are not used.
    gateway.write_config(&config(2));
    gateway.signal(weighbridge_test_engine::harness::Signal::HUP);
    let changed = eventually(PATIENCE, || {
        assert_eq!(Api::Chat.whole(&gateway.url(""), "").send().status, 200);
        a.posts().last().unwrap().version == "HTTP/2"
    });
    assert!(changed, "{:?}", a.posts());
    expect_whole(Api::Chat, &mut running);
    assert!(eventually(PATIENCE, || a.stats().open <= 1), "{:?}", a.stats());
}
