//! FAIL-2: what never reached an engine is tried on another one; what was delivered is not, unless the route says so.

use crate::shared::{ask, attempts, gateway, in_order, options, send, state};
use std::time::{Duration, Instant};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, Response, chat_stream};
use weighbridge_test_engine::harness::Gateway;

const FAST: &[&str] = &["timeouts: {first_byte: 1s, total: 1s}"];

fn stream(gateway: &Gateway) -> Request {
    Request::post(&gateway.url("/v1/chat/completions"), chat_stream("r", "hello"))
}

#[test]
fn fail2a_a_refused_engine_is_passed_over() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[], &[]));
    let refusing = a.refuse_until();
    let begun = Instant::now();
    let first = send(&gateway, "r");
    assert_eq!((first.status, first.served_by()), (200, Some("B")));
    assert_eq!(first.header("x-weighbridge-attempts"), Some("2"));
    assert!(first.elapsed < Duration::from_secs(5), "{:?}", first.elapsed);
    let later: Vec<Response> = (0..5).map(|_| send(&gateway, "r")).collect();
    // An ejection lasts one second, then a trial request is allowed.
    if begun.elapsed() < Duration::from_secs(1) {
        assert_eq!(attempts(&gateway, "A", "connect_error"), 1.0);
        assert_eq!(state(&gateway, "A"), "ejected");
    }
    assert!(later.iter().all(|answer| answer.served_by() == Some("B")));
    drop(refusing);
    let back = weighbridge_test_engine::eventually(crate::shared::SOON, || {
        send(&gateway, "r").served_by() == Some("A")
    });
    assert!(back, "A serves again once it listens");
    assert_eq!(state(&gateway, "A"), "live");
}

/// What the client gets when A behaves like this and B is well, for a stream or not; with the number of requests that
/// each of them got.
fn outcome(mode: &str, streamed: bool, retry: &str) -> (Response, [usize; 2]) {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[&format!("retry: {retry}")], FAST));
    a.set_mode(mode);
    let request = if streamed {
        stream(&gateway)
    } else {
        ask(&gateway, "r")
    };
    let answer = request.send();
    (answer, [a.posts().len(), b.posts().len()])
}

const DEFAULT: &str = "{max_attempts: 3}";

#[test]
fn fail2b_a_silent_engine_is_a_504_that_says_which_clock() {
    for (streamed, clock) in [(true, "first_byte"), (false, "total")] {
        let (answer, posts) = outcome("hang=headers", streamed, DEFAULT);
        assert_eq!((answer.status, posts), (504, [1, 0]), "{streamed}");
        assert!(answer.elapsed >= Duration::from_secs(1), "{:?}", answer.elapsed);
        assert!(answer.elapsed < Duration::from_secs(6), "{:?}", answer.elapsed);
        let error = &answer.json()["error"];
        assert!(error["message"].as_str().unwrap().contains(clock), "{error}");
        assert_eq!(answer.header("x-weighbridge-endpoint"), Some("A"));
    }
}

#[test]
fn fail2b_a_timeout_moves_on_where_the_route_says_so() {
    for streamed in [true, false] {
        let (answer, posts) = outcome("hang=headers", streamed, "{on: [timeout]}");
        assert_eq!((answer.status, posts), (200, [1, 1]), "{streamed}");
        assert_eq!(answer.served_by(), Some("B"));
    }
}

#[test]
fn fail2c_a_dropped_request_is_not_sent_again() {
    for mode in ["drop", "drop=rst"] {
        for streamed in [true, false] {
            let (answer, posts) = outcome(mode, streamed, DEFAULT);
            assert_eq!((answer.status, posts), (502, [1, 0]), "{mode} {streamed}");
            assert!(!answer.json()["error"]["message"].as_str().unwrap().is_empty());
            let (answer, posts) = outcome(mode, streamed, "{on: [reset]}");
            assert_eq!((answer.status, posts), (200, [1, 1]), "{mode} {streamed}");
        }
    }
}

#[test]
fn fail2_each_word_is_about_its_own_failure() {
    let failures = [
        ("drop", "reset", 502),
        ("hang=headers", "timeout", 504),
        ("status=500", "\"500\"", 502),
        ("status=502", "\"502\"", 502),
        ("status=401", "\"401\"", 401),
        ("status=404", "\"404\"", 404),
        ("status=429", "\"429\"", 429),
        ("status=503", "\"503\"", 503),
        ("status=529", "\"529\"", 503),
    ];
    for (mode, word, status) in failures {
        let others: Vec<_> = failures
            .iter()
            .map(|(_, other, _)| *other)
            .filter(|other| *other != word)
            .collect();
        let (answer, posts) = outcome(mode, false, &format!("{{on: [connect, {word}]}}"));
        assert_eq!((answer.status, posts), (200, [1, 1]), "{mode} with {word}");
        let (answer, posts) = outcome(mode, false, &format!("{{on: [connect, {}]}}", others.join(", ")));
        assert_eq!((answer.status, posts), (status, [1, 0]), "{mode} with {others:?}");
    }
}

#[test]
fn fail2_connect_is_a_word_too() {
    for (word, served) in [("connect", Some("B")), ("\"429\"", None)] {
        let [a, b] = Upstream::start_all(["A", "B"]);
        let gateway = gateway(&in_order(&[&a, &b], &[&format!("retry: {{on: [{word}]}}")], &[]));
        let _refusing = a.refuse_until();
        let answer = send(&gateway, "r");
        assert_eq!(answer.served_by(), served, "{word}");
        assert_eq!(answer.status, if served.is_some() { 200 } else { 503 }, "{word}");
    }
}

#[test]
fn fail2_a_redirect_and_a_broken_answer_are_never_tried_again() {
    let every = "{on: [connect, reset, timeout, \"500\", \"502\"]}";
    for mode in ["redirect=http://127.0.0.1:9/v1", "short=100"] {
        let (answer, posts) = outcome(mode, false, every);
        assert_eq!((answer.status, posts), (502, [1, 0]), "{mode}");
        assert!(answer.header("location").is_none(), "{mode}");
        assert!(
            !answer.text().contains("127.0.0.1:9"),
            "{mode}: {}",
            answer.text()
        );
    }
}

#[test]
fn fail2_retry_false_tries_once() {
    let (answer, posts) = outcome("status=429", false, "false");
    assert_eq!((answer.status, posts), (429, [1, 0]));
}

#[test]
fn fail2_attempts_never_exceed_the_most_and_each_engine_is_tried_once() {
    let upstreams = Upstream::start_all(["A", "B", "C", "D", "E"]);
    let all: Vec<_> = upstreams.iter().collect();
    for (most, wanted) in [(1, 1), (3, 3), (5, 5), (20, 5)] {
        let retry = format!("retry: {{on: [\"500\"], max_attempts: {most}}}");
        let gateway = gateway(&in_order(&all, &[&retry], &["breaker: false"]));
        for upstream in &upstreams {
            upstream.reset();
            upstream.set_mode("status=500");
        }
        let answer = send(&gateway, "r");
        let wanted_header = wanted.to_string();
        assert_eq!(answer.status, 502);
        assert_eq!(
            answer.header("x-weighbridge-attempts"),
            Some(&*wanted_header),
            "{most}"
        );
        let posts: Vec<_> = upstreams.iter().map(|upstream| upstream.posts().len()).collect();
        let expect: Vec<_> = (0..5).map(|index| usize::from(index < wanted)).collect();
        assert_eq!(posts, expect, "max_attempts {most}");
    }
}

#[test]
fn fail2_within_one_pool_each_engine_is_tried_once_too() {
    let upstreams = Upstream::start_all(["A", "B", "C"]);
    let all: Vec<_> = upstreams.iter().collect();
    let pool = crate::shared::pool("p", &all, &["breaker: false"]);
    let yaml = format!(
        "pools:\n{pool}routes: [{{name: r, targets: [p], retry: {{on: [\"500\"], max_attempts: 9}}}}]\n"
    );
    let gateway = gateway(&yaml);
    for upstream in &upstreams {
        upstream.set_mode("status=500");
    }
    for round in 1..=4 {
        assert_eq!(send(&gateway, "r").header("x-weighbridge-attempts"), Some("3"));
        for upstream in &upstreams {
            assert_eq!(upstream.posts().len(), round, "{}", upstream.name());
        }
    }
}

#[test]
fn fail2_a_route_that_falls_back_to_itself_is_refused_at_load() {
    let [a] = Upstream::start_all(["A"]);
    let failure = Gateway::try_start(&options(&in_order(&[&a], &["fallback: [r]"], &[])))
        .err()
        .unwrap();
    assert_eq!(failure.code, Some(2));
    assert!(
        failure.output.contains("falls back to itself"),
        "{}",
        failure.output
    );
}

#[test]
fn fail2_fallbacks_in_a_circle_end() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let pools = crate::shared::pool("A", &[&a], &[]) + &crate::shared::pool("B", &[&b], &[]);
    let retry = "retry: {max_attempts: 20}";
    let yaml = format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [A], fallback: [s], {retry}}}\n  \
         - {{name: s, targets: [B], fallback: [r], {retry}}}\n"
    );
    let gateway = gateway(&yaml);
    let (_a, _b) = (a.refuse_until(), b.refuse_until());
    for model in ["r", "s"] {
        let answer = send(&gateway, model);
        assert_eq!(answer.status, 503, "{model}: {}", answer.text());
        assert_eq!(
            answer.header("x-weighbridge-attempts"),
            Some("2"),
            "{model}: each engine once"
        );
        assert!(answer.header("retry-after").is_some(), "{model}");
    }
}

/// Two routes may end in the same third one: each engine is asked once.
#[test]
fn fail2_fallbacks_that_meet_ask_each_engine_once() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let pools: String = [&a, &b, &c]
        .map(|one| crate::shared::pool(one.name(), &[one], &[]))
        .concat();
    let retry = "retry: {max_attempts: 20}";
    let yaml = format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [A], fallback: [s, t], {retry}}}\n  \
         - {{name: s, targets: [B], fallback: [t], {retry}}}\n  - {{name: t, targets: [C]}}\n"
    );
    let gateway = gateway(&yaml);
    let _refusing = (a.refuse_until(), b.refuse_until(), c.refuse_until());
    let answer = send(&gateway, "r");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert_eq!(answer.header("x-weighbridge-attempts"), Some("3"));
    assert!(answer.header("retry-after").is_some());
}

#[test]
fn fail2_the_budget_ends_a_storm_of_retries() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    // 0 · first attempts + 0.3/s · 10 s: three retries in ten seconds.
    let retry = "retry: {on: [\"500\"], budget: {ratio: 0, floor_per_second: 0.3, window: 10s}}";
    let gateway = gateway(&in_order(&[&a, &b], &[retry], &["breaker: false"]));
    a.set_mode("status=500");
    let begun = Instant::now();
    let statuses: Vec<_> = (0..8).map(|_| send(&gateway, "r").status).collect();
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "the machine is too slow for this test"
    );
    assert_eq!(statuses, [200, 200, 200, 502, 502, 502, 502, 502]);
    assert_eq!((a.posts().len(), b.posts().len()), (8, 3));
    let retries = gateway.metrics().sum("weighbridge_retries_total", &[]);
    assert_eq!(retries, 3.0);
}

#[test]
fn fail2_the_budget_grows_with_the_traffic() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let retry = "retry: {on: [\"500\"], budget: {ratio: 0.5, floor_per_second: 0, window: 60s}}";
    let gateway = gateway(&in_order(&[&a, &b], &[retry], &["breaker: false"]));
    a.set_mode("status=500");
    let good = (0..40).filter(|_| send(&gateway, "r").status == 200).count();
    assert_eq!(good, 20, "every second one may be tried again");
}
