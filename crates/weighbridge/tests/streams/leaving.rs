//! STR-1: a client that goes away is noticed at once, whatever the request waits for; one that only stops sending is
//! answered.

use crate::support::{
    Api, PATIENCE, SOON, address, chat_bytes, expect_idle, expect_outcomes, expect_whole, gateway_to,
    outcomes, wait_running,
};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Request, raw};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually, par};

/// Waits until every request that `upstream` got has ended because its peer left, soon after `left`.
fn expect_noticed(upstream: &Upstream, left: Instant) {
    let noticed = eventually(SOON, || {
        upstream.posts().iter().all(|post| post.ended_as("peer_gone"))
    });
    assert!(
        noticed,
        "the upstream still works for nobody: {:?}",
        upstream.posts()
    );
    for post in upstream.posts() {
        let late = post.ended().unwrap().saturating_duration_since(left);
        assert!(late < SOON, "noticed only after {late:?}");
    }
    assert_eq!(upstream.stats().in_flight, 0);
}

/// Checks what the gateway made of `count` clients that left, on an upstream whose breaker would open at one failure.
fn expect_client_closed(gateway: &Gateway, count: f64) {
    expect_outcomes(gateway, "client_closed", count);
    let metrics = gateway.metrics();
    let attempts = metrics.sum("weighbridge_attempts_total", &[("outcome", "client_closed")]);
    assert_eq!(attempts, count, "{}", metrics.text);
    let endpoint = [("pool", "m"), ("endpoint", "a")];
    let open = metrics.value(
        "weighbridge_endpoint_state",
        &[endpoint[0], endpoint[1], ("state", "open")],
    );
    assert_eq!(open, 0.0, "the breaker counted clients that left");
    let line = gateway.wait_log(SOON, |line| line["outcome"] == "client_closed");
    assert_eq!(line["status"], 499, "{line}");
}

const TOUCHY: &str = "breaker: {consecutive: 1}";

#[test]
fn str_1_a_client_leaves_in_the_middle_of_a_stream() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, TOUCHY);
    let streams = par(4, |i| {
        let mut stream = Api::ALL[i].stream(&gateway.url(""), "gap=0.1,chunks=300").open();
        assert!(stream.wait_events(4, PATIENCE), "{:?}", stream.text());
        stream
    });
    let left = Instant::now();
    streams.into_iter().for_each(|stream| stream.abort());
    expect_noticed(&upstream, left);
    expect_client_closed(&gateway, 4.0);
    // What had been said before still counts: the messages API says at the start how long the prompt was. The rest is
    // estimated.
    let logged = eventually(PATIENCE, || gateway.log_lines().len() == 4);
    assert!(logged, "{:?}", gateway.log_lines());
    for line in gateway.log_lines() {
        let differs = line["api"] == "/v1/messages" && line["prompt_tokens"] != 11;
        assert!(!differs && line["usage_estimated"] == true, "{line}");
        let written = line["prompt_tokens"]
            .as_u64()
            .zip(line["completion_tokens"].as_u64());
        assert!(
            written.is_some_and(|(prompt, completion)| prompt > 0 && completion > 0),
            "{line}"
        );
    }
}

#[test]
fn str_1_b_c_d_a_client_leaves_while_it_waits() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, TOUCHY);
    let base = gateway.url("");
    let waiting: Vec<_> = Api::ALL
        .into_iter()
        .flat_map(|api| {
            [
                api.stream(&base, "hang=headers"),
                api.stream(&base, "hang=body"),
                api.whole(&base, "delay=20"),
            ]
        })
        .map(|request| request.begin().unwrap())
        .collect();
    wait_running(&upstream, 12);
    let left = Instant::now();
    waiting.into_iter().for_each(|pending| pending.abort());
    expect_noticed(&upstream, left);
    expect_client_closed(&gateway, 12.0);
}

#[test]
fn str_1_a_client_that_resets_is_noticed() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, TOUCHY);
    let mut client = raw(address(&gateway));
    client.write(chat_bytes("delay=20", false, "")).unwrap();
    wait_running(&upstream, 1);
    client.reset_on_drop();
    let left = Instant::now();
    drop(client);
    expect_noticed(&upstream, left);
    expect_client_closed(&gateway, 1.0);
}

#[test]
fn str_1_a_client_with_a_large_prompt_is_noticed() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, TOUCHY);
    let body = format!(
        r#"{{"model": "m", "messages": [{{"role": "user", "content": "{}"}}]}}"#,
        "long ".repeat(800_000)
    );
    upstream.set_mode("delay=20");
    let pending = Request::post(&gateway.url("/v1/chat/completions"), body)
        .begin()
        .unwrap();
    wait_running(&upstream, 1);
    let left = Instant::now();
    pending.abort();
    expect_noticed(&upstream, left);
    expect_client_closed(&gateway, 1.0);
}

#[test]
fn str_1_a_client_that_sent_its_next_request_already_is_noticed() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, TOUCHY);
    let mut client = raw(address(&gateway));
    client.write(chat_bytes("delay=20", false, "")).unwrap();
    wait_running(&upstream, 1);
    client.write(chat_bytes("", false, "")).unwrap();
    let left = Instant::now();
    drop(client);
    expect_noticed(&upstream, left);
    expect_client_closed(&gateway, 1.0);
}

#[test]
fn str_1_a_client_that_speaks_http_1_0_is_noticed() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, TOUCHY);
    let base = gateway.url("");
    let mut stream = Api::Chat.stream(&base, "gap=0.1,chunks=300").http10().open();
    assert!(stream.wait_events(2, PATIENCE));
    let left = Instant::now();
    stream.abort();
    expect_noticed(&upstream, left);
    // Nothing can be written to it before its answer that would tell a close from a half-close, so that takes longer.
    let pending = Api::Chat.whole(&base, "delay=60").http10().begin().unwrap();
    wait_running(&upstream, 1);
    pending.abort();
    assert!(eventually(PATIENCE, || upstream.posts()[1].ended_as("peer_gone")));
    expect_client_closed(&gateway, 2.0);
}

#[test]
fn str_1_a_client_that_half_closes_is_answered() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let base = gateway.url("");
    let requests = |api: Api| {
        [
            (true, api.stream(&base, "")),
            (true, api.stream(&base, "delay=1.5")),
            (true, api.stream(&base, "gap=0.2")),
            (true, api.stream(&base, "delay_body=1.5")),
            (false, api.whole(&base, "")),
            (false, api.whole(&base, "delay=1.5")),
        ]
    };
    let all: Vec<_> = Api::ALL
        .into_iter()
        .flat_map(|api| requests(api).map(|(streams, request)| (api, streams, request)))
        .collect();
    par(all.len(), |i| {
        let (api, streams, request) = &all[i];
        let mut stream = request.clone().half_close().open();
        assert_eq!(stream.status, 200);
        if *streams {
            expect_whole(*api, &mut stream);
        } else {
            assert!(stream.finish(PATIENCE).is_whole());
            assert!(stream.text().contains("a: these"), "{}", stream.text());
        }
    });
    expect_outcomes(&gateway, "ok", 24.0);
    let old = Api::Chat.whole(&base, "delay=1.5").http10().half_close().send();
    assert_eq!(old.status, 200);
}

#[test]
fn str_1_a_client_that_half_closes_and_then_closes_is_noticed() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, TOUCHY);
    let base = gateway.url("");
    let mut stream = Api::Chat.stream(&base, "hang=3").half_close().open();
    assert!(stream.wait_events(3, PATIENCE));
    let waiting = Api::Messages
        .whole(&base, "hang=headers")
        .half_close()
        .begin()
        .unwrap();
    wait_running(&upstream, 2);
    // Long enough for several looks at whether they are still there.
    let quiet = Instant::now();
    let kept = eventually(Duration::from_millis(1500), || upstream.stats().in_flight < 2);
    assert!(
        !kept,
        "given up after {:?} though it only stopped sending",
        quiet.elapsed()
    );
    stream.abort();
    waiting.abort();
    // Looks are two seconds apart by then.
    let noticed = eventually(PATIENCE, || {
        upstream.posts().iter().all(|post| post.ended_as("peer_gone"))
    });
    assert!(noticed, "{:?}", upstream.posts());
    expect_client_closed(&gateway, 2.0);
}

#[test]
fn str_1_a_client_that_leaves_after_the_end_mark_has_its_whole_answer() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, TOUCHY);
    // The pause follows the end mark too, before the body ends.
    par(4, |i| {
        let api = Api::ALL[i];
        let mut stream = api.stream(&gateway.url(""), "chunks=1,gap=0.4").open();
        let whole = stream.read_until(PATIENCE, |stream| {
            stream.events().iter().any(|event| api.is_end_mark(event))
        });
        assert!(whole, "{}", stream.text());
        stream.abort();
    });
    expect_outcomes(&gateway, "ok", 4.0);
}

#[test]
fn str_1_a_client_that_leaves_in_the_middle_of_its_request_is_no_error() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let mut client = raw(address(&gateway));
    client
        .write("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{\"model\"")
        .unwrap();
    let running = || gateway.metrics().value("weighbridge_requests_running", &[]);
    assert!(eventually(PATIENCE, || running() == 1.0));
    drop(client);
    assert!(
        eventually(PATIENCE, || outcomes(&gateway, "client_closed") == 1.0),
        "{}",
        gateway.metrics().text
    );
    expect_idle(&gateway);
    assert!(upstream.posts().is_empty());
}
