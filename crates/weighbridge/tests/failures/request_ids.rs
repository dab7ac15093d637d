//! ERR-1: one id per request, the same for the client, the upstream and the log.

use crate::shared::{SOON, ask, gateway, in_order};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, chat_stream, messages};

#[test]
fn err1_the_id_is_the_same_everywhere_on_answers_errors_and_streams() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &["breaker: false"]));
    let chat_url = gateway.url("/v1/chat/completions");
    for mode in [
        "",
        "status=400",
        "status=500",
        "drop",
        "cut=2",
        "error_event=0",
        "ok_error",
    ] {
        a.set_mode(mode);
        for request in [
            ask(&gateway, "r"),
            Request::post(&chat_url, chat_stream("r", "x")),
            Request::post(&gateway.url("/v1/messages"), messages("r", "x")),
        ] {
            let answer = request.try_send().unwrap();
            let id = answer.header("x-request-id").expect("an id").to_owned();
            assert_eq!(answer.header_all("x-request-id").len(), 1, "{mode}");
            assert_eq!(id.len(), 32, "{mode}: a new one, not the upstream's: {id}");
            let post = a.posts().pop().unwrap();
            assert_eq!(post.header("x-request-id"), Some(&*id), "{mode}");
            gateway.wait_log(SOON, |line| line["request_id"] == *id);
        }
    }
    let ids: std::collections::BTreeSet<_> = a
        .posts()
        .iter()
        .map(|p| p.header("x-request-id").unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), a.posts().len(), "each request has its own");
}

#[test]
fn err1_a_sane_id_of_the_client_is_kept_through_retries() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = gateway(&in_order(&[&a, &b], &[], &[]));
    a.script(["status=429"]);
    let id = "req-2026_11.29:7a";
    let answer = ask(&gateway, "r").header("x-request-id", id).send();
    assert_eq!((answer.status, answer.header("x-request-id")), (200, Some(id)));
    assert_eq!(a.posts()[0].header("x-request-id"), Some(id));
    assert_eq!(b.posts()[0].header("x-request-id"), Some(id));
    let line = gateway.wait_log(SOON, |line| line["request_id"] == id);
    assert_eq!(line["attempts"], 2);
}

#[test]
fn err1_an_id_that_could_do_harm_is_replaced() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    let long = "x".repeat(129);
    for bad in ["", "a b", "a\"b", "a\tb", "<script>", "caf\u{e9}", "{}", &*long] {
        let answer = ask(&gateway, "r").header("x-request-id", bad).send();
        let id = answer.header("x-request-id").unwrap();
        assert_eq!((answer.status, id.len()), (200, 32), "{bad:?} became {id:?}");
    }
    let longest = "y".repeat(128);
    let answer = ask(&gateway, "r").header("x-request-id", &longest).send();
    assert_eq!(answer.header("x-request-id"), Some(&*longest));
}

#[test]
fn err1_errors_of_our_own_carry_an_id_too() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    let url = gateway.url("/v1/chat/completions");
    for request in [
        Request::post(&url, "not json"),
        Request::post(&url, "{}"),
        Request::post(&gateway.url("/v1/nothing"), "{}"),
        Request::get(&url),
        ask(&gateway, "absent"),
    ] {
        let answer = request.header("x-request-id", "mine-1").send();
        assert!((400..500).contains(&answer.status));
        assert_eq!(answer.header("x-request-id"), Some("mine-1"), "{}", answer.status);
    }
    let messages = Request::post(&gateway.url("/v1/messages"), "{}")
        .header("x-request-id", "mine-2")
        .send();
    assert_eq!(
        messages.json()["request_id"],
        "mine-2",
        "Anthropic's shape carries it in the body too"
    );
    for path in ["/health", "/ready"] {
        let alive = Request::get(&gateway.url(path))
            .header("x-request-id", "mine-3")
            .send();
        assert_eq!(alive.header("x-request-id"), Some("mine-3"), "{path}");
    }
}
