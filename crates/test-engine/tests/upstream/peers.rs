//! What the upstream notices of its peers.

use super::{SOON, chat_request};
use std::time::Duration;
use weighbridge_test_engine::client::{Pending, raw};
use weighbridge_test_engine::{Upstream, eventually, par};

fn begin(up: &Upstream, mode: &str, stream: bool) -> Pending {
    let pending = chat_request(up, mode, stream).begin().unwrap();
    assert!(eventually(SOON, || up.stats().in_flight == 1), "{mode}");
    pending
}

#[test]
fn a_peer_that_leaves_is_noticed_whatever_hangs() {
    let up = Upstream::start("A");
    for mode in ["hang=headers", "hang=body", "delay=20", "gap=0.2,chunks=100"] {
        up.reset();
        begin(&up, mode, true).abort();
        up.wait_idle(Duration::from_secs(2));
        let record = &up.posts()[0];
        assert!(
            record.ended_as("peer_gone") && record.peer_eof_at.is_some(),
            "{mode}: {record:?}"
        );
        assert!(
            record.t_end.unwrap() - record.peer_eof_at.unwrap() < 1.0,
            "{mode}: {record:?}"
        );
        assert_eq!(up.stats().aborted, 1, "{mode}");
    }
}

#[test]
fn a_peer_that_leaves_within_a_stream_is_noticed() {
    let up = Upstream::start("A");
    let mut stream = chat_request(&up, "hang=3", true).open();
    assert!(stream.wait_events(3, SOON));
    stream.abort_with_reset();
    up.wait_idle(Duration::from_secs(2));
    let record = &up.posts()[0];
    assert_eq!((record.outcome, record.events_sent), (Some("peer_gone"), 3));
}

#[test]
fn a_half_closed_peer_is_answered() {
    let up = Upstream::start("A");
    let answer = chat_request(&up, "delay=0.1", false).half_close().send();
    assert_eq!(answer.status, 200);
    up.wait_idle(SOON);
    let record = &up.posts()[0];
    assert!(
        record.ended_as("completed") && record.peer_eof_at.is_some(),
        "{record:?}"
    );
}

#[test]
fn a_slow_reader_stops_the_writer() {
    let up = Upstream::start("A");
    let mut bare = raw(up.addr());
    rustix::net::sockopt::set_socket_recv_buffer_size(bare.socket(), 4096).unwrap();
    let body = r#"{"model":"m@@big=30000000,chunks=3000","stream":true}"#;
    bare.write(format!(
        "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
    .unwrap();
    assert!(bare.read_until("data: ", SOON));
    let sent = || up.posts()[0].bytes_sent;
    let mut before = u64::MAX;
    let stopped = eventually(SOON, || {
        let now = sent();
        std::thread::sleep(Duration::from_millis(100));
        std::mem::replace(&mut before, now) == now
    });
    assert!(
        stopped && sent() < 12_000_000 && up.posts()[0].is_running(),
        "{}",
        sent()
    );
}

#[test]
fn counts_what_runs_at_once() {
    let up = Upstream::start("A");
    let statuses = par(4, |_| chat_request(&up, "delay=0.3", false).send().status);
    assert_eq!(statuses, [200; 4]);
    up.wait_idle(SOON);
    let stats = up.stats();
    assert_eq!(
        (stats.peak, stats.total, stats.conns, stats.in_flight),
        (4, 4, 4, 0)
    );
    let mut seen: Vec<_> = up.posts().iter().map(|r| r.in_flight_at_start).collect();
    seen.sort_unstable();
    assert_eq!(seen, [1, 2, 3, 4]);
}
