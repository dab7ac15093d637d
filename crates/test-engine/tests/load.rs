//! The load generator against the cheap upstream and against one that misbehaves, and the command line of both.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{self, End, Request};
use weighbridge_test_engine::fast::{Fast, FastOptions};
use weighbridge_test_engine::load::{Load, Report, chat_body, hold};

const SOON: Duration = Duration::from_secs(20);
const CHAT: &str = "/v1/chat/completions";

fn fast(change: impl FnOnce(&mut FastOptions)) -> Fast {
    let mut options = FastOptions::new("127.0.0.1:0".parse().unwrap());
    change(&mut options);
    Fast::start(&options).unwrap()
}

fn short(url: &str) -> Load {
    Load {
        duration: Duration::from_millis(300),
        connections: 4,
        ..Load::new(&format!("{url}{CHAT}"))
    }
}

fn kinds(report: &Report) -> Vec<&str> {
    report.errors_by_kind.keys().map(String::as_str).collect()
}

#[test]
fn the_cheap_upstream_answers_whatever_is_sent() {
    let fast = fast(|o| o.chunks = 3);
    let url = format!("{}{CHAT}", fast.url());
    assert_eq!(
        client::post(&url, &[], chat_body(50_000, false)).json()["object"],
        "chat.completion"
    );
    let mut stream = client::stream(&url, &[], chat_body(300, true));
    assert_eq!(stream.finish(SOON), End::Complete);
    assert_eq!(
        (stream.events().len(), stream.data().last().unwrap().as_str()),
        (6, "[DONE]")
    );
    let chunked = Request::post(&url, chat_body(300, true))
        .chunked(7)
        .header("expect", "100-continue")
        .send();
    assert_eq!(chunked.header("content-type"), Some("text/event-stream"));
    for path in ["/health", "/v1/models", "/metrics"] {
        assert_eq!(client::get(&format!("{}{path}", fast.url()), &[]).status, 200);
    }
    let mut bare = client::raw(fast.addr());
    let one = format!("POST {CHAT} HTTP/1.1\r\ncontent-length: 2\r\n\r\n{{}}");
    bare.write(one.repeat(5) + "GET /health HTTP/1.1\r\nconnection: close\r\n\r\n")
        .unwrap();
    bare.read_to_end(SOON).unwrap();
    assert_eq!(bare.text().matches("HTTP/1.1 200 OK").count(), 6);
}

#[test]
fn the_closed_loop_counts_good_answers() {
    let fast = fast(|_| {});
    let report = short(&fast.url()).run().unwrap();
    assert_eq!((report.errors, report.cut_off, report.unsent), (0, false, 0));
    assert!(report.requests > 10 && report.rps > 10.0, "{report:?}");
    let latency = &report.latency_us;
    assert!(
        latency.p50 > 0.0 && latency.p50 <= latency.p99 && latency.p99 <= latency.max,
        "{report:?}"
    );
    assert!(report.first_chunk_us.is_none());
}

#[test]
fn streams_are_timed_chunk_by_chunk() {
    let fast = fast(|o| {
        o.chunks = 5;
        o.gap = Duration::from_millis(10);
    });
    let load = Load {
        stream: true,
        ..short(&fast.url())
    }
    .size(400);
    let report = load.run().unwrap();
    assert_eq!(report.errors, 0, "{report:?}");
    assert_eq!(report.events.unwrap(), report.requests * 8);
    let (first, gap) = (report.first_chunk_us.unwrap(), report.chunk_gap_us.unwrap());
    assert!(gap.p50 > 5_000.0 && report.latency_us.p50 > 50_000.0, "{gap:?}");
    assert!(first.p50 < report.latency_us.p50);
}

#[test]
fn every_failure_has_its_kind() {
    let up = Upstream::start("A");
    let modes = [
        ("status=503", "status_503"),
        ("drop", "closed"),
        ("drop=rst", "reset"),
        ("short=10", "truncated"),
        ("hang=headers", "timeout"),
    ];
    for (mode, kind) in modes {
        up.set_mode(mode);
        let timeout = Duration::from_millis(if kind == "timeout" { 100 } else { 10_000 });
        let report = Load {
            timeout,
            ..short(&up.url())
        }
        .run()
        .unwrap();
        assert_eq!(
            (kinds(&report), report.requests),
            (vec![kind], 0),
            "{mode}: {report:?}"
        );
        assert!(report.errors > 0);
    }
    for (mode, kind) in [
        ("cut=3", "truncated"),
        ("cut=3,cut_kind=clean", "stream_without_end"),
    ] {
        up.set_mode(mode);
        let report = Load {
            stream: true,
            ..short(&up.url())
        }
        .size(200)
        .run()
        .unwrap();
        assert_eq!(kinds(&report), [kind], "{mode}: {report:?}");
    }
    up.set_mode("conn_close");
    let report = short(&up.url()).run().unwrap();
    assert!(report.errors == 0 && report.requests > 4, "{report:?}");
    let guard = up.refuse_until();
    assert_eq!(kinds(&short(&up.url()).run().unwrap()), ["connect"]);
    drop(guard);
}

#[test]
fn the_open_loop_keeps_its_rate() {
    let fast = fast(|_| {});
    let report = Load {
        rate: Some(200.0),
        ..short(&fast.url())
    }
    .run()
    .unwrap();
    assert_eq!(
        (report.requests, report.errors, report.unsent),
        (60, 0, 0),
        "{report:?}"
    );
}

#[test]
fn a_stall_counts_for_every_request_it_delays() {
    let up = Upstream::start("A");
    up.script(["delay=0.7"]);
    let load = Load {
        rate: Some(50.0),
        connections: 1,
        duration: Duration::from_secs(1),
        ..short(&up.url())
    };
    let report = load.run().unwrap();
    assert_eq!((report.requests, report.errors), (50, 0), "{report:?}");
    // One request was slow; 35 were due before it was over.
    assert!(
        report.latency_us.p50 > 100_000.0 && report.latency_us.max > 690_000.0,
        "{report:?}"
    );
}

/// A child process that is killed at the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the binary and reads `lines` lines of the form `NAME URL`.
fn start(args: &[&str], lines: usize) -> (Running, Vec<(String, String)>) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_test-engine"))
        .args(args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let said = out.lines().take(lines).map(|line| {
        let line = line.unwrap();
        let (name, url) = line.split_once(' ').unwrap();
        (name.to_owned(), url.to_owned())
    });
    let said = said.collect();
    (Running(child), said)
}

#[test]
fn the_command_line_starts_upstreams_and_sends_load() {
    let (_upstreams, said) = start(&["upstream", "--ports", "0,0", "--names", "X"], 2);
    for (name, url) in &said {
        let answer = client::post(&format!("{url}{CHAT}"), &[], client::chat("m", "x"));
        assert_eq!(answer.served_by(), Some(name.as_str()));
    }
    assert_eq!((said[0].0.as_str(), said[1].0.as_str()), ("X", "B"));
    let (_fast, said) = start(&["fast", "--listen", "127.0.0.1:0", "--chunks", "2"], 1);
    let url = format!("{}{CHAT}", said[0].1);
    let run = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_test-engine"))
            .args(args)
            .output()
            .unwrap()
    };
    let args = [
        "load",
        "--url",
        &url,
        "--duration",
        "200ms",
        "--stream",
        "--connections",
        "2",
        "--header",
        "a:b",
    ];
    let out = run(&args);
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), report["errors"].as_u64()), (Some(0), Some(0)));
    assert!(report["requests"].as_u64().unwrap() > 0 && report["first_chunk_us"]["p50"].is_number());
    let out = run(&["load", "--url", "http://192.0.2.1/x"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        String::from_utf8(out.stderr)
            .unwrap()
            .contains("not a loopback address")
    );
}

#[test]
fn stamped_events_tell_how_long_they_took() {
    let fast = fast(|o| (o.chunks, o.stamped) = (5, true));
    let load = Load {
        stream: true,
        body: chat_body(200, true),
        connections: 3,
        ramp: Duration::from_millis(30),
        ..short(&fast.url())
    };
    let report = load.run().unwrap();
    assert_eq!(report.errors, 0, "{report:?}");
    let delay = report.delay_us.as_ref().unwrap();
    assert_eq!(delay.count, report.requests * 5);
    assert!(delay.max < 60e6, "{report:?}");
}

#[test]
fn held_streams_stay_open_after_their_first_event() {
    let fast = fast(|o| (o.chunks, o.gap) = (1, Duration::from_secs(3600)));
    let load = Load {
        body: chat_body(200, true),
        ..short(&fast.url())
    };
    let streams = hold(&load).unwrap();
    assert_eq!(streams.len(), 4);
    for stream in &streams {
        stream.set_nonblocking(true).unwrap();
        let more = stream.peek(&mut [0]);
        assert_eq!(more.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
    let refused = Load {
        url: "http://127.0.0.1:1/".to_owned(),
        ..load
    };
    assert!(hold(&refused).unwrap_err().starts_with("stream 0: "));
}
