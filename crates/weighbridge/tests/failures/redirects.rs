//! SEC-2: redirects do not carry keys or prompts away.

use crate::shared::{SOON, attempts, gateway, in_order, state};
use weighbridge_test_engine::client::{Request, chat, chat_stream, messages, messages_stream};
use weighbridge_test_engine::{Upstream, eventually};

#[test]
fn sec2_a_redirect_is_neither_followed_nor_passed_on() {
    for kind in ["vllm", "generic"] {
        let [a, b] = Upstream::start_all(["A", "B"]);
        let keys = [
            &*format!("kind: {kind}"),
            "api_key: UPSECRET123",
            "breaker: false",
        ];
        let gateway = gateway(&in_order(&[&a], &[], &keys));
        for (n, status) in (0..).zip([301, 302, 303, 307, 308]) {
            a.set_mode(&format!(
                "status={status},redirect={}/v1/messages?moved=1",
                b.url()
            ));
            for (path, body) in [
                ("/v1/chat/completions", chat("r", "x")),
                ("/v1/chat/completions", chat_stream("r", "x")),
                ("/v1/messages", messages("r", "x")),
                ("/v1/messages", messages_stream("r", "x")),
            ] {
                let answer = Request::post(&gateway.url(path), body).send();
                assert_eq!(
                    (answer.status, answer.header("location")),
                    (502, None),
                    "{status} {path}"
                );
                let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
                assert!(
                    message.contains("redirect") && !message.contains("moved"),
                    "{message}"
                );
            }
            assert_eq!(
                attempts(&gateway, "A", "upstream_error"),
                4.0 * f64::from(n + 1),
                "a failure of A"
            );
        }
        assert_eq!(b.log().len(), 0);
    }
}

#[test]
fn sec2_probes_follow_no_redirect_either() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    a.set_mode(&format!("redirect={}/health", b.url()));
    let health = "health: {path: /health, interval: 100ms, unhealthy_after: 2}";
    let gateway = gateway(&in_order(&[&a], &[], &["api_key: UPSECRET123", health]));
    assert!(eventually(SOON, || state(&gateway, "A") == "unhealthy"));
    assert_eq!(b.log().len(), 0);
}
