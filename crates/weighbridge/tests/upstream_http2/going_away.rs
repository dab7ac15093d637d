//! What an engine says it has not begun with is sent again, once; what it may have begun with is not; and an engine that
//! goes away takes nothing with it that was not its own.

use crate::engine::{single, single_on};
use crate::support::{
    Api, PATIENCE, SOON, expect_error_last, expect_idle, expect_outcomes, expect_whole, wait_running,
};
use std::collections::HashSet;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Connection, Request};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::upstream::Http2;
use weighbridge_test_engine::{Upstream, eventually, par};

fn chat(gateway: &Gateway) -> Request {
    Api::Chat.whole(&gateway.url(""), "")
}

/// A route `m` to A, and to B where A fails, both in HTTP/2.
fn either(a: &Upstream, b: &Upstream, retry: &str) -> Gateway {
    let pool = |name: &str, upstream: &Upstream| {
        format!(
            "{{name: {name}, kind: generic, health: false, breaker: false, http: 2, endpoints: ['{}']}}",
            upstream.url()
        )
    };
    single_on(&format!(
        "pools: [{}, {}]\nroutes: [{{name: m, targets: [A, {{pool: B, order: 2}}], retry: {retry}}}]",
        pool("A", a),
        pool("B", b)
    ))
}

fn refusing(refuse: u64) -> Http2 {
    Http2 {
        refuse,
        ..Http2::default()
    }
}

#[test]
fn fail2_a_refused_stream_is_sent_again_once_on_a_fresh_connection() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = either(&a, &b, "{max_attempts: 3}");
    a.set_http2(refusing(1));
    let answer = chat(&gateway).send();
    assert_eq!((answer.status, answer.served_by()), (200, Some("A")));
    assert_eq!(answer.header("x-weighbridge-attempts"), Some("1"));
    assert_eq!((a.posts().len(), a.stats().conns), (1, 2));
    // Refused twice, it goes elsewhere: nobody has begun with it.
    a.set_http2(refusing(2));
    let answer = chat(&gateway).send();
    assert_eq!((answer.status, answer.served_by()), (200, Some("B")));
    assert_eq!(answer.header("x-weighbridge-attempts"), Some("2"));
    assert_eq!((a.posts().len(), b.posts().len()), (1, 1));
    let line = |outcome: &str| {
        let labels = [("pool", "A"), ("outcome", outcome)];
        gateway.metrics().sum("weighbridge_attempts_total", &labels)
    };
    assert_eq!((line("ok"), line("connect_error")), (1.0, 1.0));
}

#[test]
fn fail2_a_refused_stream_is_not_sent_again_where_the_route_says_so() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = either(&a, &b, "{resend: false}");
    a.set_http2(refusing(1));
    let answer = chat(&gateway).send();
    assert_eq!((answer.status, answer.served_by()), (200, Some("B")));
}

#[test]
fn fail2_where_nobody_takes_the_request_the_client_is_told() {
    let a = Upstream::start("A");
    let gateway = single(&a, "");
    a.set_http2(refusing(2));
    let answer = chat(&gateway).send();
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(a.posts().is_empty());
    let line = gateway.wait_log(SOON, |line| line["status"] == 503);
    let reason = line["reason"].as_str().unwrap();
    assert!(reason.contains("REFUSED_STREAM"), "{reason}");
    assert_eq!(chat(&gateway).send().status, 200);
}

#[test]
fn fail2_a_stream_that_is_reset_is_not_sent_again() {
    for (code, word) in [
        ("CANCEL", Some("reset")),
        ("INTERNAL_ERROR", Some("reset")),
        ("NO_ERROR", Some("reset")),
        ("PROTOCOL_ERROR", None),
        ("ENHANCE_YOUR_CALM", None),
    ] {
        let [a, b] = Upstream::start_all(["A", "B"]);
        a.set_mode(&format!("rst={code}"));
        let gateway = either(&a, &b, "{max_attempts: 3}");
        for (n, ask) in [Api::stream, Api::whole].into_iter().enumerate() {
            let answer = ask(Api::Chat, &gateway.url(""), "").send();
            assert_eq!(answer.status, 502, "{code}: {}", answer.text());
            assert_eq!((a.posts().len(), b.posts().len()), (n + 1, 0), "{code}");
        }
        let line = gateway.wait_log(SOON, |line| line["status"] == 502);
        assert!(line["reason"].as_str().unwrap().contains(code), "{line}");
        // A protocol that is broken is no reset.
        let gateway = either(&a, &b, "{on: [reset]}");
        let answer = chat(&gateway).send();
        assert_eq!(answer.served_by(), word.map(|_| "B"), "{code}: {}", answer.text());
    }
}

#[test]
fn fail2_what_a_goaway_disowns_is_sent_again() {
    for code in ["NO_ERROR", "ENHANCE_YOUR_CALM", "INTERNAL_ERROR"] {
        let [a, b] = Upstream::start_all(["A", "B"]);
        let gateway = either(&a, &b, "{max_attempts: 3}");
        a.script([&*format!("goaway={code}"), ""]);
        let answer = chat(&gateway).send();
        assert_eq!((answer.status, answer.served_by()), (200, Some("A")), "{code}");
        assert_eq!((a.posts().len(), a.stats().conns, b.posts().len()), (2, 2, 0));
        // A connection of its own does not help either: it is the next one's turn.
        a.set_mode(&format!("goaway={code}"));
        let answer = chat(&gateway).send();
        assert_eq!((answer.status, answer.served_by()), (200, Some("B")), "{code}");
        assert_eq!(
            (a.posts().len(), answer.header("x-weighbridge-attempts")),
            (5, Some("2"))
        );
    }
}

#[test]
fn fail2_a_goaway_lets_running_streams_end() {
    let a = Upstream::start("A");
    a.set_http2(Http2 {
        goaway_every: Some(3),
        ..Http2::default()
    });
    let gateway = single(&a, "");
    let mut running: Vec<_> = (0..2)
        .map(|_| Api::Chat.stream(&gateway.url(""), "gap=0.1,chunks=15").open())
        .collect();
    for stream in &mut running {
        assert!(stream.wait_events(1, PATIENCE));
    }
    for _ in 0..3 {
        assert_eq!(chat(&gateway).send().status, 200);
    }
    assert!(a.posts()[..2].iter().all(|post| post.is_running()));
    for stream in &mut running {
        expect_whole(Api::Chat, stream);
    }
    let posts = a.posts();
    assert_eq!(posts.iter().filter(|post| post.conn == posts[0].conn).count(), 3);
    assert_eq!((posts.len(), a.stats().conns), (5, 2));
    expect_outcomes(&gateway, "ok", 5.0);
    assert!(eventually(SOON, || a.stats().open == 1), "{:?}", a.stats());
}

#[test]
fn fail2_engines_that_go_away_under_load_lose_and_repeat_nothing() {
    const CLIENTS: usize = 16;
    const EACH: usize = 40;
    let a = Upstream::start("A");
    a.set_http2(Http2 {
        goaway_every: Some(7),
        ..Http2::default()
    });
    let gateway = single(&a, "");
    par(CLIENTS, |client| {
        let mut connection = Some(Connection::to(&gateway.url("/")).unwrap());
        for round in 0..EACH {
            let mode = ["", "delay=0.01", "gap=0.001"][round % 3];
            let ask = if round % 2 == 0 { Api::whole } else { Api::stream };
            let request =
                ask(Api::Chat, &gateway.url(""), mode).header("x-request-id", &format!("c{client}-{round}"));
            let (answer, kept) = connection.take().unwrap().send(&request).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(answer.end.is_whole());
            connection = kept;
        }
    });
    let all = CLIENTS * EACH;
    let posts = a.posts();
    let ids: HashSet<_> = posts
        .iter()
        .map(|post| post.header("x-request-id").unwrap())
        .collect();
    assert_eq!((posts.len(), ids.len()), (all, all), "each was begun with once");
    assert!(a.stats().conns as usize >= all / 7, "{:?}", a.stats());
    expect_outcomes(&gateway, "ok", all as f64);
    let attempts = gateway.metrics().sum("weighbridge_attempts_total", &[]);
    assert_eq!(attempts, all as f64, "no failure is counted");
}

#[test]
fn str_2_a_lost_connection_fails_each_of_its_streams_once() {
    let a = Upstream::start("A");
    let gateway = single(&a, "breaker: {consecutive: 8}, fail_open: false");
    let mut streams: Vec<_> = (0..6)
        .map(|_| Api::Chat.stream(&gateway.url(""), "gap=0.1,chunks=300").open())
        .collect();
    for stream in &mut streams {
        assert!(stream.wait_events(2, PATIENCE));
    }
    let waiting: Vec<_> = (0..2)
        .map(|_| Api::Chat.whole(&gateway.url(""), "delay=60").begin().unwrap())
        .collect();
    wait_running(&a, 8);
    assert_eq!(a.stats().conns, 1);
    a.kill();
    for stream in &mut streams {
        stream.finish(PATIENCE);
        expect_error_last(Api::Chat, stream);
    }
    for pending in waiting {
        assert_eq!(pending.response(PATIENCE).unwrap().status, 502);
    }
    expect_idle(&gateway);
    let of = |outcome: &str| {
        let labels = [("pool", "m"), ("outcome", outcome)];
        gateway.metrics().sum("weighbridge_attempts_total", &labels)
    };
    assert_eq!((of("upstream_stream_error"), of("upstream_error")), (6.0, 2.0));
    let state = |state: &str| {
        let labels = [("pool", "m"), ("endpoint", "a"), ("state", state)];
        gateway.metrics().value("weighbridge_endpoint_state", &labels)
    };
    assert_eq!(
        state("open"),
        1.0,
        "eight failures open it: {}",
        gateway.metrics().text
    );
}

#[test]
fn str_2_a_peer_that_breaks_the_protocol_breaks_its_own_answers_only() {
    let a = Upstream::start("A");
    let gateway = single(&a, "breaker: false");
    a.script(["garbage", ""]);
    let answer = chat(&gateway).send();
    assert_eq!(answer.status, 502, "{}", answer.text());
    let line = gateway.wait_log(SOON, |line| line["status"] == 502);
    assert!(
        line["reason"].as_str().unwrap().contains("PROTOCOL_ERROR"),
        "{line}"
    );
    assert_eq!(chat(&gateway).send().status, 200);
}

#[test]
fn str_5_a_silent_connection_is_given_up() {
    let a = Upstream::start("A");
    let gateway = single(&a, "breaker: false, keepalive: 60s, timeouts: {ping: 1s}");
    let mut stream = Api::Chat.stream(&gateway.url(""), "gap=0.1,chunks=300").open();
    assert!(stream.wait_events(2, PATIENCE));
    let began = Instant::now();
    let silenced = Api::Chat.whole(&gateway.url(""), "silent").begin().unwrap();
    let refused = silenced.response(PATIENCE).unwrap();
    assert_eq!(refused.status, 502, "{}", refused.text());
    stream.finish(PATIENCE);
    expect_error_last(Api::Chat, &stream);
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(chat(&gateway).send().status, 200);
    assert_eq!(a.stats().conns, 2);
}

#[test]
fn str_5_a_connection_that_falls_silent_while_idle_is_given_up() {
    let a = Upstream::start("A");
    let gateway = single(&a, "breaker: false, keepalive: 60s, timeouts: {ping: 500ms}");
    let silenced = Api::Chat.whole(&gateway.url(""), "silent").begin().unwrap();
    wait_running(&a, 1);
    silenced.abort();
    expect_idle(&gateway);
    let given_up = || gateway.stderr().contains("silent and is given up");
    assert!(eventually(PATIENCE, given_up), "{}", gateway.stderr());
    assert_eq!(chat(&gateway).send().status, 200);
}

#[test]
fn str_5_an_engine_that_thinks_for_long_is_left_alone() {
    let a = Upstream::start("A");
    let gateway = single(&a, "timeouts: {ping: 300ms}");
    // Many times the silence after which it is asked for a sign of life, which it gives.
    let answer = Api::Chat.whole(&gateway.url(""), "delay=3").send();
    assert_eq!((answer.status, a.stats().conns), (200, 1));
}

#[test]
fn fail2_a_peer_that_does_not_speak_it_cannot_be_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let mut preface = [0; 24];
            if peer.read(&mut preface).is_ok() {
                let _ = peer.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
            }
        }
    });
    let b = Upstream::start("B");
    let gateway = single_on(&format!(
        "pools:\n- {{name: A, kind: generic, health: false, http: 2, endpoints: ['{url}']}}\n\
         - {{name: B, kind: generic, health: false, endpoints: ['{}']}}\n\
         routes:\n- {{name: m, targets: [A, {{pool: B, order: 2}}]}}\n- {{name: alone, targets: [A]}}",
        b.url()
    ));
    let answer = chat(&gateway).send();
    assert_eq!((answer.status, answer.served_by()), (200, Some("B")));
    let body = r#"{"model": "alone", "messages": []}"#;
    let alone = Request::post(&gateway.url("/v1/chat/completions"), body).send();
    assert_eq!(alone.status, 503, "{}", alone.text());
    let line = gateway.wait_log(SOON, |line| line["route"] == "alone");
    assert!(
        line["reason"].as_str().unwrap().contains("HTTP/2: the peer"),
        "{line}"
    );
}
