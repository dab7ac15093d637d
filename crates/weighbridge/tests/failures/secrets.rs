//! SEC-1: keys are neither forwarded, nor echoed, nor logged.

use crate::shared::{SOON, gateway, pool};
use serde_json::Value;
use weighbridge_test_engine::client::{Request, Response, chat, chat_stream, messages, messages_stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

const UP: &str = "UPSECRET123";
const IN_URL: &str = "UPSECRET123-IN-URL";
const CLIENT: &str = "CLIENTSECRET456";
const WRONG: &str = "WRONGSECRET789";
const ADMIN: &str = "ADMINSECRET000";

/// Routes `head` and `url`: the upstream's key in a header, and in the base URL.
fn start(a: &Upstream) -> Gateway {
    let timeouts = "timeouts: {first_byte: 500ms, idle: 500ms, total: 500ms}";
    let rest = ["breaker: false", "cooldown: {default: 0s, max: 0s}", timeouts];
    let head = pool("head", &[a], &[&rest[..], &[&format!("api_key: {UP}")]].concat());
    let url = pool("url", &[], &rest).replace(
        "endpoints: []",
        &format!("endpoints: [{{name: Q, url: \"{}/base?key={IN_URL}\"}}]", a.url()),
    );
    gateway(&format!(
        "log: {{level: trace}}\nadmin: {{listen: 127.0.0.1:0, token: {ADMIN}}}\nauth: keys\n\
         keys: [{{name: k, key: {CLIENT}}}]\npools:\n{head}{url}"
    ))
}

fn credentials(key: &str) -> [(String, String); 4] {
    [
        ("authorization".to_owned(), format!("Bearer {key}")),
        ("x-api-key".to_owned(), key.to_owned()),
        ("api-key".to_owned(), key.to_owned()),
        ("cookie".to_owned(), format!("session={key}")),
    ]
}

fn call(gateway: &Gateway, (path, body): (&str, &str), key: &str) -> Response {
    let mut request = Request::post(&gateway.url(path), body);
    for (name, value) in credentials(key) {
        request = request.header(&name, &value);
    }
    request.try_send().unwrap()
}

fn requests(model: &str) -> [(&'static str, String); 4] {
    [
        ("/v1/chat/completions", chat(model, "x")),
        ("/v1/chat/completions", chat_stream(model, "x")),
        ("/v1/messages", messages(model, "x")),
        ("/v1/messages", messages_stream(model, "x")),
    ]
}

fn holds_none(what: &str, text: &str) {
    for secret in [UP, CLIENT, WRONG, ADMIN] {
        assert!(!text.contains(secret), "{what} holds {secret}: {text}");
    }
}

fn answer_holds_none(what: &str, answer: &Response) {
    holds_none(what, &format!("{:?}", answer.headers));
    holds_none(what, &answer.text());
}

/// Sends requests of every sort to an upstream in each of these modes, in which KEY stands for the key it was sent.
fn leaks(a: &Upstream, gateway: &Gateway, modes: &[&str]) {
    for mode in modes {
        for (model, key) in [("head", UP), ("url", IN_URL)] {
            a.set_mode(&mode.replace("KEY", key));
            for (path, body) in requests(model) {
                let answer = call(gateway, (path, &body), CLIENT);
                answer_holds_none(&format!("{mode}, {model}, {path}, {}", answer.status), &answer);
            }
        }
    }
}

/// Everything that the admin API shows without being told of what.
fn shown(gateway: &Gateway) -> Vec<(String, String)> {
    let document = gateway.api("/api/openapi.json");
    let paths = document["paths"].as_object().unwrap();
    let plain = paths
        .iter()
        .filter(|(path, calls)| !path.contains('{') && !calls["get"].is_null());
    let answers: Vec<_> = plain
        .map(|(path, _)| (path.clone(), gateway.api_send("GET", path, &Value::Null).text()))
        .collect();
    let config = answers
        .iter()
        .find(|(path, _)| path == "/api/config")
        .expect("the config is shown");
    assert!(
        config.1.contains("/base") && config.1.contains("head"),
        "{}",
        config.1
    );
    answers
}

/// What the gateway has written and shows, and what the upstream has got.
fn sinks_hold_none(a: &Upstream, gateway: &Gateway) {
    holds_none("stdout", &gateway.stdout());
    holds_none("stderr", &gateway.stderr());
    holds_none("/metrics", &gateway.metrics().text);
    for (path, text) in shown(gateway) {
        holds_none(&path, &text);
    }
    for record in a.log() {
        let text = format!("{record:?}");
        for secret in [CLIENT, WRONG, ADMIN] {
            assert!(!text.contains(secret), "the upstream got {secret}: {text}");
        }
        assert_eq!(record.header("cookie"), None);
    }
}

#[test]
fn sec1_the_upstreams_own_key_reaches_it_and_nobody_else() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a);
    leaks(
        &a,
        &gateway,
        &[
            "",
            "h.x-debug=is KEY;",
            "h.set-cookie=k=KEY",
            "h.www-authenticate=x",
        ],
    );
    let posts = a.posts();
    let expected = format!("Bearer {UP}");
    assert!(
        posts
            .iter()
            .any(|post| post.header("authorization") == Some(&*expected))
    );
    let expected = format!("/base/v1/messages?key={IN_URL}");
    assert!(
        posts.iter().any(|post| post.target == expected),
        "{:?}",
        posts.last().unwrap().target
    );
    sinks_hold_none(&a, &gateway);
}

#[test]
fn sec1_an_upstream_that_repeats_its_key_in_an_error_tells_it_to_nobody() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a);
    let said = "err_msg=bad key KEY,h.x-goog-api-key=KEY";
    let mut modes = Vec::new();
    for body in [
        "openai",
        "anthropic",
        "detail",
        "html",
        "text",
        "badjson",
        "empty",
    ] {
        for status in [400, 401, 429, 500, 503, 529] {
            modes.push(format!("status={status},body={body},{said}"));
        }
    }
    modes.push(format!("ok_error,{said}"));
    modes.push("redirect=http://127.0.0.1:9/?key=KEY".to_owned());
    let modes: Vec<_> = modes.iter().map(String::as_str).collect();
    leaks(&a, &gateway, &modes);
    sinks_hold_none(&a, &gateway);
}

#[test]
fn sec1_an_error_inside_a_stream_tells_it_to_nobody() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a);
    let said = "err_msg=bad key KEY";
    let modes = [
        format!("error_event=0,{said}"),
        format!("error_event=3,{said}"),
        format!("error_event=3,coalesce,{said}"),
    ];
    let modes: Vec<_> = modes.iter().map(String::as_str).collect();
    leaks(&a, &gateway, &modes);
    sinks_hold_none(&a, &gateway);
}

#[test]
fn sec1_failures_of_the_connection_name_no_key() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a);
    leaks(
        &a,
        &gateway,
        &[
            "hang=headers",
            "hang=1",
            "drop",
            "drop=rst",
            "cut=2",
            "cut=2,cut_kind=rst",
            "short=9",
        ],
    );
    let refusing = a.refuse_until();
    leaks(&a, &gateway, &["refused"]);
    drop(refusing);
    sinks_hold_none(&a, &gateway);
}

#[test]
fn sec1_a_wrong_key_is_not_repeated() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a);
    for (path, body) in requests("head") {
        let answer = call(&gateway, (path, &body), WRONG);
        assert_eq!(answer.status, 401);
        answer_holds_none("a wrong key", &answer);
    }
    let wrong =
        Request::get(&gateway.admin_url("/api/status")).header("authorization", &format!("Bearer {WRONG}"));
    answer_holds_none("a wrong admin token", &wrong.send());
    assert!(eventually(SOON, || gateway.log_lines().len() == 4));
    assert_eq!(a.posts().len(), 0);
    sinks_hold_none(&a, &gateway);
}

#[test]
fn sec1_a_config_that_is_refused_shows_no_key() {
    let (code, output) = crate::shared::refusal(&format!(
        "auth: keys\nkeys: [{{name: k, key: {CLIENT}, oops: 1}}, {{name: l, key: {CLIENT}}}]\n\
         admin: {{token: {ADMIN}, port: 1}}\n\
         pools: [{{name: p, api_key: {UP}, endpoints: [\"ftp://h/?key={IN_URL}\"], api_keys: [{UP}]}}]\n"
    ));
    assert_eq!(code, Some(2));
    holds_none("the refusal", &output);
}

#[test]
fn sec1_what_every_url_may_hold_is_no_secret() {
    let [a] = Upstream::start_all(["A"]);
    let pool = pool("p", &[], &[]).replace(
        "endpoints: []",
        &format!(
            "endpoints: [{{name: Q, url: \"{}/?api-version=2024-10-21&n=1\"}}]",
            a.url()
        ),
    );
    let gateway = gateway(&format!("pools:\n{pool}"));
    a.set_mode("status=400,err_msg=use 2024-10-21 and 1,h.x-version=2024-10-21,h.x-count=1");
    let answer = Request::post(&gateway.url("/v1/chat/completions"), chat("p", "x")).send();
    assert_eq!(answer.json()["error"]["message"], "use 2024-10-21 and 1");
    assert_eq!(
        (answer.header("x-version"), answer.header("x-count")),
        (Some("2024-10-21"), Some("1"))
    );
}

/// An error inside a stream that quotes our key, cut anywhere.
#[test]
fn sec1_a_key_in_pieces_of_an_error_inside_a_stream_is_blanked() {
    let [a] = Upstream::start_all(["A"]);
    for usage in ["passive", "inject"] {
        let key = "api_key: UPSECRET123";
        let gateway = gateway(&format!(
            "pools:\n{}routes:\n  - {{name: r, targets: [A], usage: {usage}}}\n",
            crate::shared::pool("A", &[&a], &[key, "breaker: false"])
        ));
        for path in [
            "/v1/chat/completions",
            "/v1/completions",
            "/v1/responses",
            "/v1/messages",
        ] {
            for split in [1, 5, 11, 40] {
                let mode = format!(
                    "error_event=3,error_code=500,split={split},split_delay=0.002,err_msg=bad key UPSECRET123 of yours"
                );
                let body = format!(
                    "{{\"model\": \"r\", \"stream\": true, \"max_tokens\": 9, \"prompt\": \"x\", \"input\": \"x\", \"messages\": [{{\"role\": \"user\", \"content\": \"[[mock:{mode}]]\"}}]}}"
                );
                let answer = Request::post(&gateway.url(path), body).send();
                let text = answer.text();
                assert!(
                    text.contains("bad key *********** of yours"),
                    "{path} {split}: {text}"
                );
                assert!(!text.contains("UPSECRET"), "{path} {split}: {text}");
            }
        }
    }
}
