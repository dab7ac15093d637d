//! FAIL-3: all engines are down, or the only one; and fallback to other routes.

use crate::shared::{SOON, ask, gateway, in_order, pool, send, state};
use std::time::Duration;
use weighbridge_test_engine::client::Response;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

fn retry_after(answer: &Response) -> u64 {
    answer
        .header("retry-after")
        .expect("a retry-after header")
        .parse()
        .expect("whole seconds")
}

/// That the error's body names no engine and no address.
fn tells_nothing(answer: &Response, upstreams: &[&Upstream]) {
    let text = answer.text();
    for upstream in upstreams {
        assert!(!text.contains(&upstream.port().to_string()), "{text}");
    }
    assert!(!text.contains("127.0.0.1"), "{text}");
    assert!(!answer.json()["error"]["message"].as_str().unwrap().is_empty());
}

#[test]
fn fail3_all_cooling_is_a_429_with_the_soonest_return() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[], &[]));
    a.script(["status=429,retry_after=9"]);
    b.script(["status=429,retry_after=4"]);
    let first = send(&gateway, "r");
    assert_eq!((first.status, retry_after(&first)), (429, 4), "{}", first.text());
    assert!(first.elapsed < Duration::from_secs(3), "{:?}", first.elapsed);
    assert_eq!((a.posts().len(), b.posts().len()), (1, 1), "one attempt each");
    assert!(eventually(SOON, || b.posts()[0].ended().is_some()));
    let asked_at = b.posts()[0].ended().unwrap();
    let mut waits = vec![4];
    let back = loop {
        let answer = send(&gateway, "r");
        if answer.status == 200 {
            break answer;
        }
        assert_eq!(answer.status, 429, "{}", answer.text());
        tells_nothing(&answer, &[&a, &b]);
        waits.push(retry_after(&answer));
        assert_eq!(
            (a.posts().len(), b.posts().len()),
            (1, 1),
            "nothing is sent while all cool"
        );
        assert!(asked_at.elapsed() < SOON, "B never came back");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(back.served_by(), Some("B"));
    assert!(b.posts()[1].started() - asked_at >= Duration::from_secs(4));
    assert!(waits.is_sorted_by(|earlier, later| earlier >= later), "{waits:?}");
    waits.dedup();
    assert_eq!(waits, [4, 3, 2, 1], "it falls with the time");
    assert_eq!(
        gateway.metrics().sum(
            "weighbridge_requests_total",
            &[("outcome", "upstream_rate_limited")]
        ),
        1.0
    );
    assert!(
        gateway
            .metrics()
            .sum("weighbridge_requests_total", &[("outcome", "rejected")])
            >= 4.0
    );
}

#[test]
fn fail3_all_refusing_is_a_503_with_a_return() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[], &["fail_open: false"]));
    let refusing = (a.refuse_until(), b.refuse_until());
    let first = send(&gateway, "r");
    assert_eq!(first.status, 503, "{}", first.text());
    assert_eq!(retry_after(&first), 1, "an ejection begins with one second");
    tells_nothing(&first, &[&a, &b]);
    let second = send(&gateway, "r");
    assert_eq!((second.status, retry_after(&second)), (503, 1));
    drop(refusing);
    assert!(
        eventually(SOON, || send(&gateway, "r").status == 200),
        "both return by themselves"
    );
}

#[test]
fn fail3_open_breakers_without_fail_open_are_a_503() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let breaker = "breaker: {consecutive: 1, open_for: 7s}";
    let gateway = gateway(&in_order(&[&a, &b], &[], &["fail_open: false", breaker]));
    a.script(["status=500"]);
    b.script(["status=500"]);
    assert_eq!(
        (send(&gateway, "r").status, send(&gateway, "r").status),
        (502, 502)
    );
    assert_eq!(
        (state(&gateway, "A"), state(&gateway, "B")),
        ("open".into(), "open".into())
    );
    let answer = send(&gateway, "r");
    assert_eq!(answer.status, 503);
    assert!(
        (5..=7).contains(&retry_after(&answer)),
        "{}",
        retry_after(&answer)
    );
    assert_eq!((a.posts().len(), b.posts().len()), (1, 1));
}

#[test]
fn fail3_fail_open_tries_what_is_open_and_the_first_success_closes_it() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let breaker = "breaker: {consecutive: 1, open_for: 60s}";
    let gateway = gateway(&in_order(&[&a, &b], &[], &[breaker]));
    a.script(["status=500"]);
    b.script(["status=500"]);
    send(&gateway, "r");
    send(&gateway, "r");
    assert_eq!(
        (state(&gateway, "A"), state(&gateway, "B")),
        ("open".into(), "open".into())
    );
    let answer = send(&gateway, "r");
    let name = answer.served_by().expect("one of them is tried").to_owned();
    assert_eq!(answer.status, 200);
    assert_eq!(state(&gateway, &name), "live", "its success closes its breaker");
}

#[test]
fn fail3_one_failure_of_the_only_engine_closes_nothing() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    a.script(["status=500"]);
    let first = send(&gateway, "r");
    assert_eq!(first.status, 502);
    let second = send(&gateway, "r");
    assert_eq!((second.status, second.served_by()), (200, Some("A")));
    assert_eq!(a.posts().len(), 2);
}

#[test]
fn fail3_the_only_engine_is_tried_whatever_its_breaker_says() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(
        &[&a],
        &[],
        &["breaker: {consecutive: 2, open_for: 60s}"],
    ));
    a.set_mode("status=500");
    for sent in 1..=6 {
        assert_eq!(send(&gateway, "r").status, 502);
        assert_eq!(a.posts().len(), sent, "each request is sent to it");
    }
    assert_eq!(state(&gateway, "A"), "open");
    a.set_mode("");
    assert_eq!(send(&gateway, "r").status, 200);
    assert_eq!(state(&gateway, "A"), "live");
}

#[test]
fn fail3_the_only_engine_that_refuses_is_served_again_at_once() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    let refusing = a.refuse_until();
    for _ in 0..4 {
        let answer = send(&gateway, "r");
        assert_eq!(answer.status, 503);
        assert!(retry_after(&answer) >= 1);
    }
    drop(refusing);
    assert_eq!(
        send(&gateway, "r").status,
        200,
        "no waiting for the end of the ejection"
    );
}

fn unhealthy(fail_open: bool) -> (Upstream, Gateway) {
    let [a] = Upstream::start_all(["A"]);
    a.set_health(503);
    let health = "health: {path: /health, interval: 100ms, unhealthy_after: 2, healthy_after: 2}";
    let gateway = gateway(&in_order(
        &[&a],
        &[],
        &[health, &format!("fail_open: {fail_open}")],
    ));
    assert!(eventually(SOON, || state(&gateway, "A") == "unhealthy"));
    (a, gateway)
}

#[test]
fn fail3_failed_probes_close_an_engine_only_without_fail_open() {
    let (a, closed) = unhealthy(false);
    let answer = send(&closed, "r");
    assert_eq!((answer.status, a.posts().len()), (503, 0));
    assert!(retry_after(&answer) >= 1);
    a.set_health(200);
    assert!(
        eventually(SOON, || send(&closed, "r").status == 200),
        "probes bring it back"
    );
    let (a, open) = unhealthy(true);
    assert_eq!((send(&open, "r").status, a.posts().len()), (200, 1));
}

/// Routes `r` over A and `s` over B; `r` falls back to `s`.
fn with_fallback(a: &Upstream, b: &Upstream, more: &[&str]) -> Gateway {
    let pools = pool("A", &[a], more) + &pool("B", &[b], &[]);
    gateway(&format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [A], fallback: [{{route: s, on: [unavailable]}}]}}\n  \
         - {{name: s, targets: [{{pool: B, name: other}}]}}\n"
    ))
}

#[test]
fn a_route_falls_back_where_no_engine_can_be_reached() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = with_fallback(&a, &b, &[]);
    let refusing = a.refuse_until();
    for _ in 0..3 {
        let answer = send(&gateway, "r");
        assert_eq!((answer.status, answer.served_by()), (200, Some("B")));
        assert_eq!(answer.header("x-weighbridge-route"), Some("s"));
        assert_eq!(answer.header("x-weighbridge-target"), Some("other"));
    }
    let fallbacks = gateway
        .metrics()
        .sum("weighbridge_fallbacks_total", &[("route", "r")]);
    assert_eq!(fallbacks, 3.0);
    // The request is sent on as it was: under the name that the client gave.
    assert_eq!(b.posts()[0].json()["model"], "r");
    drop(refusing);
    assert!(eventually(SOON, || send(&gateway, "r").served_by() == Some("A")));
}

#[test]
fn a_route_falls_back_where_nothing_is_live() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = with_fallback(
        &a,
        &b,
        &["fail_open: false", "breaker: {consecutive: 1, open_for: 60s}"],
    );
    a.script(["status=500"]);
    assert_eq!(
        send(&gateway, "r").status,
        502,
        "an engine answered: that is not `unavailable`"
    );
    assert_eq!(b.posts().len(), 0);
    assert_eq!(send(&gateway, "r").served_by(), Some("B"));
    assert_eq!(a.posts().len(), 1);
}

#[test]
fn a_route_does_not_fall_back_where_its_engines_are_only_busy() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = with_fallback(&a, &b, &[]);
    a.script(["status=429,retry_after=30"]);
    assert_eq!(send(&gateway, "r").status, 429);
    let again = ask(&gateway, "r").send();
    assert_eq!((again.status, b.posts().len()), (429, 0));
}

/// A refusal is a decision too: it says who was left out and why.
#[test]
fn fail3_what_could_not_be_sent_is_among_the_decisions() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &["fail_open: false"]));
    a.script(["status=429,retry_after=30"]);
    send(&gateway, "r");
    assert_eq!(
        ask(&gateway, "r").header("x-request-id", "busy").send().status,
        429
    );
    let told = gateway.api("/api/decisions?route=r&limit=1")["decisions"][0].take();
    assert_eq!(
        (&told["request_id"], &told["refused"], &told["endpoint"]),
        (&"busy".into(), &"busy".into(), &serde_json::Value::Null),
        "{told}"
    );
    assert_eq!(told["dropped"]["state: cooling"], 1, "{told}");
    assert_eq!(
        (&told["candidates"], &told["live"]),
        (&1.into(), &0.into()),
        "{told}"
    );
}
