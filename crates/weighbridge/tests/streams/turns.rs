//! A stream that never lets its worker rest takes neither the others' turn nor the clocks'.

use crate::support::{PATIENCE, SOON, address, chat_bytes, expect_outcomes};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Raw, get, raw};
use weighbridge_test_engine::harness::{Gateway, GatewayOptions};

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// An upstream that answers every request with `head`, and then with `again` for as long as it is read. Gives its URL.
fn endless(head: &'static str, again: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut peer in listener.incoming().flatten() {
            let again = again.clone();
            std::thread::spawn(move || {
                let mut request = [0; 64 * 1024];
                // Probes connect and send nothing.
                if matches!(peer.read(&mut request), Ok(1..)) {
                    let _ = peer.write_all(head.as_bytes());
                    while peer.write_all(again.as_bytes()).is_ok() {}
                }
            });
        }
    });
    url
}

/// A gateway with one worker, whose pool `m` is the upstream at `url`.
fn one_worker(url: &str, timeouts: &str) -> Gateway {
    let yaml = format!(
        "pools: [{{name: m, kind: generic, breaker: false, endpoints: ['{url}'], timeouts: {{{timeouts}}}}}]"
    );
    Gateway::start_with(&GatewayOptions {
        args: ["--workers", "1"].map(str::to_owned).to_vec(),
        ..GatewayOptions::new(Path::new(env!("CARGO_BIN_EXE_weighbridge")), &yaml)
    })
}

/// Sends a request for a stream, and once its answer begins reads as fast as it can until `end` or the connection's end.
fn reader(gateway: &Gateway, end: &'static [u8]) -> JoinHandle<()> {
    let mut client = raw(address(gateway));
    client.write(chat_bytes("", true, "")).unwrap();
    assert!(client.read_until("HTTP/1.1 200", PATIENCE));
    std::thread::spawn(move || read_past(&mut client, end))
}

fn read_past(client: &mut Raw, end: &[u8]) {
    while !client.received.ends_with(end) && matches!(client.read(PATIENCE), Ok(1..)) {
        let seen = client.received.len().saturating_sub(end.len());
        client.received.drain(..seen);
    }
}

#[test]
fn nobody_waits_for_a_stream_that_never_rests() {
    for piece in [":\n\n".repeat(1000), "data: {}\n\n".to_owned(), "\n".to_owned()] {
        let chunk = format!("{:x}\r\n{piece}\r\n", piece.len());
        let url = endless(STREAM, chunk.repeat(100_000 / chunk.len()));
        let gateway = one_worker(&url, "");
        let busy = reader(&gateway, b"never");
        for _ in 0..5 {
            let asked = Instant::now();
            assert_eq!(get(&gateway.url("/health"), &[]).status, 200);
            let waited = asked.elapsed();
            assert!(
                waited < SOON,
                "{waited:?} beside a stream of {:?}",
                &piece[..3.min(piece.len())]
            );
        }
        drop(gateway);
        busy.join().unwrap();
    }
}

#[test]
fn clocks_end_what_never_rests() {
    // Comments are no progress, and a stream may take only so long; what is sent before a head is no answer at all.
    let comments = format!("bb8\r\n{}\r\n", ":\n\n".repeat(1000));
    let events = format!("2710\r\n{}\r\n", "data: {}\n\n".repeat(1000));
    for (again, timeouts) in [
        (comments, "first_byte: 1s, idle: 30s"),
        (events, "stream_total: 1s"),
    ] {
        let gateway = one_worker(&endless(STREAM, again), timeouts);
        let reading = reader(&gateway, b"0\r\n\r\n");
        expect_outcomes(&gateway, "timeout", 1.0);
        reading.join().unwrap();
    }
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1000);
    let gateway = one_worker(&endless("", interim), "first_byte: 1s");
    let mut client = raw(address(&gateway));
    let asked = Instant::now();
    client.write(chat_bytes("", true, "")).unwrap();
    assert!(client.read_until("HTTP/1.1 504", PATIENCE), "{}", client.text());
    assert!(asked.elapsed() >= Duration::from_secs(1));
    expect_outcomes(&gateway, "timeout", 1.0);
}
