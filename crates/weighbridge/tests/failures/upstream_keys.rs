//! The keys that the gateway shows to upstreams: rotated, each cooled on its own; A15.

use crate::shared::{SOON, gateway, pool, send, state};
use std::time::Duration;
use weighbridge_test_engine::client::{Request, chat, messages};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

fn start(a: &Upstream, keys: &str, retry: &str) -> Gateway {
    let pool = pool("p", &[a], &[&format!("api_keys: {keys}")]);
    gateway(&format!(
        "pools:\n{pool}routes: [{{name: r, targets: [p], retry: {retry}}}]\n"
    ))
}

/// The keys that A got, in order.
fn shown(a: &Upstream) -> Vec<String> {
    let key = |value: &str| value.strip_prefix("Bearer ").unwrap().to_owned();
    a.posts()
        .iter()
        .map(|post| key(post.header("authorization").unwrap()))
        .collect()
}

const DEFAULT: &str = "{max_attempts: 3}";

#[test]
fn keys_take_turns() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a, "[one, two, three]", DEFAULT);
    for _ in 0..6 {
        assert_eq!(send(&gateway, "r").status, 200);
    }
    assert_eq!(shown(&a), ["one", "two", "three", "one", "two", "three"]);
}

#[test]
fn a_429_cools_the_key_and_not_the_engine() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a, "[one, two]", DEFAULT);
    a.script(["status=429,retry_after=2"]);
    let first = send(&gateway, "r");
    assert_eq!(
        (first.status, first.header("x-weighbridge-attempts")),
        (200, Some("2"))
    );
    assert_eq!(shown(&a), ["one", "two"], "the same engine, the other key");
    assert_eq!(state(&gateway, "A"), "live");
    let asked_at = a.posts()[0].ended().unwrap();
    let back = eventually(SOON, || {
        assert_eq!(send(&gateway, "r").status, 200);
        shown(&a)[2..].iter().any(|key| key == "one")
    });
    assert!(back, "the first key comes back");
    let place = shown(&a)[2..].iter().position(|key| key == "one").unwrap() + 2;
    let rest = a.posts()[place].started() - asked_at;
    assert!(rest >= Duration::from_secs(2), "back after {rest:?}");
}

#[test]
fn all_keys_cool_each_for_its_own_time() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a, "[one, two]", DEFAULT);
    a.script(["status=429,retry_after=30", "status=429,retry_after=2"]);
    let both = send(&gateway, "r");
    assert_eq!(
        (both.status, both.header("retry-after")),
        (429, Some("2")),
        "{}",
        both.text()
    );
    assert_eq!(shown(&a), ["one", "two"]);
    assert_eq!(state(&gateway, "A"), "cooling");
    let refused = send(&gateway, "r");
    assert_eq!((refused.status, a.posts().len()), (429, 2));
    assert!(eventually(SOON, || send(&gateway, "r").status == 200));
    assert_eq!(shown(&a)[2], "two", "the one that asked for less");
    let rest = a.posts()[2].started() - a.posts()[1].ended().unwrap();
    assert!(rest >= Duration::from_secs(2), "back after {rest:?}");
}

#[test]
fn a15_a_refused_key_fails_over_only_where_the_route_says_so() {
    for (retry, status, keys) in [
        (DEFAULT, 401, vec!["one"]),
        ("{on: [\"401\"]}", 200, vec!["one", "two"]),
        ("{on: [\"402\"]}", 401, vec!["one"]),
    ] {
        let [a] = Upstream::start_all(["A"]);
        let gateway = start(&a, "[one, two]", retry);
        a.script(["status=401"]);
        assert_eq!(send(&gateway, "r").status, status, "{retry}");
        assert_eq!(shown(&a), keys, "{retry}");
    }
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a, "[one, two]", "{on: [\"401\", \"402\"], max_attempts: 9}");
    a.script(["status=402", "status=401"]);
    assert_eq!(send(&gateway, "r").status, 401, "each key once");
    assert_eq!(shown(&a), ["one", "two"]);
    a.script(["status=400"]);
    assert_eq!(send(&gateway, "r").status, 400);
    assert_eq!(a.posts().len(), 3, "a 400 is the client's");
}

#[test]
fn each_kind_gets_its_key_in_its_own_header() {
    for (kind, path, header, value) in [
        (
            "openai",
            "/v1/chat/completions",
            "authorization",
            "Bearer secret-up",
        ),
        ("vllm", "/v1/messages", "authorization", "Bearer secret-up"),
        ("azure", "/v1/chat/completions", "api-key", "secret-up"),
        ("anthropic", "/v1/messages", "x-api-key", "secret-up"),
    ] {
        let [a] = Upstream::start_all(["A"]);
        let pool = pool("p", &[&a], &[&format!("kind: {kind}"), "api_key: secret-up"]);
        let gateway = gateway(&format!("pools:\n{pool}"));
        let body = if path == "/v1/messages" {
            messages("p", "x")
        } else {
            chat("p", "x")
        };
        let answer = Request::post(&gateway.url(path), body)
            .headers(&[
                ("authorization", "Bearer mine"),
                ("x-api-key", "mine"),
                ("api-key", "mine"),
            ])
            .send();
        assert_eq!(answer.status, 200, "{kind}: {}", answer.text());
        let post = a.posts().pop().unwrap();
        for name in ["authorization", "api-key", "x-api-key", "x-goog-api-key"] {
            let expect = (name == header).then_some(value);
            assert_eq!(post.header(name), expect, "{kind}: {name}");
        }
    }
}

#[test]
fn the_clients_key_goes_on_only_where_the_pool_says_so() {
    let [a] = Upstream::start_all(["A"]);
    let pool = pool("p", &[&a], &["forward_client_key: true"]);
    let gateway = gateway(&format!("pools:\n{pool}"));
    let answer = Request::post(&gateway.url("/v1/chat/completions"), chat("p", "x"))
        .headers(&[("authorization", "Bearer mine"), ("cookie", "session=mine")])
        .send();
    assert_eq!(answer.status, 200);
    let post = a.posts().pop().unwrap();
    assert_eq!(post.header("authorization"), Some("Bearer mine"));
    assert_eq!(post.header("cookie"), None);
}

#[test]
fn a_request_that_began_before_a_reload_with_more_keys_is_still_sent_with_one() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let config = |keys: &str| {
        let pools = pool("p", &[&a], &[]) + &pool("q", &[&b], &[&format!("api_keys: {keys}")]);
        format!(
            "pools:\n{pools}routes:\n  - {{name: r, targets: [p, {{pool: q, order: 2}}]}}\n  - {{name: s, targets: [q]}}\n"
        )
    };
    let gateway = gateway(&config("[one]"));
    a.script(["delay=3,status=503"]);
    let early = std::thread::scope(|scope| {
        let early = scope.spawn(|| send(&gateway, "r"));
        a.wait_posts(1, SOON);
        gateway.write_config(&config("[one, two]"));
        let reloaded = gateway.api_send("POST", "/api/config/reload", &serde_json::json!({}));
        assert_eq!(reloaded.status, 200, "{}", reloaded.text());
        // The turn is at the second key, which the request that waits does not know.
        assert_eq!(send(&gateway, "s").status, 200);
        early.join().unwrap()
    });
    assert_eq!(early.header("x-weighbridge-attempts"), Some("2"));
    assert_eq!(shown(&b), ["one", "one"]);
}
