//! Endpoints join and leave under load: no request is lost, and nothing is left of those that are gone.

use crate::shared::{SOON, ask, gateway, send, send_all, served};
use crate::world::{by_name, engines, say, serving, source, wait_serving};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weighbridge_test_engine::client::{Request, chat_stream, stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{DnsServer, eventually};

const CLIENTS: usize = 6;
const CHANGES: usize = 50;

/// The entry of an endpoint, if it is shown at all.
fn entry(gateway: &Gateway, name: &str) -> Option<Value> {
    let shown = gateway.api("/api/endpoints");
    let mut all = shown["endpoints"].as_array().unwrap().iter();
    all.find(|endpoint| endpoint["name"] == name).cloned()
}

#[test]
fn endpoints_that_come_and_go_lose_no_request() {
    let engines = engines(4);
    let port = engines[0].port();
    let dns = DnsServer::start();
    say(&dns, 0, &[1, 2, 3, 4]);
    let config = by_name(&dns, port, ("", ", policies: {least_inflight: {}}")).replace(
        "health: false",
        "health: {type: http, path: /health, interval: 50ms}",
    );
    let gateway = gateway(&config);
    let url = gateway.url("/v1/chat/completions");
    let (done, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (url, done, served) = (&url, &done, &served);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let mut events = stream(url, &[], chat_stream("r", "[[mock:gap=0.02,chunks=8]]"));
                    assert_eq!(events.status, 200, "client {client}");
                    assert!(events.read_all().is_whole(), "client {client}");
                    assert_eq!(events.data().last().map(String::as_str), Some("[DONE]"));
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let sets: [&[u8]; 6] = [&[1], &[1, 2], &[2, 3, 4], &[4], &[3, 4], &[1, 2, 3]];
        for change in 0..CHANGES {
            let set = sets[change % sets.len()];
            say(&dns, 0, set);
            wait_serving(&gateway, port, set);
        }
        say(&dns, 0, &[1, 2]);
        wait_serving(&gateway, port, &[1, 2]);
        done.store(true, Ordering::Relaxed);
    });
    assert!(served.load(Ordering::Relaxed) > CHANGES);
    for engine in &engines {
        assert!(!engine.posts().is_empty(), "{} served", engine.name());
    }
    let metrics = gateway.metrics();
    assert_eq!(
        metrics.sum("weighbridge_requests_total", &[("outcome", "ok")]) as usize,
        served.load(Ordering::Relaxed)
    );
    assert_eq!(metrics.sum("weighbridge_inflight", &[]), 0.0);
    assert!(source(&gateway, "changes_total") >= CHANGES as f64);
    let left = || {
        gateway.metrics().sum(
            "weighbridge_attempts_total",
            &[("endpoint", &format!("127.0.0.4:{port}"))],
        )
    };
    assert!(
        eventually(SOON, || left() == 0.0),
        "the series of those that left are dropped"
    );
    // What joined is still probed, and so is what stayed.
    for engine in &engines[..2] {
        let probes = || {
            engine
                .log()
                .iter()
                .filter(|record| record.target == "/health")
                .count()
        };
        let before = probes();
        assert!(eventually(SOON, || probes() > before + 2), "{}", engine.name());
    }
}

#[test]
fn an_endpoint_that_leaves_finishes_what_runs() {
    let engines = engines(2);
    let port = engines[0].port();
    let dns = DnsServer::start();
    say(&dns, 0, &[1]);
    let gateway = gateway(&by_name(&dns, port, ("", "")));
    let name = format!("127.0.0.1:{port}");
    let url = gateway.url("/v1/chat/completions");
    let mut events = stream(&url, &[], chat_stream("r", "[[mock:gap=0.1,chunks=50]]"));
    assert!(events.wait_events(2, SOON));
    say(&dns, 0, &[2]);
    wait_serving(&gateway, port, &[2]);
    let leaving = entry(&gateway, &name).expect("it is shown until its last request has ended");
    assert_eq!(leaving["removed"], true, "{leaving}");
    assert_eq!(leaving["reason"], "removed by discovery", "{leaving}");
    assert_eq!(leaving["inflight"], 1, "{leaving}");
    assert!(
        leaving["url"].as_str().unwrap().starts_with("http://"),
        "{leaving}"
    );
    for _ in 0..4 {
        assert_eq!(send(&gateway, "r").served_by(), Some("E2"));
    }
    // A config that is taken meanwhile changes nothing about it, nor about what was discovered.
    let more = by_name(&dns, port, ("", "")) + "  - {name: s, targets: [p]}\n";
    gateway.write_config(&more);
    assert!(eventually(SOON, || send(&gateway, "s").served_by() == Some("E2")));
    assert_eq!(
        entry(&gateway, &name).map(|shown| shown["inflight"].clone()),
        Some(1.into())
    );
    assert!(events.read_all().is_whole());
    assert_eq!(events.data().last().map(String::as_str), Some("[DONE]"));
    assert!(
        eventually(SOON, || entry(&gateway, &name).is_none()),
        "it is gone"
    );
    let series = || {
        gateway
            .metrics()
            .sum("weighbridge_attempts_total", &[("endpoint", &*name)])
    };
    assert!(eventually(SOON, || series() == 0.0));
}

#[test]
fn lb3_sessions_stay_on_the_endpoints_that_stay() {
    let engines = engines(3);
    let port = engines[0].port();
    let dns = DnsServer::start();
    say(&dns, 0, &[1, 2, 3]);
    let gateway = gateway(&by_name(&dns, port, ("", ", policies: {session_affinity: {}}")));
    wait_serving(&gateway, port, &[1, 2, 3]);
    let homes = || -> Vec<String> {
        let of = |n: usize| -> Request { ask(&gateway, "r").header("x-session-id", &format!("session-{n}")) };
        let answers = send_all(&gateway, (0..60).map(of));
        served(&answers).into_iter().map(str::to_owned).collect()
    };
    let before = homes();
    say(&dns, 0, &[1, 3]);
    wait_serving(&gateway, port, &[1, 3]);
    for (home, now) in before.iter().zip(homes()) {
        assert!(home == "E2" || *home == now, "a session of {home} went to {now}");
        assert_ne!(now, "E2");
    }
    say(&dns, 0, &[1, 2, 3]);
    wait_serving(&gateway, port, &[1, 2, 3]);
    assert_eq!(homes(), before, "those that had to move come home");
    assert_eq!(serving(&gateway).len(), 3);
}
