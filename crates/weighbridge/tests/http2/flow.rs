//! Flow control from end to end: a client that does not read one stream holds its upstream back, and nobody else.

use crate::door::{Door, H2, H2_TLS};
use crate::support::{Api, PATIENCE, expect_outcomes, expect_whole, wait_running};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::StreamClient;
use weighbridge_test_engine::{Upstream, eventually};

/// An upstream that writes one endless answer, and counts what its kernel has taken. Gives its URL and the count.
fn endless(head: &'static str, piece: Vec<u8>) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let written = Arc::new(AtomicU64::new(0));
    let count = written.clone();
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let (piece, count) = (piece.clone(), count.clone());
            std::thread::spawn(move || {
                let mut request = [0; 64 * 1024];
                // Probes connect and send nothing.
                if matches!(peer.read(&mut request), Ok(1..)) {
                    let _ = peer.write_all(head.as_bytes());
                    while let Ok(now @ 1..) = peer.write(&piece) {
                        count.fetch_add(now as u64, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    (url, written)
}

/// Waits until `count` has stood still for a while, and gives it.
fn still(count: &AtomicU64) -> u64 {
    let (mut last, mut since) = (0, Instant::now());
    let stands = eventually(PATIENCE, || {
        let now = count.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        now > 0 && since.elapsed() > Duration::from_millis(700)
    });
    assert!(stands, "the upstream goes on writing: {last} bytes");
    last
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const PIECES: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000000000\r\n\r\n";

#[test]
fn a_stream_that_is_not_read_stops_its_upstream_and_nobody_else() {
    let event = format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n",
        "x".repeat(1000)
    );
    for (way, head, piece) in [
        (H2, EVENTS, event.clone()),
        (H2, PIECES, " ".repeat(9000)),
        (H2_TLS, EVENTS, event),
    ] {
        let good = Upstream::start("good");
        let (url, written) = endless(head, piece.into_bytes());
        let pools = format!(
            "pools:\n  - {{name: m, kind: generic, endpoints: ['{}']}}\n  - {{name: fast, kind: generic, endpoints: ['{url}']}}",
            good.url()
        );
        let door = Door::new(way, ("", &pools));
        let session = door.session();
        let request = door.stream(Api::Chat, "").header("x-model", "fast");
        let mut unread = session.begin(&request).unwrap().head(PATIENCE).unwrap();
        let stopped = still(&written);
        // What kernels and windows hold, and not much more.
        assert!(stopped < 16 << 20, "{stopped} bytes were taken from the upstream");
        for api in Api::ALL {
            let mut other = session
                .begin(&door.stream(api, "gap=0.05,chunks=8"))
                .unwrap()
                .head(PATIENCE)
                .unwrap();
            expect_whole(api, &mut other);
            let whole = session.begin(&door.whole(api, "big=300000")).unwrap();
            assert!(whole.response(PATIENCE).unwrap().body.len() > 300_000);
        }
        assert_eq!(
            written.load(Ordering::Relaxed),
            stopped,
            "it was held back all the while"
        );
        // It goes on where it stood.
        let length = |stream: &StreamClient| {
            stream
                .pieces()
                .iter()
                .map(|piece| piece.bytes.len())
                .sum::<usize>()
        };
        let read = unread.read_until(PATIENCE, |stream| length(stream) > 4 << 20);
        assert!(read, "{way:?}: {} bytes", length(&unread));
        assert!(eventually(PATIENCE, || written.load(Ordering::Relaxed) > stopped));
        unread.abort();
        let count = || crate::support::outcomes(&door.gateway, "client_closed");
        assert!(eventually(PATIENCE, || count() == 1.0));
    }
}

#[test]
fn answers_that_nobody_reads_count_as_running_until_they_are_read() {
    let upstream = Upstream::start("a");
    let mut door = Door::to(H2, &upstream, "");
    let session = door.session();
    // Larger than the window, and taken whole from the upstream.
    let mut unread = session
        .begin(&door.whole(Api::Chat, "big=300000"))
        .unwrap()
        .head(PATIENCE)
        .unwrap();
    expect_outcomes(&door.gateway, "ok", 1.0);
    door.gateway.sigterm();
    let ended = eventually(Duration::from_millis(1000), || door.gateway.has_ended());
    assert!(!ended, "ended with bytes unwritten");
    assert!(unread.finish(PATIENCE).is_whole());
    assert!(unread.body().len() > 300_000);
    assert_eq!(
        door.gateway.wait_exit(PATIENCE),
        Some(0),
        "{}",
        door.gateway.output()
    );
}

#[test]
fn many_streams_of_one_connection_are_served_side_by_side() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let session = door.session();
    let begin = |i: usize| {
        (
            Api::ALL[i % 4],
            session
                .begin(&door.stream(Api::ALL[i % 4], "delay=1,chunks=3"))
                .unwrap(),
        )
    };
    let begun: Vec<_> = (0..200).map(begin).collect();
    wait_running(&upstream, 200);
    for (api, pending) in begun {
        expect_whole(api, &mut pending.head(PATIENCE).unwrap());
    }
    expect_outcomes(&door.gateway, "ok", 200.0);
    assert_eq!(door.gateway.metrics().value("weighbridge_connections", &[]), 1.0);
}

#[test]
fn whole_answers_that_nobody_reads_are_within_the_memory_of_bodies() {
    const BIG: &str = "big=200000";
    let upstream = Upstream::start("a");
    let pools = H2.pool(&upstream, "");
    let door = Door::new(H2, ("max_body: 1MiB, body_memory: 2MiB", &pools));
    let used = || door.gateway.metrics().value("weighbridge_body_memory_bytes", &[]);
    let unread_by = door.session();
    let begin = |_| {
        unread_by
            .begin(&door.whole(Api::Chat, BIG))
            .unwrap()
            .head(PATIENCE)
            .unwrap()
    };
    // The first takes its part, and the last ones find no room.
    let mut unread = vec![begin(0)];
    assert!(used() >= 200_000.0, "{}", used());
    unread.extend((1..20).map(begin));
    let full = used();
    assert!((800_000.0..=1_048_576.0).contains(&full), "{full}");
    // Others are served meanwhile, with large answers and large requests.
    for _ in 0..3 {
        let whole = door.session().begin(&door.whole(Api::Chat, BIG)).unwrap();
        let answer = whole.response(PATIENCE).unwrap();
        assert!(answer.status == 200 && answer.body.len() > 200_000);
    }
    // So are these, once they are read.
    for answer in &mut unread {
        assert!(answer.finish(PATIENCE).is_whole());
        assert!(answer.body().len() > 200_000);
    }
    assert!(eventually(PATIENCE, || used() == 0.0), "{}", used());
    let gone = begin(0);
    assert!(used() >= 200_000.0);
    gone.abort();
    assert!(eventually(PATIENCE, || used() == 0.0), "{}", used());
    expect_outcomes(&door.gateway, "ok", 24.0);
}

#[test]
fn whole_answers_of_one_connection_have_a_bound_of_their_own() {
    let upstream = Upstream::start("a");
    let door = Door::to(H2, &upstream, "");
    let session = door.session();
    let request = door.whole(Api::Chat, "big=200000");
    let mut unread: Vec<_> = (0..40)
        .map(|_| session.begin(&request).unwrap().head(PATIENCE).unwrap())
        .collect();
    let used = || door.gateway.metrics().value("weighbridge_body_memory_bytes", &[]);
    assert!((3_000_000.0..=f64::from(4 << 20)).contains(&used()), "{}", used());
    for answer in &mut unread {
        assert!(answer.finish(PATIENCE).is_whole() && answer.body().len() > 200_000);
    }
    assert!(eventually(PATIENCE, || used() == 0.0), "{}", used());
}
