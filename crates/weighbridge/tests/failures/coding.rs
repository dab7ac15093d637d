//! HTTP-1: what a body is coded in is what its header says.

use crate::shared::{SOON, ask, gateway, in_order};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, messages};

/// As client libraries say it.
const USUAL: (&str, &str) = ("accept-encoding", "gzip, deflate, br");

#[test]
fn http1_answers_are_asked_for_as_they_are_so_that_their_tokens_are_counted() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    a.set_mode("gzip");
    for request in [
        ask(&gateway, "r"),
        Request::post(&gateway.url("/v1/messages"), messages("r", "x")),
    ] {
        let answer = request.headers(&[USUAL]).send();
        assert_eq!((answer.status, answer.header("content-encoding")), (200, None));
        assert!(answer.json()["usage"].is_object());
        assert_eq!(
            a.posts().pop().unwrap().header("accept-encoding"),
            Some("identity")
        );
        let id = answer.header("x-request-id").unwrap().to_owned();
        let line = gateway.wait_log(SOON, |line| line["request_id"] == *id);
        assert_eq!(line["prompt_tokens"], 11, "{line}");
    }
}

#[test]
fn http1_an_error_that_is_coded_all_the_same_is_no_garbage() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &["retry: false"], &["breaker: false"]));
    for coding in ["gzip=force", "deflate=force"] {
        for (status, client) in [(400, 400), (500, 502)] {
            a.set_mode(&format!("status={status},{coding}"));
            let answer = ask(&gateway, "r").send();
            assert_eq!((answer.status, answer.header("content-encoding")), (client, None));
            let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
            assert!(
                message.is_ascii() && message.contains(&status.to_string()),
                "{message:?}"
            );
        }
    }
}

#[test]
fn http1_an_answer_that_is_coded_all_the_same_says_so() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    a.set_mode("gzip=force");
    let answer = ask(&gateway, "r").headers(&[USUAL]).send();
    assert_eq!(
        (answer.status, answer.header("content-encoding")),
        (200, Some("gzip"))
    );
    assert_eq!(&answer.body[..2], [0x1f, 0x8b], "the bytes are the upstream's");
    assert_eq!(
        answer.header("content-length"),
        Some(&*answer.body.len().to_string())
    );
    assert_eq!(answer.header("transfer-encoding"), None);
}
