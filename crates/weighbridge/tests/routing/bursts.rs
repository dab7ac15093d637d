//! LB-5: bursts and idle ties spread, and a newcomer is not flooded.

use crate::shared::{SOON, ask, count, gateway, pool, send, served};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Request, chat};
use weighbridge_test_engine::harness::{Gateway, Signal};
use weighbridge_test_engine::{Upstream, eventually, par};

/// Four engines under each way of choosing that looks at load.
fn ways(upstreams: &[&Upstream]) -> [String; 5] {
    let pool_of_four = pool("p", upstreams, &[]);
    let pools: String = upstreams
        .iter()
        .map(|upstream| pool(upstream.name(), &[upstream], &[]))
        .collect();
    let names: Vec<_> = upstreams.iter().map(|upstream| upstream.name()).collect();
    let names = names.join(", ");
    [
        format!("pools:\n{pool_of_four}routes: [{{name: r, targets: [p]}}]\n"),
        format!("pools:\n{pool_of_four}routes: [{{name: r, targets: [p], route_by: round_robin}}]\n"),
        format!(
            "pools:\n{pool_of_four}routes: [{{name: r, targets: [p], policies: {{least_inflight: {{}}}}}}]\n"
        ),
        format!("pools:\n{pools}routes: [{{name: r, targets: [{names}], route_by: round_robin}}]\n"),
        format!(
            "pools:\n{pools}routes: [{{name: r, targets: [{names}], policies: {{least_inflight: {{}}}}}}]\n"
        ),
    ]
}

#[test]
fn lb5_sixteen_at_once_on_four_are_four_each() {
    let upstreams = Upstream::start_all(["A", "B", "C", "D"]);
    for yaml in ways(&upstreams.each_ref()) {
        let gateway = gateway(&yaml);
        for _ in 0..2 {
            upstreams.iter().for_each(Upstream::reset);
            let request = Request::post(
                &gateway.url("/v1/chat/completions"),
                chat("r", "[[mock:delay=1]]"),
            );
            let answers = par(16, |_| request.send());
            assert_eq!(served(&answers).len(), 16);
            let peaks = upstreams.each_ref().map(|upstream| upstream.stats().peak);
            assert_eq!(peaks, [4, 4, 4, 4], "{yaml}");
        }
    }
}

#[test]
fn lb5_ties_of_idle_engines_spread() {
    let upstreams = Upstream::start_all(["A", "B", "C", "D"]);
    for yaml in ways(&upstreams.each_ref()) {
        upstreams.iter().for_each(Upstream::reset);
        let gateway = gateway(&yaml);
        for _ in 0..80 {
            assert_eq!(send(&gateway, "r").status, 200);
        }
        for upstream in &upstreams {
            assert!(
                upstream.posts().len() >= 6,
                "{} got {}: {yaml}",
                upstream.name(),
                upstream.posts().len()
            );
        }
    }
}

/// Sends requests that take a moment until told to stop.
fn keep_busy(gateway: &Gateway, over: &AtomicBool) {
    let request = Request::post(
        &gateway.url("/v1/chat/completions"),
        chat("r", "[[mock:delay=0.05]]"),
    );
    while !over.load(Ordering::Relaxed) {
        assert_eq!(request.send().status, 200);
    }
}

/// Requests of all these upstreams that began within a second from `since`.
fn in_the_first_second(upstreams: &[&Upstream], since: Instant) -> usize {
    let window = since..since + Duration::from_secs(1);
    let inside = |upstream: &&Upstream| {
        upstream
            .posts()
            .iter()
            .filter(|post| window.contains(&post.started()))
            .count()
    };
    upstreams.iter().map(inside).sum()
}

#[test]
fn lb5_a_newcomer_gets_at_most_twice_its_share_at_first() {
    let [a, b, c, d] = Upstream::start_all(["A", "B", "C", "D"]);
    for policies in ["", ", route_by: round_robin", ", policies: {least_inflight: {}}"] {
        let yaml = |all: &[&Upstream]| {
            format!(
                "pools:\n{}routes: [{{name: r, targets: [p]{policies}}}]\n",
                pool("p", all, &[])
            )
        };
        [&a, &b, &c, &d].into_iter().for_each(Upstream::reset);
        let gateway = gateway(&yaml(&[&a, &b, &c]));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| keep_busy(&gateway, &over));
            }
            let warm = eventually(SOON, || {
                [&a, &b, &c].iter().all(|upstream| upstream.posts().len() > 20)
            });
            gateway.write_config(&yaml(&[&a, &b, &c, &d]));
            gateway.signal(Signal::HUP);
            let joined = eventually(SOON, || !d.posts().is_empty());
            std::thread::sleep(Duration::from_millis(1_100));
            over.store(true, Ordering::Relaxed);
            assert!(warm && joined);
        });
        let since = d.posts()[0].started();
        let all = in_the_first_second(&[&a, &b, &c, &d], since);
        let new = in_the_first_second(&[&d], since);
        assert!(all >= 40, "{all} requests in a second are too few to tell");
        assert!(new * 4 <= all * 2, "{new} of {all} went to the newcomer");
    }
}

#[test]
fn lb5_an_engine_that_is_slow_gets_less() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let yaml = format!(
        "pools:\n{}routes: [{{name: r, targets: [p], policies: {{least_inflight: {{}}}}}}]\n",
        pool("p", &[&a, &b], &[])
    );
    let gateway = gateway(&yaml);
    a.set_mode("delay=0.5");
    b.set_mode("delay=0.02");
    let answers: Vec<_> = par(6, |_| {
        (0..8).map(|_| ask(&gateway, "r").send()).collect::<Vec<_>>()
    });
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    let slow = count(&served(&answers), "A");
    assert!(slow < 24, "{slow} of 48 went to the slow one");
}
