//! Who may use the gateway, and for what.

use crate::shared::{SOON, as_written, gateway, in_order, pool, refusal};
use weighbridge_test_engine::client::{Request, Response, chat, get, messages};
use weighbridge_test_engine::harness::{ADMIN_TOKEN, Gateway};
use weighbridge_test_engine::{Upstream, eventually};

const KEYS: &str = "
auth: keys
keys:
  - {name: all, key: key-of-all-0001}
  - {name: some, key: key-of-some-0002, models: [small, \"gpt-*\"]}
  - {name: old, key: key-of-old-0003, expires: 2020-01-01}
  - {name: next, key: key-of-next-0004, expires: 2099-01-01}
  - {name: twin, key: key-of-twin-0005}
  - {name: twin, key: key-of-twin-0006}
  - {name: hashed, key_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08}
";

fn start(a: &Upstream) -> Gateway {
    let pools: String = ["small", "big", "gpt-5"]
        .iter()
        .map(|name| pool(name, &[a], &[]))
        .collect();
    gateway(&format!("pools:\n{pools}{KEYS}"))
}

fn with(gateway: &Gateway, headers: &[(&str, &str)], model: &str) -> Response {
    Request::post(&gateway.url("/v1/chat/completions"), chat(model, "x"))
        .headers(headers)
        .send()
}

fn bearer(gateway: &Gateway, key: &str, model: &str) -> Response {
    with(gateway, &[("authorization", &format!("Bearer {key}"))], model)
}

#[test]
fn a_key_is_taken_from_any_of_its_headers() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a);
    for headers in [
        ("authorization", "Bearer key-of-all-0001"),
        ("authorization", "bearer key-of-all-0001"),
        ("x-api-key", "key-of-all-0001"),
        ("api-key", "key-of-all-0001"),
        ("x-api-key", "test"),
    ] {
        assert_eq!(with(&gateway, &[headers], "small").status, 200, "{headers:?}");
    }
    assert!(eventually(SOON, || gateway.log_lines().len() == 5));
    let names: Vec<_> = gateway
        .log_lines()
        .iter()
        .map(|line| line["key"].clone())
        .collect();
    assert_eq!(names, ["all", "all", "all", "all", "hashed"]);
}

#[test]
fn without_a_good_key_there_is_a_401_in_the_clients_protocol() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a);
    let wrong: [&[(&str, &str)]; 7] = [
        &[],
        &[("authorization", "Bearer nobody")],
        &[("authorization", "Basic a2V5LW9mLWFsbC0wMDAx")],
        &[("authorization", "key-of-all-0001")],
        &[("x-api-key", "")],
        &[("x-api-key", "key-of-all-000")],
        &[("x-api-key", "key-of-old-0003")],
    ];
    for headers in wrong {
        let openai = with(&gateway, headers, "small");
        assert_eq!(openai.status, 401, "{headers:?}");
        let error = &openai.json()["error"];
        assert!(
            error["code"] == "invalid_api_key" || error["code"] == "missing_api_key",
            "{error}"
        );
        assert!(
            error["type"].is_string() && error["message"].is_string(),
            "{error}"
        );
        let anthropic = Request::post(&gateway.url("/v1/messages"), messages("small", "x")).headers(headers);
        let anthropic = anthropic.send();
        assert_eq!(anthropic.status, 401, "{headers:?}");
        assert_eq!(anthropic.json()["type"], "error");
        assert_eq!(anthropic.json()["error"]["type"], "authentication_error");
        assert_eq!(
            get(&gateway.url("/v1/models"), headers).status,
            401,
            "{headers:?}"
        );
    }
    let expired = bearer(&gateway, "key-of-old-0003", "small");
    assert!(expired.text().contains("expired"), "{}", expired.text());
    assert_eq!(a.posts().len(), 0);
    for path in ["/health", "/ready"] {
        assert_eq!(get(&gateway.url(path), &[]).status, 200, "{path} needs none");
    }
}

#[test]
fn keys_that_have_not_ended_work_and_two_may_share_a_name() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a);
    for (key, name) in [
        ("key-of-next-0004", "next"),
        ("key-of-twin-0005", "twin"),
        ("key-of-twin-0006", "twin"),
    ] {
        assert_eq!(bearer(&gateway, key, "small").status, 200, "{key}");
        gateway.wait_log(SOON, |line| line["key"] == name);
    }
}

#[test]
fn a_key_sees_only_its_models() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a);
    for (model, status) in [("small", 200), ("gpt-5", 200), ("big", 404), ("absent", 404)] {
        let answer = bearer(&gateway, "key-of-some-0002", model);
        assert_eq!(answer.status, status, "{model}");
        if status == 404 {
            assert_eq!(answer.json()["error"]["code"], "model_not_found");
        }
        let one = get(
            &gateway.url(&format!("/v1/models/{model}")),
            &[("x-api-key", "key-of-some-0002")],
        );
        assert_eq!(one.status, status, "{model}");
    }
    let text = |model: &str| {
        let answer = bearer(&gateway, "key-of-some-0002", model);
        answer.text().replace(model, "MODEL")
    };
    assert_eq!(
        text("big"),
        text("nix"),
        "a model one may not use looks like one that is not there"
    );
    let overridden = with(
        &gateway,
        &[("authorization", "Bearer key-of-some-0002"), ("x-model", "big")],
        "small",
    );
    assert_eq!(overridden.status, 404, "an override is held to the same list");
    let list = |key: &str| {
        let list = get(&gateway.url("/v1/models"), &[("x-api-key", key)]).json();
        let ids = list["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|model| model["id"].as_str().unwrap().to_owned());
        let mut ids: Vec<_> = ids.collect();
        ids.sort();
        ids
    };
    assert_eq!(list("key-of-some-0002"), ["gpt-5", "small"]);
    assert_eq!(list("key-of-all-0001"), ["big", "gpt-5", "small"]);
}

#[test]
fn keys_in_the_file_are_asked_for_unless_it_says_otherwise() {
    let [a] = Upstream::start_all(["A"]);
    let rest = format!(
        "server: {{listen: \"127.0.0.1:0\"}}\nadmin: {{listen: \"127.0.0.1:0\", token: {ADMIN_TOKEN}}}\n\
         keys: [{{name: k, key: key-of-all-0001}}]\npools:\n{}",
        pool("small", &[&a], &[])
    );
    for (auth, anonymous) in [("", 401), ("auth: none\n", 200)] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("weighbridge.yaml");
        std::fs::write(&file, format!("{auth}{rest}")).unwrap();
        let gateway = Gateway::start_with(&as_written(&file));
        assert_eq!(with(&gateway, &[], "small").status, anonymous, "{auth}");
        assert_eq!(bearer(&gateway, "key-of-all-0001", "small").status, 200, "{auth}");
    }
}

#[test]
fn off_loopback_nobody_serves_without_keys_by_accident() {
    let [a] = Upstream::start_all(["A"]);
    let pools = pool("small", &[&a], &[]);
    let (code, output) = refusal(&format!("server: {{listen: \"0.0.0.0:0\"}}\npools:\n{pools}"));
    assert_eq!(code, Some(2));
    assert!(
        output.contains("auth: none") && output.contains("can be reached from other machines"),
        "{output}"
    );
    let (code, output) = refusal(&format!("auth: keys\npools:\n{pools}"));
    assert_eq!(code, Some(2));
    assert!(output.contains("nobody could get in"), "{output}");
}

#[test]
fn without_keys_anybody_may_on_loopback() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    assert_eq!(with(&gateway, &[], "r").status, 200);
    assert_eq!(
        with(&gateway, &[("authorization", "Bearer anything")], "r").status,
        200
    );
    assert!(
        a.posts()
            .iter()
            .all(|post| post.header("authorization").is_none())
    );
}
