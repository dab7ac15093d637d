//! Orders, capacity, overrides, what clients see of a choice, and moving on from a slow engine.

use crate::held::{hold, let_go, wait_held};
use crate::shared::{SOON, ask, attempts, count, gateway, in_order, pool, send, send_all, served};
use std::time::Duration;
use weighbridge_test_engine::client::{Request, Response, chat_stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

#[test]
fn a_later_order_serves_only_when_no_earlier_one_can() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let pools = pool("first", &[&a, &b], &[]) + &pool("second", &[&c], &[]);
    let gateway = gateway(&format!(
        "pools:\n{pools}routes: [{{name: r, route_by: round_robin, targets: [{{pool: second, order: 2}}, {{pool: first, order: 1}}]}}]\n"
    ));
    let names = || {
        let answers = send_all(&gateway, (0..10).map(|_| ask(&gateway, "r")));
        let names = served(&answers);
        ["A", "B", "C"].map(|name| count(&names, name))
    };
    assert_eq!(names(), [5, 5, 0]);
    a.script(["status=429,retry_after=3"]);
    b.script(["status=429,retry_after=3"]);
    let third = send(&gateway, "r");
    assert_eq!(
        (
            third.status,
            third.served_by(),
            third.header("x-weighbridge-attempts")
        ),
        (200, Some("C"), Some("3"))
    );
    assert_eq!(names(), [0, 0, 10]);
    assert!(
        eventually(SOON, || names()[2] == 0),
        "the first order serves again when it is back"
    );
}

/// Two weighted targets that take one request each at a time, the first of which is busy.
fn one_is_full(spill: bool) -> (Gateway, [Upstream; 2]) {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let pools = pool("A", &[&a], &["max_inflight: 1"]) + &pool("B", &[&b], &["max_inflight: 1"]);
    let gateway = gateway(&format!(
        "pools:\n{pools}routes:\n  - {{name: r, spill: {spill}, targets: [{{pool: A, weight: 1}}, {{pool: B, weight: 1}}]}}\n  \
         - {{name: only-a, targets: [A]}}\n  - {{name: only-b, targets: [B]}}\n"
    ));
    (gateway, [a, b])
}

#[test]
fn a_full_targets_share_spills_to_the_others() {
    let (gateway, upstreams) = one_is_full(true);
    let held = hold(&gateway, "only-a", &[]);
    wait_held(&gateway, &upstreams, 1);
    let answers = send_all(&gateway, (0..10).map(|_| ask(&gateway, "r")));
    assert_eq!(count(&served(&answers), "B"), 10);
    let other = hold(&gateway, "only-b", &[]);
    wait_held(&gateway, &upstreams, 2);
    let full = send(&gateway, "r");
    assert_eq!(
        (full.status, full.header("retry-after")),
        (429, Some("1")),
        "{}",
        full.text()
    );
    let_go(&gateway, vec![held, other]);
    let answers = send_all(&gateway, (0..10).map(|_| ask(&gateway, "r")));
    assert_eq!(count(&served(&answers), "A"), 5);
}

#[test]
fn without_spill_a_full_targets_share_is_a_429() {
    let (gateway, upstreams) = one_is_full(false);
    let held = hold(&gateway, "only-a", &[]);
    wait_held(&gateway, &upstreams, 1);
    let answers = send_all(&gateway, (0..10).map(|_| ask(&gateway, "r")));
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(
        statuses.iter().filter(|status| **status == 429).count(),
        5,
        "{statuses:?}"
    );
    assert_eq!(
        answers
            .iter()
            .filter(|answer| answer.served_by() == Some("B"))
            .count(),
        5
    );
    assert_eq!(upstreams[0].posts().len(), 1);
    let refused = answers.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!(refused.header("retry-after"), Some("1"));
    let_go(&gateway, vec![held]);
}

#[test]
fn two_routes_see_each_others_load() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let pools = pool("A", &[&a], &[]) + &pool("B", &[&b], &[]);
    let gateway = gateway(&format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [A, B], policies: {{least_inflight: {{}}}}}}\n  - {{name: only-a, targets: [A]}}\n"
    ));
    let held: Vec<_> = (0..2).map(|_| hold(&gateway, "only-a", &[])).collect();
    assert!(eventually(SOON, || a.stats().in_flight == 2));
    let answers = send_all(&gateway, (0..10).map(|_| ask(&gateway, "r")));
    assert_eq!(count(&served(&answers), "B"), 10);
    let_go(&gateway, held);
}

#[test]
fn a_header_may_name_another_model() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let pools = pool("small", &[&a], &[]) + &pool("big", &[&b], &["model: vendor/big-8x"]);
    let gateway = gateway(&format!("pools:\n{pools}"));
    for header in ["x-model", "x-model-name"] {
        let answer = ask(&gateway, "big").header(header, " small ").send();
        assert_eq!(answer.served_by(), Some("A"), "{header}");
        let post = a.posts().pop().unwrap();
        assert_eq!(
            post.json()["model"],
            "small",
            "the body says what the header said"
        );
        assert_eq!(post.header(header), None, "it was meant for the gateway");
    }
    let none = Request::post(&gateway.url("/v1/chat/completions"), "{\"messages\": []}");
    let answer = none.clone().header("x-model", "big").send();
    assert_eq!(answer.served_by(), Some("B"));
    assert_eq!(b.posts().pop().unwrap().json()["model"], "vendor/big-8x");
    assert_eq!(none.send().status, 400);
    assert_eq!(ask(&gateway, "big").header("x-model", "nix").send().status, 404);
    assert_eq!(
        ask(&gateway, "big").header("x-model", "").send().served_by(),
        Some("B")
    );
}

fn topology(answer: &Response) -> Vec<&str> {
    let names = answer.headers.iter().map(|(name, _)| name.as_str());
    names.filter(|name| name.starts_with("x-weighbridge")).collect()
}

#[test]
fn minimal_headers_tell_nothing_of_the_topology() {
    let [a] = Upstream::start_all(["A"]);
    a.set_mode("h.x-weighbridge-endpoint=gpu7");
    for (headers, shown) in [("minimal", false), ("full", true)] {
        let gateway = gateway(&format!(
            "server: {{headers: {headers}}}\n{}",
            in_order(&[&a], &[], &["breaker: false"])
        ));
        for mode in [
            "h.x-weighbridge-endpoint=gpu7",
            "status=500",
            "status=400",
            "drop",
        ] {
            a.set_mode(mode);
            let answer = ask(&gateway, "r").header("x-weighbridge-explain", "1").send();
            assert_eq!(
                !topology(&answer).is_empty(),
                shown,
                "{headers}, {mode}: {:?}",
                topology(&answer)
            );
            assert_eq!(
                answer.header_all("x-weighbridge-endpoint"),
                if shown { vec!["A"] } else { vec![] },
                "{mode}"
            );
            assert!(answer.header("x-request-id").is_some());
        }
        let mut stream = Request::post(
            &gateway.url("/v1/chat/completions"),
            chat_stream("r", "[[mock:gap=0]]"),
        )
        .open();
        let seen = stream
            .headers
            .iter()
            .any(|(name, _)| name.starts_with("x-weighbridge"));
        assert_eq!(seen, shown);
        stream.read_all();
    }
}

#[test]
fn full_headers_say_where_a_request_went_and_why_if_asked() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let pools = pool("p", &[&a, &b], &[]);
    let gateway = gateway(&format!(
        "pools:\n{pools}routes: [{{name: r, targets: [{{pool: p, name: t}}], policies: {{least_inflight: {{weight: 2}}}}}}]\n"
    ));
    let answer = send(&gateway, "r");
    assert_eq!(answer.header("x-weighbridge-route"), Some("r"));
    assert_eq!(answer.header("x-weighbridge-target"), Some("t"));
    assert_eq!(answer.header("x-weighbridge-endpoint"), answer.served_by());
    assert_eq!(answer.header("x-weighbridge-attempts"), Some("1"));
    assert!(
        answer
            .header("x-weighbridge-overhead-us")
            .unwrap()
            .parse::<u64>()
            .is_ok()
    );
    assert_eq!(
        answer.header("x-weighbridge-explain"),
        None,
        "only where asked for"
    );
    let explained = ask(&gateway, "r").header("x-weighbridge-explain", "1").send();
    let why: serde_json::Value =
        serde_json::from_str(explained.header("x-weighbridge-explain").unwrap()).unwrap();
    assert_eq!((&why["route_by"], &why["live"]), (&"policy".into(), &2.into()));
    assert_eq!(why["endpoint"], explained.served_by().unwrap());
    let part = &why["explanation"][0]["parts"][0];
    assert_eq!(
        (&part["policy"], &part["raw"], &part["share"], &part["weighted"]),
        (&"least_inflight".into(), &1.0.into(), &0.5.into(), &1.0.into())
    );
}

fn impatient(upstreams: &[&Upstream]) -> Gateway {
    let retry = "retry: {on: [connect, timeout], move_on_after: 500ms}";
    gateway(&in_order(upstreams, &[retry], &["timeouts: {first_byte: 10s}"]))
}

fn streamed(gateway: &Gateway) -> Response {
    Request::post(&gateway.url("/v1/chat/completions"), chat_stream("r", "x")).send()
}

#[test]
fn a10_a_slow_engine_is_left_while_another_is_untried() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = impatient(&[&a, &b]);
    a.set_mode("hang=headers");
    let answer = streamed(&gateway);
    assert_eq!((answer.status, answer.served_by()), (200, Some("B")));
    assert!(answer.elapsed >= Duration::from_millis(500) && answer.elapsed < Duration::from_secs(8));
    assert!(answer.text().contains("[DONE]"));
    assert!(
        eventually(SOON, || a.posts()[0].ended_as("peer_gone")),
        "A is told at once"
    );
    assert_eq!(attempts(&gateway, "A", "timeout"), 1.0);
    let gone = eventually(SOON, || gateway.metrics().sum("weighbridge_inflight", &[]) == 0.0);
    assert!(gone);
}

#[test]
fn a10_the_last_one_gets_the_full_time() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = impatient(&[&a, &b]);
    a.set_mode("hang=headers");
    b.set_mode("delay=1.5");
    let answer = streamed(&gateway);
    assert_eq!((answer.status, answer.served_by()), (200, Some("B")));
    assert!(
        answer.elapsed >= Duration::from_secs(2),
        "0.5 s for A, all of B's 1.5 s: {:?}",
        answer.elapsed
    );
    assert_eq!((a.posts().len(), b.posts().len()), (1, 1));
}

#[test]
fn a10_the_only_one_gets_the_full_time() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = impatient(&[&a]);
    a.set_mode("delay=1.5");
    let answer = streamed(&gateway);
    assert_eq!((answer.status, answer.served_by()), (200, Some("A")));
    assert_eq!(a.posts().len(), 1);
}

#[test]
fn a10_answers_in_one_piece_are_not_hurried() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = impatient(&[&a, &b]);
    a.set_mode("delay=1.5");
    assert_eq!(send(&gateway, "r").served_by(), Some("A"));
}
