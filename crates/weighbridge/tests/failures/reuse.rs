//! FAIL-5: a pooled connection that the upstream has just closed costs nobody a request.

use crate::shared::{ask, attempts, gateway, in_order};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// An upstream that answers the first request of each connection, begins an answer to the next and closes then. Gives its
/// URL and counts what it reads.
fn breaks_off_within_the_head(begun: &'static str) -> (String, Arc<AtomicUsize>) {
    const WHOLE: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let mut request = [0; 64 * 1024];
            for answer in [WHOLE, begun] {
                if !matches!(peer.read(&mut request), Ok(1..)) {
                    break;
                }
                count.fetch_add(1, Ordering::SeqCst);
                let _ = peer.write_all(answer.as_bytes());
            }
        }
    });
    (url, requests)
}

#[test]
fn fail5_a_request_whose_answer_has_begun_is_not_sent_again() {
    for begun in ["H", "HTTP/1.1 200 OK\r\nconte", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let (url, requests) = breaks_off_within_the_head(begun);
        let gateway = gateway(&format!(
            "pools: [{{name: r, kind: generic, health: false, endpoints: [\"{url}\"]}}]"
        ));
        let connection = Connection::to(&gateway.url("/")).unwrap();
        let (first, kept) = connection.send(&ask(&gateway, "r")).unwrap();
        assert_eq!(first.status, 200);
        // Longer than an upstream's connection must have been idle for its silent end to be no answer.
        std::thread::sleep(Duration::from_millis(150));
        let (second, _) = kept.unwrap().send(&ask(&gateway, "r")).unwrap();
        assert_eq!(second.status, 502, "{begun:?}: {}", second.text());
        assert_eq!(requests.load(Ordering::SeqCst), 2, "{begun:?}");
    }
}
