//! Paths that only the config names.

use crate::form::{field, file, form, post};
use crate::shared::{gateway, pool};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;

const SERVER: &str = "server: {passthrough: [/tokenize, /version, '/engine/*']}";

fn two(upstreams: &[Upstream; 2]) -> Gateway {
    let [a, b] = upstreams;
    gateway(&format!(
        "{SERVER}\npools:\n{}{}",
        pool("m", &[a], &["model: real"]),
        pool("n", &[b], &[])
    ))
}

#[test]
fn it_is_routed_by_the_model_in_the_body_or_the_header() {
    let upstreams = Upstream::start_all(["A", "B"]);
    let gateway = two(&upstreams);
    let url = gateway.url("/tokenize?add_special_tokens=1");
    let answer = Request::post(&url, "{\"model\": \"m\", \"prompt\": 1.0}").send();
    assert_eq!((answer.status, answer.served_by()), (200, Some("A")));
    assert_eq!(answer.json()["count"], 3);
    let sent = upstreams[0].posts();
    assert_eq!(sent[0].target, "/tokenize?add_special_tokens=1");
    assert_eq!(
        sent[0].body.as_deref(),
        Some("{\"model\": \"real\", \"prompt\": 1.0}")
    );
    // Nothing is written into a body that names no model.
    let answer = Request::post(&url, "[1]").header("x-model", "n").send();
    assert_eq!((answer.status, answer.served_by()), (200, Some("B")));
    assert_eq!(upstreams[1].posts()[0].body.as_deref(), Some("[1]"));
    let answer = post(
        &gateway.url("/engine/tokenize"),
        form(&[file("x"), field("model", "n")]),
    )
    .send();
    assert_eq!((answer.status, answer.served_by()), (200, Some("B")));
    let answer = Request::get(&gateway.url("/version"))
        .header("x-model", "n")
        .send();
    assert_eq!(answer.json()["version"], "B");
}

#[test]
fn without_a_model_there_must_be_one_route() {
    let upstreams = Upstream::start_all(["A", "B"]);
    let gateway = two(&upstreams);
    for request in [
        Request::post(&gateway.url("/tokenize"), "{\"prompt\":\"x\"}"),
        Request::post(&gateway.url("/tokenize"), ""),
        Request::get(&gateway.url("/version")),
    ] {
        let answer = request.send();
        assert_eq!(answer.status, 400);
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            message.contains("x-model") && message.contains("\"model\""),
            "{message}"
        );
    }
    let one = self::gateway(&format!(
        "{SERVER}\npools:\n{}",
        pool("m", &[&upstreams[0]], &["model: real"])
    ));
    let answer = Request::post(&one.url("/tokenize"), "{\"prompt\":\"x\"}").send();
    assert_eq!(answer.status, 200);
    assert_eq!(
        upstreams[0].posts()[0].body.as_deref(),
        Some("{\"prompt\":\"x\"}")
    );
    assert_eq!(Request::get(&one.url("/version")).send().json()["version"], "A");
}

#[test]
fn only_what_is_named_passes() {
    let upstreams = Upstream::start_all(["A", "B"]);
    let gateway = two(&upstreams);
    for path in [
        "/tokenize/",
        "/tokenize/x",
        "/tokenizer",
        "/%74okenize",
        "/engine",
        "/engine/",
        "/engine/../version",
        "/engine/%2e%2e/version",
        "/engine/a%2fb",
        "/engine//a",
        "/engine/./a",
    ] {
        let answer = Request::post(&gateway.url(path), "{\"model\":\"m\"}").send();
        assert_eq!(answer.status, 404, "{path}");
    }
    let delete = Request::new("DELETE", &gateway.url("/tokenize")).send();
    assert_eq!((delete.status, delete.header("allow")), (405, Some("GET, POST")));
    for body in ["{\"model\":\"m\",\"model\":\"n\"}", "{\"model\":"] {
        assert_eq!(Request::post(&gateway.url("/tokenize"), body).send().status, 400);
    }
    assert!(upstreams.iter().all(|upstream| upstream.log().is_empty()));
}
