//! STR-2: an upstream that dies in the middle of a stream. The client gets what came, then is told; nothing is sent
//! again, and nothing that looks like a good end follows.

use crate::support::{
    Api, CHUNKED, CLOSE_DELIMITED, PATIENCE, SOON, address, canned, chat_bytes, expect_error_last,
    expect_idle, expect_outcomes, gateway_to, gateway_to_either, gateway_to_url, narrow_client, outcomes,
    read_all,
};
use std::io::Write as _;
use std::time::Instant;
use weighbridge_test_engine::client::{Connection, End, StreamClient};
use weighbridge_test_engine::{Upstream, eventually, par};

/// What the first `count` events of an answer in `mode` look like when nothing stands in between.
fn direct(api: Api, upstream: &Upstream, mode: &str, count: usize) -> Vec<String> {
    let mut stream = api.stream(&upstream.url(), mode).open();
    stream.finish(PATIENCE);
    stream.data().into_iter().take(count).collect()
}

fn check_cut(mode: &str, outcome: &str) {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = gateway_to_either(&a, &b, "connect, reset, timeout, '500', '502', '503'");
    par(4, |i| {
        let api = Api::ALL[i];
        let expected = direct(api, &a, "", 4);
        let began = Instant::now();
        let mut stream = api.stream(&gateway.url(""), mode).open();
        assert_eq!(stream.status, 200);
        stream.finish(PATIENCE);
        assert!(began.elapsed() < SOON, "the end came late");
        let (events, error) = expect_error_last(api, &stream);
        assert!(
            stream.events().last().is_some_and(|last| api.is_own_error(last)),
            "{}",
            stream.text()
        );
        let data: Vec<_> = events.iter().map(|event| event.data.clone()).collect();
        assert_eq!(data, expected, "{api:?}");
        assert!(!stream.text().contains("b: "), "{}", stream.text());
        let message = error["message"].as_str().unwrap_or_default();
        assert!(!message.contains("127.0.0.1"), "{message}");
    });
    assert!(b.posts().is_empty(), "a delivered request was sent again");
    expect_outcomes(&gateway, outcome, 4.0);
    let attempts = gateway
        .metrics()
        .sum("weighbridge_attempts_total", &[("pool", "a")]);
    assert_eq!(attempts, 4.0);
    let line = gateway.wait_log(SOON, |line| line["outcome"] == outcome);
    assert_eq!(line["status"], 200, "{line}");
}

#[test]
fn str_2_the_upstream_closes_between_two_events() {
    check_cut("cut=4", "upstream_stream_error");
}

#[test]
fn str_2_the_upstream_resets_between_two_events() {
    check_cut("cut=4,cut_kind=rst,gap=0.02", "upstream_stream_error");
}

#[test]
fn str_2_the_upstream_ends_cleanly_without_an_end_mark() {
    check_cut("cut=4,cut_kind=clean", "upstream_truncated");
}

#[test]
fn str_2_a_cut_counts_as_one_failure_of_the_endpoint() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "breaker: {consecutive: 2}, fail_open: false");
    let cut = || {
        let mut stream = Api::Chat.stream(&gateway.url(""), "cut=2").open();
        stream.finish(PATIENCE);
        stream.status
    };
    let opened = || {
        let endpoint = [("pool", "m"), ("endpoint", "a"), ("state", "open")];
        gateway.metrics().value("weighbridge_endpoint_state", &endpoint)
    };
    assert_eq!((cut(), opened()), (200, 0.0));
    assert_eq!((cut(), opened()), (200, 1.0));
    assert_eq!(cut(), 503);
    assert_eq!(upstream.posts().len(), 2);
}

fn read_from(api: Api, url: &str, outcome: &str) -> StreamClient {
    let gateway = gateway_to_url(url, "");
    let mut stream = api.stream(&gateway.url(""), "").open();
    stream.finish(PATIENCE);
    expect_outcomes(&gateway, outcome, 1.0);
    stream
}

#[test]
fn str_2_a_cut_inside_an_event_adds_nothing_to_it() {
    const BODY: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[{\"del";
    // The end is clean for the transport, and yet the stream stops in the middle of an event.
    let stream = read_from(
        Api::Chat,
        &canned(CLOSE_DELIMITED, BODY, false),
        "upstream_truncated",
    );
    assert_eq!((stream.text().as_str(), stream.end()), (BODY, End::Premature));
    // So it is when the chunks break off.
    const CHUNKS: &str = "37\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\r\n";
    let stream = read_from(
        Api::Chat,
        &canned(CHUNKED, CHUNKS, false),
        "upstream_stream_error",
    );
    assert!(stream.text().ends_with("data: {"), "{}", stream.text());
    assert_eq!(stream.end(), End::Premature);
}

#[test]
fn str_2_a_cut_inside_the_first_event_is_an_honest_error() {
    const EVENT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]";
    const CHUNK: &str = "10\r\ndata: {\"choices\"\r\n";
    for url in [
        canned(CLOSE_DELIMITED, EVENT, false),
        canned(CHUNKED, CHUNK, false),
    ] {
        let gateway = gateway_to_url(&url, "");
        // Nothing of it has reached the client yet.
        let response = Api::Chat.stream(&gateway.url(""), "").send();
        assert_eq!(response.status, 502, "{}", response.text());
        assert!(response.json()["error"]["message"].is_string());
        expect_outcomes(&gateway, "upstream_error", 1.0);
    }
}

#[test]
fn str_2_an_end_mark_without_its_blank_line_is_an_end() {
    const BODY: &str =
        "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]";
    let stream = read_from(Api::Chat, &canned(CLOSE_DELIMITED, BODY, false), "ok");
    assert_eq!((stream.text().as_str(), stream.end()), (BODY, End::Complete));
}

#[test]
fn str_2_a_stream_without_an_end_mark_that_said_why_it_stopped_is_whole() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    for api in [Api::Chat, Api::Completions] {
        let mut stream = api.stream(&gateway.url(""), "nodone").open();
        assert!(stream.finish(PATIENCE).is_whole());
        assert!(stream.events().iter().all(|event| api.error(event).is_none()));
    }
    expect_outcomes(&gateway, "ok", 2.0);
}

#[test]
fn str_2_a_split_stream_that_is_cut_ends_between_or_inside_events_as_it_was() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    for mode in ["cut=4,split=7", "cut=4,split=1,unicode", "cut=4,crlf,split=3"] {
        let mut stream = Api::Chat.stream(&gateway.url(""), mode).open();
        stream.finish(PATIENCE);
        let (events, _) = expect_error_last(Api::Chat, &stream);
        assert_eq!(events.len(), 4, "{mode}: {}", stream.text());
    }
}

#[test]
fn str_2_an_answer_in_one_piece_that_breaks_off_is_an_error() {
    let [a, b] = Upstream::start_all(["a", "b"]);
    let gateway = gateway_to_either(&a, &b, "connect, reset");
    for api in Api::ALL {
        // Short enough to be held back whole.
        let response = api.whole(&gateway.url(""), "short=10").send();
        assert_eq!(response.status, 502, "{}", response.text());
        assert!(response.json()["error"]["message"].is_string());
    }
    assert!(b.posts().is_empty());
    expect_outcomes(&gateway, "upstream_error", 4.0);
    // Too long for that: the client has its first part, and sees that the rest is missing.
    let mut long = Api::Chat
        .whole(&gateway.url(""), "big=2000000,cut=600000,split=100000")
        .open();
    assert_eq!(long.status, 200);
    assert_eq!(long.finish(PATIENCE), End::Premature);
    assert_eq!(long.body().len(), 600_000);
    assert!(eventually(SOON, || outcomes(&gateway, "upstream_stream_error") == 1.0));
    expect_idle(&gateway);
}

#[test]
fn str_2_a_slow_reader_gets_all_that_came_before_the_cut() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    // Up to some length the kernels take all that the upstream sends before it dies, though the client reads nothing. A
    // little above it, the rest waits in the gateway, which must not throw it away.
    let known = |id: &str| gateway.log_lines().iter().any(|line| line["request_id"] == id);
    let mut noticed = 0;
    for length in (500_000..8_000_000).step_by(90_000) {
        let id = format!("cut-{length}");
        let mode = format!("big={},split=8192,cut={length}", length + 50_000);
        let mut client = narrow_client(address(&gateway));
        let request = chat_bytes(&mode, false, &format!("x-request-id: {id}\r\n"));
        client.write_all(request.as_bytes()).unwrap();
        let unread = eventually(SOON, || known(&id));
        let received = read_all(&mut client);
        let head = received
            .windows(4)
            .position(|bytes| bytes == b"\r\n\r\n")
            .unwrap()
            + 4;
        let cut = upstream.posts().last().unwrap().cut_after.unwrap();
        assert_eq!((received.len() - head) as u64, cut);
        if !unread {
            break;
        }
        noticed += 1;
    }
    assert!(noticed > 0, "the gateway never saw the end before its client");
}

#[test]
fn str_2_the_connection_is_used_again_after_an_error_event() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let connection = Connection::to(&gateway.url("")).unwrap();
    let (first, connection) = connection
        .send(&Api::Chat.stream(&gateway.url(""), "cut=4"))
        .unwrap();
    assert!(first.text().contains("\"error\""));
    let connection = connection.expect("the chunks of the first answer end properly");
    let (second, _) = connection.send(&Api::Chat.stream(&gateway.url(""), "")).unwrap();
    assert!(second.text().ends_with("data: [DONE]\n\n"), "{}", second.text());
}
