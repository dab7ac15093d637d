//! FAIL-5: a pooled connection that the upstream has just closed costs nobody a request.

use crate::shared::{ask, attempts, gateway, in_order};
use std::time::Duration;
use weighbridge_test_engine::client::{Connection, Request, chat_stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::upstream::Options;
use weighbridge_test_engine::{Upstream, par};

/// Four clients send 15 requests each, with pauses around the time after which the upstream closes idle connections.
fn sweep(request: impl Fn(&Gateway) -> Request + Sync, more: &[&str]) {
    let a = Upstream::start_with(&Options {
        always: "keepalive_idle=0.5".to_owned(),
        ..Options::new("A")
    });
    let gateway = gateway(&in_order(&[&a], &[], more));
    let statuses = par(4, |client| {
        let mut connection = Some(Connection::to(&gateway.url("/")).unwrap());
        let mut statuses = Vec::new();
        for round in 0..15 {
            let (answer, kept) = connection.take().unwrap().send(&request(&gateway)).unwrap();
            statuses.push((answer.status, answer.end.is_whole()));
            connection = kept;
            // 60 different pauses from 0.45 s to 0.55 s.
            std::thread::sleep(Duration::from_micros(
                450_000 + 1_700 * (4 * round + client as u64),
            ));
        }
        statuses
    });
    let all: Vec<_> = statuses.into_iter().flatten().collect();
    assert_eq!(all, vec![(200, true); 60]);
    assert_eq!(a.posts().len(), 60, "each request was read once");
    assert_eq!(attempts(&gateway, "A", "ok"), 60.0);
    assert_eq!(
        gateway.metrics().sum("weighbridge_attempts_total", &[]),
        60.0,
        "no failure is counted"
    );
    assert!(
        a.stats().conns > 1,
        "connections were closed in between: {:?}",
        a.stats()
    );
    assert!(
        a.posts().iter().any(|post| post.nreq_on_conn > 1),
        "connections were used again: the sweep crosses the moment of closing"
    );
}

#[test]
fn fail5_no_request_is_lost_to_a_closed_connection() {
    sweep(|gateway| ask(gateway, "r"), &[]);
}

#[test]
fn fail5_no_stream_is_lost_to_a_closed_connection() {
    sweep(
        |gateway| Request::post(&gateway.url("/v1/chat/completions"), chat_stream("r", "hello")),
        &[],
    );
}

#[test]
fn fail5_the_pool_lets_go_before_the_upstream_does() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &["keepalive: 200ms"]));
    let first = crate::shared::send_all(&gateway, [ask(&gateway, "r"), ask(&gateway, "r")]);
    assert!(first.iter().all(|answer| answer.status == 200));
    assert_eq!(a.posts()[1].nreq_on_conn, 2, "used again while it is fresh");
    let closed = weighbridge_test_engine::eventually(crate::shared::SOON, || a.stats().open == 0);
    assert!(closed, "idle connections past `keepalive` are closed");
}
