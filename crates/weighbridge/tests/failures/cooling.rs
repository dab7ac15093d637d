//! FAIL-1: 429 moves on, and the cooldown lasts as long as the upstream asked.

use crate::shared::{ask, count, gateway, in_order, returns_after, send, served, state};
use std::time::{Duration, Instant, SystemTime};
use weighbridge_test_engine::{Upstream, par};

const TWO: &[&str] = &["retry: {on: [\"429\"]}"];

#[test]
fn fail1_a_429_moves_on_at_once_and_the_wait_is_kept() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[], &[]));
    a.script(["status=429,retry_after=3"]);
    let first = send(&gateway, "r");
    assert_eq!((first.status, first.served_by()), (200, Some("B")));
    assert_eq!(first.header("x-weighbridge-attempts"), Some("2"));
    assert_eq!(state(&gateway, "A"), "cooling");
    let asked_at = a.posts()[0].ended().unwrap();
    let away = returns_after(&gateway, "r", (&a, asked_at));
    assert!(away >= Duration::from_secs(3), "back after {away:?}");
    assert!(away < Duration::from_secs(6), "back after {away:?} only");
    assert_eq!(a.posts().len(), 2);
}

/// How long A is left alone after it said 429 with this Retry-After.
fn rest(retry_after: &str, cooldown: &str) -> Duration {
    asked_and_back(retry_after, cooldown).1
}

/// When A said 429, and how long it was then left alone.
fn asked_and_back(retry_after: &str, cooldown: &str) -> (Instant, Duration) {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], TWO, &[&format!("cooldown: {cooldown}")]));
    let wait = if retry_after.is_empty() {
        String::new()
    } else {
        format!(",retry_after={retry_after}")
    };
    a.script([format!("status=429{wait}")]);
    assert_eq!(send(&gateway, "r").served_by(), Some("B"));
    let asked_at = a.posts()[0].ended().unwrap();
    (asked_at, returns_after(&gateway, "r", (&a, asked_at)))
}

fn is_about(rest: Duration, seconds: f64) {
    let found = rest.as_secs_f64();
    assert!(found >= seconds - 0.001, "only {found} s of {seconds} s");
    assert!(found < seconds + 3.0, "{found} s instead of {seconds} s");
}

#[test]
fn fail1_a_date_is_understood() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let date = Duration::from_secs(now.as_secs() + 4);
    let due = Instant::now() + (date - now);
    let date = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + date).replace(',', "%2C");
    let (asked_at, rest) = asked_and_back(&date, "{default: 20s}");
    let back = asked_at + rest;
    // The two clocks are read one after the other.
    let early = due.saturating_duration_since(back);
    assert!(early < Duration::from_millis(20), "{early:?} too early");
    assert!(rest < Duration::from_secs(9), "back after {rest:?} only");
}

#[test]
fn fail1_nonsense_and_nothing_take_the_default() {
    is_about(rest("soon", "{default: 1s}"), 1.0);
    is_about(rest("", "{default: 1200ms}"), 1.2);
    is_about(rest("-5", "{default: 1s}"), 1.0);
}

#[test]
fn fail1_a_day_is_capped() {
    is_about(rest("86400", "{default: 500ms, max: 2s}"), 2.0);
}

/// Two requests are on A when it says 429 to both, first to the one and then to the other; how long after the second
/// answer it is left alone.
fn rest_of_two(first: u32, second: u32) -> Duration {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], TWO, &[]));
    a.script([
        format!("delay=1,status=429,retry_after={first}"),
        format!("delay=1.3,status=429,retry_after={second}"),
    ]);
    let answers = par(2, |_| send(&gateway, "r"));
    assert_eq!(served(&answers), ["B", "B"]);
    let posts = a.posts();
    assert_eq!(posts.len(), 2);
    assert!(
        posts[1].started() < posts[0].ended().unwrap(),
        "both were on A at the same time"
    );
    let asked_at = posts
        .iter()
        .find(|post| post.mode.contains("1.3"))
        .unwrap()
        .ended()
        .unwrap();
    returns_after(&gateway, "r", (&a, asked_at))
}

#[test]
fn fail1_a_later_longer_wait_extends() {
    is_about(rest_of_two(1, 4), 4.0);
}

#[test]
fn fail1_a_later_shorter_wait_does_not_shorten() {
    // 0.3 s of the first wait have gone by when the second answer comes.
    let rest = rest_of_two(4, 1);
    assert!(rest >= Duration::from_millis(3_500), "back after {rest:?}");
}

#[test]
fn fail1_ten_requests_cost_the_cooling_engine_one() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[], &[]));
    a.script(["status=429,retry_after=30"]);
    let answers: Vec<_> = (0..10).map(|_| ask(&gateway, "r").send()).collect();
    assert_eq!(count(&served(&answers), "B"), 10);
    assert_eq!(a.posts().len(), 1);
    let moved = answers
        .iter()
        .filter(|answer| answer.header("x-weighbridge-attempts") == Some("2"));
    assert_eq!(moved.count(), 1, "nine never tried A");
}

#[test]
fn fail1_503_and_529_cool_as_429_does() {
    for status in ["503", "529"] {
        let [a, b] = Upstream::start_all(["A", "B"]);
        let gateway = gateway(&in_order(&[&a, &b], &[], &[]));
        a.script([format!("status={status},retry_after=1")]);
        assert_eq!(send(&gateway, "r").served_by(), Some("B"), "{status}");
        assert_eq!(state(&gateway, "A"), "cooling", "{status}");
        let rest = returns_after(&gateway, "r", (&a, a.posts()[0].ended().unwrap()));
        is_about(rest, 1.0);
    }
}

#[test]
fn fail1_a_503_that_names_no_time_does_not_cool() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[], &[]));
    a.script(["status=503"]);
    assert_eq!(send(&gateway, "r").served_by(), Some("B"));
    let begun = Instant::now();
    assert_eq!(
        send(&gateway, "r").served_by(),
        Some("A"),
        "after {:?}",
        begun.elapsed()
    );
}

#[test]
fn a17_operators_see_the_state_its_reason_and_its_end() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(
        &[&a, &b],
        &[],
        &["breaker: {consecutive: 1, open_for: 40s}"],
    ));
    a.script(["status=429,retry_after=30"]);
    b.script(["status=500"]);
    send(&gateway, "r");
    let shown = |name: &str| {
        let all = gateway.api("/api/endpoints")["endpoints"].clone();
        all.as_array()
            .unwrap()
            .iter()
            .find(|entry| entry["name"] == name)
            .unwrap()
            .clone()
    };
    for (name, state, reason, most) in [
        ("A", "cooling", "429 with Retry-After 30 s", 30.0),
        ("B", "open", "1 failures in a row", 40.0),
    ] {
        let entry = shown(name);
        assert_eq!(
            (&entry["state"], &entry["reason"]),
            (&state.into(), &reason.into()),
            "{entry}"
        );
        let left = entry["seconds_left"].as_f64().unwrap();
        assert!(left > most - 15.0 && left <= most, "{left}");
        assert!(entry["until"].is_string(), "{entry}");
    }
}
