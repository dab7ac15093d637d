//! Metrics that stop: an endpoint that nobody can read is neither full nor idle.

use crate::reading::{config, page, signals, stale, tells};
use crate::shared::*;
use weighbridge_test_engine::client::{Request, chat, chat_stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually, par};

/// Sends `count` requests on 16 connections, and counts who of A, B, C and D served them.
fn load(gateway: &Gateway, count: usize, mode: &str) -> Vec<usize> {
    const CONNECTIONS: usize = 16;
    let served = par(CONNECTIONS, |_| {
        let ask = || Request::post(&gateway.url("/v1/chat/completions"), chat("r", mode));
        let answers = send_all(gateway, (0..count / CONNECTIONS).map(|_| ask()));
        let names = served(&answers);
        names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()
    });
    let all: Vec<String> = served.into_iter().flatten().collect();
    ["A", "B", "C", "D"]
        .iter()
        .map(|name| all.iter().filter(|other| other == name).count())
        .collect()
}

/// What A got, over the mean of its peers.
fn share(counts: &[usize]) -> f64 {
    let peers = counts[1..].iter().sum::<usize>() as f64 / (counts.len() - 1) as f64;
    counts[0] as f64 / peers
}

/// Four upstreams that tell what they do, until `freeze` does something to A's page and the gateway has noticed.
fn after(freeze: impl Fn(&Upstream), policies: &str, mode: &str) -> f64 {
    let upstreams: [Upstream; 4] = Upstream::start_all(["A", "B", "C", "D"]);
    for upstream in &upstreams {
        upstream.set_metrics(page());
    }
    let all: Vec<&Upstream> = upstreams.iter().collect();
    let gateway = gateway(&config(&all, policies));
    for upstream in &all {
        assert!(eventually(SOON, || tells(&gateway, upstream.name())));
    }
    freeze(&upstreams[0]);
    // A page that is there but frozen is found out while there is work.
    let shares = share(&load(&gateway, 480, mode));
    assert!(eventually(SOON, || stale(&gateway, "A")));
    for peer in ["B", "C", "D"] {
        assert!(!stale(&gateway, peer));
    }
    shares
}

const POLICIES: [&str; 2] = ["{queue_depth: {}}", "{queue_depth: {}, least_inflight: {}}"];

#[test]
fn a1_an_endpoint_whose_metrics_fail_keeps_its_share() {
    for policies in POLICIES {
        let share = after(|a| a.set_metrics_status(503), policies, "[[mock:delay=0.05]]");
        assert!((0.8..=1.2).contains(&share), "{policies}: {share}");
    }
}

#[test]
fn a1_requests_that_last_longer_than_the_interval_are_not_taken_for_a_queue() {
    let share = after(|a| a.set_metrics_status(503), POLICIES[0], "[[mock:delay=0.25]]");
    assert!((0.8..=1.2).contains(&share), "{share}");
}

/// The page goes on saying what it said when the engine was idle.
#[test]
fn a1_a_page_that_repeats_itself_floods_nobody() {
    let frozen = |a: &Upstream| {
        a.set_metrics(
            "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:generation_tokens_total 7\n",
        );
    };
    for policies in POLICIES {
        let share = after(frozen, policies, "[[mock:delay=0.05]]");
        assert!((0.8..=1.2).contains(&share), "{policies}: {share}");
    }
}

#[test]
fn a1_metrics_never_stop_a_pool_of_one() {
    let a = Upstream::start("A");
    // As full as an engine can say it is.
    a.set_metrics(
        "vllm:num_requests_waiting 5000\nvllm:num_requests_running 256\nvllm:kv_cache_usage_perc 1.0\n",
    );
    let gateway = gateway(&config(&[&a], POLICIES[0]));
    assert!(eventually(SOON, || tells(&gateway, "A")));
    assert_eq!(send(&gateway, "r").status, 200);
    for freeze in [
        Box::new(|| a.set_metrics_status(503)) as Box<dyn Fn()>,
        Box::new(|| a.set_metrics_status(404)),
        Box::new(|| {
            a.set_metrics_status(200);
            a.set_metrics("<html>not here</html>\n");
        }),
    ] {
        freeze();
        assert!(eventually(SOON, || stale(&gateway, "A")));
        for _ in 0..20 {
            assert_eq!(send(&gateway, "r").served_by(), Some("A"));
        }
    }
    let metrics = gateway.metrics();
    assert!(
        !metrics.has("weighbridge_engine_signal"),
        "an old value is no value: {}",
        metrics.text
    );
    assert_eq!(
        state(&gateway, "A"),
        "live",
        "it never was a state of the endpoint"
    );
}

#[test]
fn a1_an_endpoint_without_metrics_serves_as_one_that_has_some() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    a.set_metrics_status(404);
    b.set_metrics(page());
    let gateway = gateway(&config(&[&a, &b], POLICIES[0]));
    assert!(eventually(SOON, || tells(&gateway, "B") && stale(&gateway, "A")));
    let answers = send_all(&gateway, (0..200).map(|_| ask(&gateway, "r")));
    let names = served(&answers);
    assert!((60..=140).contains(&count(&names, "A")), "{}", count(&names, "A"));
}

/// A3: what the engine says and what the gateway counts stand side by side; neither overwrites the other.
#[test]
fn a3_own_counts_and_reported_counts_are_kept_apart() {
    let a = Upstream::start("A");
    a.set_metrics(
        "vllm:num_requests_running{engine=\"0\"} 40\nvllm:num_requests_waiting{engine=\"0\"} 9\nother_total $total\n",
    );
    let gateway = gateway(&config(&[&a], POLICIES[1]));
    let body = chat_stream("r", "[[mock:hang=headers]]");
    let held = Request::post(&gateway.url("/v1/chat/completions"), body)
        .begin()
        .unwrap();
    assert!(eventually(SOON, || !a.posts().is_empty() && tells(&gateway, "A")));
    let endpoint = gateway.api("/api/endpoints")["endpoints"][0].clone();
    assert_eq!(endpoint["inflight"], 1);
    assert_eq!(endpoint["signals"]["engine"]["values"]["running"], 40.0);
    assert_eq!(endpoint["signals"]["engine"]["values"]["waiting"], 9.0);
    assert_eq!(endpoint["state"], "live", "what it reports fills no slot");
    let labels = [("pool", "r"), ("endpoint", "A")];
    assert_eq!(gateway.metrics().value("weighbridge_inflight", &labels), 1.0);
    held.abort();
    assert!(eventually(SOON, || {
        gateway.metrics().value("weighbridge_inflight", &labels) == 0.0
            && signals(&gateway, "A", "running") == 40.0
    }));
}
