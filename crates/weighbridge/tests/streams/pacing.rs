//! STR-7: nothing is held back.

use crate::support::{
    Api, PATIENCE, SOON, address, chat_bytes, expect_outcomes, expect_whole, gateway_passively_to, gateway_to,
};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{End, StreamClient, raw};
use weighbridge_test_engine::{Upstream, eventually, par};

const GAP: Duration = Duration::from_millis(250);

/// Checks that events which left the upstream one gap apart arrive one by one.
///
/// Each may be late by less than a gap, so that one that waits for the next is told from one that a busy machine
/// delays; sums do not hide it, since the first arrival sets no clock.
fn expect_paced(stream: &StreamClient, sent_at: Instant) {
    let events = stream.events();
    assert!(events.len() >= 8, "{}", stream.text());
    for pair in events.windows(2).take(events.len() - 3) {
        assert!(pair[0].at < pair[1].at, "two events at once: {}", stream.text());
    }
    let late: Vec<_> = (0..events.len())
        .map(|i| {
            events[i]
                .at
                .saturating_duration_since(sent_at + GAP * u32::try_from(i).unwrap())
        })
        .collect();
    let in_time = late.iter().filter(|late| **late < GAP).count();
    assert!(in_time * 4 >= late.len() * 3, "late by {late:?}");
}

fn sent_at(upstream: &Upstream, path: &str) -> Instant {
    let post = upstream
        .posts()
        .into_iter()
        .find(|post| post.target == path)
        .expect("a request");
    weighbridge_test_engine::clock::instant(post.t_first_event.expect("an event"))
}

#[test]
fn str_7_each_event_arrives_when_it_was_sent() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    par(4, |i| {
        let api = Api::ALL[i];
        let mut stream = api.stream(&gateway.url(""), "gap=0.25,chunks=8").open();
        expect_whole(api, &mut stream);
        expect_paced(&stream, sent_at(&upstream, api.path()));
        assert!(
            stream
                .header("content-type")
                .unwrap()
                .starts_with("text/event-stream")
        );
        assert_eq!(stream.header("cache-control"), Some("no-cache"));
        assert_eq!(stream.header("x-accel-buffering"), Some("no"));
        assert_eq!(stream.header("content-length"), None);
        assert!(stream.header("x-request-id").is_some());
        let first = stream.pieces().first().unwrap().at;
        assert!(stream.head_at <= first);
    });
}

#[test]
fn str_7_small_pieces_arrive_as_they_come() {
    let upstream = Upstream::start("a");
    let gateway = gateway_passively_to(&upstream);
    let mut stream = Api::Chat
        .stream(&gateway.url(""), "split=60,split_delay=0.2,chunks=2")
        .open();
    let began = Instant::now();
    assert!(stream.read_until(PATIENCE, |stream| stream.pieces().len() >= 4));
    assert!(
        began.elapsed() >= Duration::from_millis(400),
        "pieces were gathered"
    );
    assert!(
        stream
            .pieces()
            .iter()
            .skip(1)
            .take(3)
            .all(|piece| piece.bytes.len() <= 120)
    );
}

#[test]
fn str_7_clients_of_http_1_0_read_to_the_end_of_the_connection() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    par(4, |i| {
        let api = Api::ALL[i];
        let mut stream = api.stream(&gateway.url(""), "gap=0.25,chunks=8").http10().open();
        expect_whole(api, &mut stream);
        assert_eq!(stream.end(), End::Closed);
        assert_eq!(stream.header("transfer-encoding"), None);
        expect_paced(&stream, sent_at(&upstream, api.path()));
    });
}

#[test]
fn str_7_streams_are_asked_for_unencoded() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let request = Api::Chat
        .stream(&gateway.url(""), "gzip")
        .header("accept-encoding", "gzip, deflate, br");
    let mut stream = request.open();
    expect_whole(Api::Chat, &mut stream);
    assert_eq!(stream.header("content-encoding"), None);
    assert_eq!(upstream.posts()[0].header("accept-encoding"), Some("identity"));
    assert_eq!(upstream.posts()[0].header_count("accept-encoding"), 1);
}

#[test]
fn str_7_a_stream_is_not_held_back_by_a_request_that_waits_behind_it() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    // Both requests arrive in one piece.
    let both = chat_bytes("hang=3", true, "") + &chat_bytes("", false, "");
    let mut client = raw(address(&gateway));
    client.write(both).unwrap();
    assert!(client.read_until("data: ", SOON), "{}", client.text());
}

#[test]
fn str_7_requests_in_a_row_are_answered_in_a_row() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let mut client = raw(address(&gateway));
    let all: String = (0..20)
        .map(|i| {
            chat_bytes(
                &format!("text=number {i} of 20"),
                i % 3 == 0,
                "connection: keep-alive\r\n",
            )
        })
        .collect();
    client
        .write(all + &chat_bytes("text=the last", false, "connection: close\r\n"))
        .unwrap();
    client.read_to_end(PATIENCE).unwrap();
    let text = client.text();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 21, "{text}");
    let mut order: Vec<_> = upstream.posts().iter().map(|post| post.t).collect();
    assert!(order.is_sorted());
    order.dedup();
    assert_eq!(order.len(), 21);
    assert!(text.contains("the last"));
    expect_outcomes(&gateway, "ok", 21.0);
}

#[test]
fn str_7_a_client_that_does_not_read_slows_the_upstream_down() {
    let upstream = Upstream::start("a");
    let gateway = gateway_to(&upstream, "");
    let base = gateway.url("");
    let requests = [
        Api::Chat.stream(&base, "big=60000000,chunks=2000"),
        Api::Chat.whole(&base, "big=60000000"),
    ];
    for (i, request) in requests.iter().enumerate() {
        let pending = request.begin().unwrap();
        let sent = || upstream.posts().get(i).map_or(0, |post| post.bytes_sent);
        assert!(eventually(PATIENCE, || sent() > 0));
        // Wait until it stands still: what the kernels' buffers take has been taken.
        let (mut before, mut since) = (sent(), Instant::now());
        let still = eventually(PATIENCE, || {
            let now = sent();
            if now != before {
                (before, since) = (now, Instant::now());
            }
            since.elapsed() > Duration::from_millis(700)
        });
        assert!(
            still && before < 40_000_000,
            "{before} bytes were taken for a client that reads none"
        );
        let mut stream = pending.head(PATIENCE).unwrap();
        assert_eq!(stream.finish(PATIENCE * 2), End::Complete);
        assert!(stream.body().len() >= 60_000_000);
    }
    expect_outcomes(&gateway, "ok", 2.0);
}
