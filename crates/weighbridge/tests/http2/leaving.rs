//! STR-1 over every way: a client that goes away is noticed at once, whatever its request waits for.

use crate::door::{Door, H1_TLS, H2, H2_TLS, over_all};
use crate::support::{Api, PATIENCE, SOON, expect_outcomes, expect_whole, outcomes, wait_running};
use std::time::Instant;
use weighbridge_test_engine::client::Http;
use weighbridge_test_engine::{Upstream, eventually};

const TOUCHY: &str = "breaker: {consecutive: 1}";

/// Waits until every request that `upstream` got has ended because its peer left, soon after `left`.
fn expect_noticed(upstream: &Upstream, left: Instant) {
    let noticed = eventually(SOON, || {
        upstream.posts().iter().all(|post| post.ended_as("peer_gone"))
    });
    assert!(noticed, "still at work: {:?}", upstream.posts());
    for post in upstream.posts() {
        let late = post.ended().unwrap().saturating_duration_since(left);
        assert!(late < SOON, "noticed only after {late:?}");
    }
}

fn expect_client_closed(door: &Door, count: f64) {
    expect_outcomes(&door.gateway, "client_closed", count);
    let metrics = door.gateway.metrics();
    let attempts = metrics.sum("weighbridge_attempts_total", &[("outcome", "client_closed")]);
    assert_eq!(attempts, count, "{}", metrics.text);
    let labels = [("pool", "m"), ("endpoint", "a"), ("state", "open")];
    let open = metrics.value("weighbridge_endpoint_state", &labels);
    assert_eq!(open, 0.0, "the breaker counted clients that left");
    let running = || door.gateway.metrics().value("weighbridge_requests_running", &[]);
    assert!(eventually(SOON, || running() == 0.0), "{} run", running());
}

#[test]
fn str_1_over_every_way_a_client_leaves_in_the_middle_of_a_stream() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, TOUCHY);
        let open = |api: Api| {
            let mut stream = door.stream(api, "gap=0.1,chunks=300").open();
            assert!(stream.wait_events(4, PATIENCE), "{way:?}: {}", stream.text());
            stream
        };
        let streams = Api::ALL.map(open);
        let [first, second, third, fourth] = streams;
        let left = Instant::now();
        first.abort();
        second.abort_with_reset();
        third.abort();
        fourth.abort_with_reset();
        expect_noticed(&upstream, left);
        expect_client_closed(&door, 4.0);
    });
}

#[test]
fn str_1_over_every_way_a_client_leaves_while_it_waits_for_the_answer() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, TOUCHY);
        let waiting = [
            door.whole(Api::Chat, "delay=20"),
            door.stream(Api::Messages, "hang=headers"),
            door.stream(Api::Responses, "hang=body"),
            door.whole(Api::Completions, "hang=body"),
        ];
        let waiting = waiting.map(|request| request.begin().unwrap());
        wait_running(&upstream, 4);
        let left = Instant::now();
        waiting.into_iter().for_each(|pending| pending.abort());
        expect_noticed(&upstream, left);
        expect_client_closed(&door, 4.0);
    });
}

#[test]
fn str_1_over_every_way_a_client_leaves_in_the_middle_of_its_request() {
    over_all(|way| {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, TOUCHY);
        let pending = door.whole(Api::Chat, "").unfinished().begin().unwrap();
        let running = || door.gateway.metrics().value("weighbridge_requests_running", &[]);
        assert!(eventually(PATIENCE, || running() == 1.0));
        pending.abort();
        let told = eventually(PATIENCE, || outcomes(&door.gateway, "client_closed") == 1.0);
        assert!(told, "{way:?}: {}", door.gateway.metrics().text);
        assert!(eventually(SOON, || running() == 0.0));
        assert!(upstream.posts().is_empty());
    });
}

#[test]
fn str_1_one_stream_of_many_is_reset_and_the_others_go_on() {
    for way in [H2, H2_TLS] {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, TOUCHY);
        let session = door.session();
        let begin = |api: Api, mode: &str| session.begin(&door.stream(api, mode)).unwrap();
        let left = begin(Api::Chat, "gap=0.1,chunks=300");
        let waiting = begin(Api::Responses, "hang=headers");
        let others = Api::ALL.map(|api| (api, begin(api, "gap=0.2,chunks=12")));
        let mut left = left.head(PATIENCE).unwrap();
        assert!(left.wait_events(2, PATIENCE));
        wait_running(&upstream, 6);
        let now = Instant::now();
        left.abort();
        waiting.abort();
        let gone = || {
            upstream
                .posts()
                .iter()
                .filter(|post| post.ended_as("peer_gone"))
                .count()
        };
        assert!(eventually(SOON, || gone() == 2), "{:?}", upstream.posts());
        assert!(now.elapsed() < SOON);
        for (api, pending) in others {
            expect_whole(api, &mut pending.head(PATIENCE).unwrap());
        }
        assert!(eventually(SOON, || outcomes(&door.gateway, "client_closed") == 2.0));
        assert!(eventually(SOON, || outcomes(&door.gateway, "ok") == 4.0));
    }
}

#[test]
fn str_1_a_connection_that_closes_takes_all_its_streams_along() {
    for (way, by_reset) in [(H2, false), (H2, true), (H2_TLS, false), (H2_TLS, true)] {
        let upstream = Upstream::start("a");
        let door = Door::to(way, &upstream, TOUCHY);
        let session = door.session();
        let requests = [
            door.stream(Api::Chat, "gap=0.1,chunks=300"),
            door.stream(Api::Messages, "hang=3"),
            door.whole(Api::Chat, "delay=20"),
            door.stream(Api::Responses, "hang=headers"),
        ];
        let begun = requests.map(|request| session.begin(&request).unwrap());
        wait_running(&upstream, 4);
        let left = Instant::now();
        if by_reset {
            session.reset()
        } else {
            session.close()
        };
        expect_noticed(&upstream, left);
        expect_client_closed(&door, 4.0);
        drop(begun);
    }
}

#[test]
fn str_1_under_tls_a_client_that_only_stops_sending_is_answered() {
    let upstream = Upstream::start("a");
    let door = Door::to(H1_TLS, &upstream, TOUCHY);
    let [stream, whole] = [
        door.stream(Api::Chat, "delay=1.5,gap=0.2"),
        door.whole(Api::Messages, "delay=1.5"),
    ];
    // With a FIN below, and with TLS's own word alone.
    let mut closed = stream.clone().half_close().open();
    expect_whole(Api::Chat, &mut closed);
    assert_eq!(whole.clone().half_close().send().status, 200);
    let mut told = whole.begin().unwrap();
    told.close_notify().unwrap();
    assert_eq!(told.response(PATIENCE).unwrap().status, 200);
    let mut told = stream.begin().unwrap();
    told.close_notify().unwrap();
    expect_whole(Api::Chat, &mut told.head(PATIENCE).unwrap());
    expect_outcomes(&door.gateway, "ok", 4.0);
}

#[test]
fn str_1_under_tls_a_client_that_stops_sending_and_then_closes_is_noticed() {
    let upstream = Upstream::start("a");
    let door = Door::to(H1_TLS, &upstream, TOUCHY);
    assert_eq!(door.way.http, Http::One);
    let mut stream = door.stream(Api::Chat, "hang=3").half_close().open();
    assert!(stream.wait_events(3, PATIENCE));
    let mut told = door.whole(Api::Messages, "hang=headers").begin().unwrap();
    told.close_notify().unwrap();
    wait_running(&upstream, 2);
    stream.abort();
    told.abort();
    let noticed = eventually(PATIENCE, || {
        upstream.posts().iter().all(|post| post.ended_as("peer_gone"))
    });
    assert!(noticed, "{:?}", upstream.posts());
    expect_client_closed(&door, 2.0);
}

#[test]
fn str_1_under_tls_what_comes_while_a_client_waits_is_its_next_request() {
    let upstream = Upstream::start("a");
    let door = Door::to(H1_TLS, &upstream, TOUCHY);
    let connection = weighbridge_test_engine::client::Connection::trusting(&door.url(""), Some(&door.trust));
    let slow = door.whole(Api::Chat, "delay=1");
    let quick = door.whole(Api::Messages, "big=5000");
    let pending = slow.begin_on(connection.unwrap()).unwrap();
    wait_running(&upstream, 1);
    let pending = pending.pipelined(&quick).unwrap();
    let (first, rest) = pending.response_and_rest(PATIENCE).unwrap();
    let rest = rest.expect("the connection goes on").awaiting();
    let second = rest.response(PATIENCE).unwrap();
    assert_eq!((first.status, second.status), (200, 200));
    assert!(
        second.text().contains("\"type\":\"message\""),
        "{}",
        second.text()
    );
}
