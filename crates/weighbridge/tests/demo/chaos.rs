//! Engines die and come back under mixed load; afterwards the books must agree with what the clients saw.

use super::load::{Client, KINDS, Seen, Sent};
use super::process::Demo;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weighbridge_test_engine::harness::Signal;

/// Clients, each with one request at a time.
const CLIENTS: usize = 8;
/// Seconds between kills, give or take half.
const CHAOS: f64 = 2.0;
/// Seconds that a dead engine's connection may still look usable to the gateway.
const SLACK: f64 = 0.25;
/// From this length on, memory is compared with that of minute 2.
const LONG: Duration = Duration::from_secs(600);
/// From this length on, memory is compared with that of second 20.
const SHORT: Duration = Duration::from_secs(40);

/// Runs the load for `duration`, ends the demo and compares.
pub(crate) fn check(duration: Duration, seed: &str) {
    let chaos = CHAOS.to_string();
    let fixed = ["--rate", "4", "--speed", "4", "--json"];
    let mut demo = Demo::start(&[&fixed[..], &["--chaos", &chaos, "--seed", seed]].concat());
    let sent = load(&demo, duration);
    demo.signal(Signal::INT);
    assert_eq!(demo.wait_exit(), Some(0), "{}", demo.stderr());
    let summary = demo.summary();
    report(&summary, &sent);
    enough_happened(&summary, &sent, duration);
    every_failure_is_a_dead_engines(&summary);
    clients_and_books_agree(&summary, &sent);
    nothing_is_left(&summary);
    memory_is_steady(&summary, duration);
}

fn load(demo: &Demo, duration: Duration) -> Vec<Sent> {
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (client, stop) = (Client::new(demo.url(""), number), stop.clone());
            std::thread::spawn(move || client.run(&stop))
        })
        .collect();
    let end = Instant::now() + duration;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        std::thread::sleep(left);
    }
    stop.store(true, Ordering::Relaxed);
    clients
        .into_iter()
        .flat_map(|client| client.join().unwrap())
        .collect()
}

/// Shown by `--nocapture`, and where the test fails.
fn report(summary: &Value, sent: &[Sent]) {
    let failed = sent
        .iter()
        .filter(|sent| matches!(sent.seen, Seen::Failed(_)))
        .count();
    eprintln!(
        "{} requests of clients, {failed} failed; the gateway: {} requests, {} ok, failed {} (unexplained {}), \
         {} kills, memory {}",
        sent.len(),
        summary["requests"],
        summary["ok"],
        summary["failed"]["by_outcome"],
        summary["failed"]["unexplained"],
        summary["kills"]["total"],
        summary["rss_bytes"]
    );
}

/// Otherwise the rest would hold of a demo that did nothing.
fn enough_happened(summary: &Value, sent: &[Sent], duration: Duration) {
    let kills = summary["kills"]["total"].as_f64().unwrap();
    assert!(
        kills >= (duration.as_secs_f64() / CHAOS / 3.0).floor(),
        "{kills} kills"
    );
    let engines: BTreeSet<_> = list(&summary["kills"]["list"])
        .iter()
        .map(|kill| kill["engine"].to_string())
        .collect();
    assert!(engines.len() >= 2 || kills < 8.0, "only {engines:?} ever died");
    assert!(
        summary["failed"]["total"].as_u64() > Some(0),
        "no death hit a request"
    );
    for kind in KINDS {
        let whole = |sent: &&Sent| sent.kind == kind && matches!(sent.seen, Seen::Whole | Seen::Left);
        assert!(
            sent.iter().filter(whole).count() >= 3,
            "hardly any {kind:?} was answered"
        );
    }
}

/// Each failed request had been written to an engine that died while it had it: so says the demo, and so do the times.
fn every_failure_is_a_dead_engines(summary: &Value) {
    let failures = list(&summary["failed"]["requests"]);
    let unexplained: Vec<_> = failures
        .iter()
        .filter(|failure| !is_explained(failure, summary))
        .collect();
    assert!(
        unexplained.is_empty(),
        "no engine's death explains {unexplained:#?}\nkills: {:#}",
        summary["kills"]
    );
    assert_eq!(summary["failed"]["unexplained"], 0);
    assert_eq!(summary["failed"]["total"].as_u64(), Some(failures.len() as u64));
}

fn is_explained(failure: &Value, summary: &Value) -> bool {
    let time = |value: &Value| value.as_f64().unwrap();
    let (began, failed) = (time(&failure["attempt_began"]), time(&failure["failed"]));
    let under_it = |kill: &Value| {
        let done = kill["done"].as_f64().unwrap_or(f64::INFINITY);
        kill["engine"] == failure["endpoint"]
            && time(&kill["began"]) <= failed + SLACK
            && began <= done + SLACK
    };
    let unreached = ["connect_error", "unavailable", "rejected", "rate_limited"];
    let reached = unreached.iter().all(|word| failure["outcome"] != *word);
    reached && failure["written"] == true && list(&summary["kills"]["list"]).iter().any(under_it)
}

/// What a client saw fail is in the books as failed, what it saw whole is not.
fn clients_and_books_agree(summary: &Value, sent: &[Sent]) {
    let failures: BTreeMap<_, _> = list(&summary["failed"]["requests"])
        .iter()
        .map(|failure| (failure["request_id"].as_str().unwrap(), failure))
        .collect();
    for sent in sent {
        let booked = failures.get(&*sent.id);
        match &sent.seen {
            Seen::Failed(_) => assert!(booked.is_some(), "not in the books: {sent:?}"),
            Seen::Whole => assert!(booked.is_none(), "seen whole: {booked:?}"),
            Seen::Left => {}
        }
    }
    assert!(summary["requests"].as_u64() >= Some(sent.len() as u64));
    assert_eq!(summary["client_error"], 0);
}

fn nothing_is_left(summary: &Value) {
    let end = &summary["at_end"];
    assert_eq!((&end["running"], &end["cut"]), (&0.into(), &0.into()), "{end}");
    for counts in ["inflight", "route_requests"] {
        let counts = end[counts].as_object().unwrap();
        assert!(
            !counts.is_empty() && counts.values().all(|count| *count == 0),
            "{end}"
        );
    }
}

fn memory_is_steady(summary: &Value, duration: Duration) {
    let (mark, most) = if duration >= LONG {
        ("120", 1.1)
    } else if duration >= SHORT {
        ("20", 1.25)
    } else {
        return;
    };
    let memory = &summary["rss_bytes"];
    let (then, end) = (
        memory["marks"][mark].as_f64().unwrap(),
        memory["end"].as_f64().unwrap(),
    );
    assert!(
        end <= then * most,
        "{end} bytes at the end, {then} at second {mark}"
    );
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}
