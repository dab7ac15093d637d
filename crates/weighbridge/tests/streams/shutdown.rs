//! DIS-1: stopping lets answers end.

use crate::support::{
    Api, CHUNKED, ONE_OF_MANY, PATIENCE, SOON, address, answered_unread, canned, expect_error_last,
    expect_whole, gateway, gateway_to_url, narrow_client, read_all, wait_running,
};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Connection, End, Request, StreamClient, get};
use weighbridge_test_engine::harness::{Gateway, Signal};
use weighbridge_test_engine::{Upstream, eventually};

fn stopping(upstream: &Upstream, server: &str) -> Gateway {
    let url = upstream.url();
    gateway(&format!(
        "
        server: {{{server}}}
        pools: [{{name: m, kind: generic, endpoints: ['{url}']}}]
        "
    ))
}

fn ready(gateway: &Gateway) -> u16 {
    get(&gateway.url("/ready"), &[]).status
}

/// Five running streams that last for about `seconds`.
fn streams(gateway: &Gateway, seconds: f64) -> Vec<(Api, StreamClient)> {
    let mode = format!("gap={},chunks=10", seconds / 10.0);
    let open = |i: usize| {
        let api = Api::ALL[i % 4];
        let mut stream = api.stream(&gateway.url(""), &mode).open();
        assert!(stream.wait_events(1, PATIENCE));
        (api, stream)
    };
    (0..5).map(open).collect()
}

#[test]
fn dis_1_running_streams_end_and_new_requests_are_turned_away() {
    let upstream = Upstream::start("a");
    let mut gateway = stopping(&upstream, "drain_timeout: 30s");
    let running = streams(&gateway, 3.0);
    let kept = Connection::to(&gateway.url("")).unwrap();
    let (_, kept) = kept.send(&Api::Chat.whole(&gateway.url(""), "")).unwrap();
    assert_eq!(ready(&gateway), 200);
    gateway.sigterm();
    let told = Instant::now();
    assert!(eventually(SOON, || ready(&gateway) == 503));
    assert_eq!(get(&gateway.url("/health"), &[]).status, 200);
    for api in Api::ALL {
        let refused = api.whole(&gateway.url(""), "").send();
        assert_eq!(refused.status, 503, "{}", refused.text());
        assert_eq!(refused.header("connection"), Some("close"));
        assert!(refused.header("retry-after").is_some());
        assert_eq!(refused.json()["type"] == "error", api == Api::Messages);
    }
    let (refused, after) = kept
        .expect("kept alive")
        .send(&Api::Chat.whole(&gateway.url(""), ""))
        .unwrap();
    assert_eq!(
        (refused.status, after.is_some()),
        (503, false),
        "on a connection that was open before"
    );
    assert!(told.elapsed() < SOON, "checked before the streams ended");
    assert!(!gateway.has_ended());
    for (api, mut stream) in running {
        expect_whole(api, &mut stream);
    }
    let last = Instant::now();
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0), "{}", gateway.output());
    assert!(
        last.elapsed() < Duration::from_secs(1),
        "exit {:?} after the last stream",
        last.elapsed()
    );
    assert_eq!(upstream.posts().len(), 6);
    assert_eq!(
        gateway.log_lines().len(),
        11,
        "every request left its line: {}",
        gateway.stdout()
    );
}

#[test]
fn dis_1_the_delay_keeps_the_door_open() {
    let upstream = Upstream::start("a");
    let mut gateway = stopping(&upstream, "drain_delay: 3s, drain_timeout: 30s");
    gateway.sigterm();
    let told = Instant::now();
    assert!(eventually(SOON, || ready(&gateway) == 503));
    for api in Api::ALL {
        let response = api.whole(&gateway.url(""), "").send();
        assert_eq!(response.status, 200, "{}", response.text());
        // Clients that keep connections are to look for another gateway.
        assert_eq!(response.header("connection"), Some("close"));
    }
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0), "{}", gateway.output());
    assert!(told.elapsed() >= Duration::from_secs(3));
}

#[test]
fn dis_1_a_long_stream_is_told_when_the_time_is_over() {
    let upstream = Upstream::start("a");
    let mut gateway = stopping(&upstream, "drain_timeout: 1500ms");
    let base = gateway.url("");
    let mut long: Vec<_> = Api::ALL
        .into_iter()
        .map(|api| {
            let mut stream = api.stream(&base, "gap=0.5,chunks=100").open();
            assert!(stream.wait_events(1, PATIENCE));
            (api, stream)
        })
        .collect();
    let waiting = Api::Chat.whole(&base, "delay=60").begin().unwrap();
    let half_closed = Api::Chat
        .stream(&base, "gap=0.5,chunks=100")
        .half_close()
        .begin()
        .unwrap();
    wait_running(&upstream, 6);
    gateway.sigterm();
    let told = Instant::now();
    let refused = waiting.response(PATIENCE).unwrap();
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(
        told.elapsed() >= Duration::from_millis(1400),
        "{:?}",
        told.elapsed()
    );
    for (api, stream) in &mut long {
        stream.finish(PATIENCE);
        let (_, error) = expect_error_last(*api, stream);
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("this request was cut"), "{message}");
        assert!(!message.contains("new requests"), "{message}");
    }
    let mut half_closed = half_closed.head(PATIENCE).unwrap();
    half_closed.finish(PATIENCE);
    expect_error_last(Api::Chat, &half_closed);
    assert!(told.elapsed() < Duration::from_secs(6), "{:?}", told.elapsed());
    assert_eq!(gateway.wait_exit(PATIENCE), Some(1), "{}", gateway.output());
    assert!(!gateway.stderr().contains("panicked"), "{}", gateway.stderr());
    let lines = gateway.log_lines();
    assert_eq!(
        lines
            .iter()
            .filter(|line| line["outcome"] == "unavailable")
            .count(),
        6,
        "{lines:#?}"
    );
    let attempts = lines
        .iter()
        .map(|line| line["attempts"].as_u64().unwrap())
        .sum::<u64>();
    assert_eq!(attempts, 6);
}

#[test]
fn dis_1_a_stream_that_stands_inside_an_event_is_cut() {
    const BODY: &str = "32\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\nda\r\n";
    let url = canned(CHUNKED, BODY, true);
    let mut gateway = gateway_to_url(&url, "server: {drain_timeout: 500ms}");
    let mut stream = Api::Chat.stream(&gateway.url(""), "").open();
    assert!(stream.wait_events(1, PATIENCE));
    gateway.sigterm();
    // Nothing fits into the middle of an event, so the connection says it.
    assert_eq!(stream.finish(PATIENCE), End::Premature);
    assert!(stream.text().ends_with("\n\nda"), "{}", stream.text());
    assert_eq!(gateway.wait_exit(PATIENCE), Some(1), "{}", gateway.output());
    assert!(!gateway.stderr().contains("panicked"), "{}", gateway.stderr());
}

#[test]
fn dis_1_a_second_signal_ends_it_at_once() {
    let upstream = Upstream::start("a");
    for second in [Signal::TERM, Signal::INT] {
        let mut gateway = stopping(&upstream, "drain_timeout: 60s");
        let mut stream = Api::Chat.stream(&gateway.url(""), "gap=0.2,chunks=300").open();
        assert!(stream.wait_events(1, PATIENCE));
        gateway.sigterm();
        assert!(eventually(SOON, || ready(&gateway) == 503));
        assert!(!gateway.has_ended());
        gateway.signal(second);
        let told = Instant::now();
        assert_eq!(gateway.wait_exit(PATIENCE), Some(1), "{}", gateway.output());
        assert!(told.elapsed() < SOON);
    }
}

#[test]
fn dis_1_an_idle_gateway_ends_at_once() {
    let upstream = Upstream::start("a");
    for signal in [Signal::TERM, Signal::INT] {
        let mut gateway = stopping(&upstream, "drain_timeout: 60s");
        let idle = Connection::to(&gateway.url("")).unwrap();
        let (_, idle) = idle.send(&Api::Chat.whole(&gateway.url(""), "")).unwrap();
        gateway.signal(signal);
        let told = Instant::now();
        assert_eq!(gateway.wait_exit(PATIENCE), Some(0), "{}", gateway.output());
        assert!(told.elapsed() < SOON, "an idle connection holds nothing up");
        drop(idle);
    }
}

#[test]
fn dis_1_the_last_bytes_reach_a_slow_reader() {
    let upstream = Upstream::start("a");
    let mut gateway = stopping(&upstream, "drain_timeout: 30s");
    // More answers than the kernels hold for a client that reads nothing, none too large to be taken whole.
    let mut client = narrow_client(address(&gateway));
    let answered = answered_unread(&gateway, &mut client);
    gateway.sigterm();
    assert!(eventually(SOON, || ready(&gateway) == 503));
    assert!(
        !eventually(Duration::from_millis(700), || gateway.has_ended()),
        "ended with bytes unwritten"
    );
    let received = read_all(&mut client);
    let text = String::from_utf8_lossy(&received);
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), answered);
    assert!(
        received.len() > answered * ONE_OF_MANY,
        "{} bytes of {answered} answers",
        received.len()
    );
    // The one that waited behind them was told to go elsewhere.
    assert_eq!(text.matches("HTTP/1.1 503").count(), 1);
    assert_eq!(gateway.wait_exit(PATIENCE), Some(0), "{}", gateway.output());
}

#[test]
fn dis_1_a_request_that_has_not_arrived_whole_is_answered() {
    let upstream = Upstream::start("a");
    let mut gateway = stopping(&upstream, "drain_timeout: 1s");
    let mut client = weighbridge_test_engine::client::raw(address(&gateway));
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{";
    client.write(head).unwrap();
    let running = || gateway.metrics().value("weighbridge_requests_running", &[]);
    assert!(eventually(PATIENCE, || running() == 1.0));
    gateway.sigterm();
    assert!(client.read_until("HTTP/1.1 503", PATIENCE), "{}", client.text());
    assert_eq!(gateway.wait_exit(PATIENCE), Some(1), "{}", gateway.output());
}

#[test]
fn dis_1_readiness_and_liveness_need_no_key() {
    let upstream = Upstream::start("a");
    let url = upstream.url();
    let gateway = gateway(&format!(
        "
        auth: keys
        keys: [{{name: k, key: secret-of-k}}]
        pools: [{{name: m, kind: generic, endpoints: ['{url}']}}]
        "
    ));
    for path in ["/ready", "/health"] {
        let body = get(&gateway.url(path), &[]);
        let head = Request::new("HEAD", &gateway.url(path)).send();
        assert_eq!((body.status, head.status), (200, 200));
        assert_eq!(head.header("content-length"), body.header("content-length"));
        assert!(head.body.is_empty());
    }
}
