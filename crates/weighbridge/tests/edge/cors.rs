//! A5: a browser's question is answered without a key, and every answer says who may read it.

use crate::shared::{SOON, ask, gateway, pool};
use std::collections::BTreeSet;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, Response, chat_stream, messages_stream};
use weighbridge_test_engine::harness::Gateway;

const APP: &str = "https://app.example";
const KEY: (&str, &str) = ("authorization", "Bearer secret-key");
/// What official clients send from a browser.
const SDK: &str = "authorization,content-type,x-api-key,anthropic-version,anthropic-beta,\
    anthropic-dangerous-direct-browser-access,openai-organization,x-stainless-arch,x-stainless-lang,\
    x-stainless-os,x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,\
    x-stainless-runtime-version,x-stainless-timeout";

fn start(a: &Upstream, cors: &str) -> Gateway {
    let timeouts = "timeouts: {first_byte: 500ms, idle: 500ms, total: 500ms}";
    let rest = ["breaker: false", "cooldown: {default: 0s, max: 0s}", timeouts];
    gateway(&format!(
        "auth: keys\nkeys: [{{name: k, key: secret-key}}]\n{cors}\npools:\n{}",
        pool("m", &[a], &rest)
    ))
}

fn configured(a: &Upstream) -> Gateway {
    start(
        a,
        &format!("cors: {{origins: [{APP}, \"http://localhost:5173\"]}}"),
    )
}

fn preflight(gateway: &Gateway, path: &str, origin: &str) -> Request {
    Request::new("OPTIONS", &gateway.url(path))
        .header("origin", origin)
        .header("access-control-request-method", "POST")
}

fn allowed(answer: &Response) -> Vec<&str> {
    answer.header_all("access-control-allow-origin")
}

fn list(answer: &Response, name: &str) -> BTreeSet<String> {
    let values = answer.header_all(name);
    values
        .iter()
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect()
}

#[test]
fn a5_a_preflight_needs_no_key() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = configured(&a);
    for path in [
        "/v1/chat/completions",
        "/v1/messages",
        "/v1/models",
        "/health",
        "/nothing",
    ] {
        for origin in [APP, "http://localhost:5173"] {
            let answer = preflight(&gateway, path, origin)
                .header("access-control-request-headers", SDK)
                .send();
            assert_eq!((answer.status, &*answer.body), (204, &b""[..]), "{path}");
            assert_eq!(allowed(&answer), [origin]);
            let methods = list(&answer, "access-control-allow-methods");
            assert!(
                ["get", "post", "delete"]
                    .iter()
                    .all(|method| methods.contains(*method))
            );
            let asked: BTreeSet<String> = SDK.split(',').map(|name| name.trim().to_owned()).collect();
            assert_eq!(list(&answer, "access-control-allow-headers"), asked);
            let age: u32 = answer.header("access-control-max-age").unwrap().parse().unwrap();
            assert!(age >= 600);
            assert!(list(&answer, "vary").contains("origin"));
            assert_eq!(answer.header("access-control-allow-credentials"), None);
            assert_eq!(answer.header_all("x-request-id").len(), 1);
        }
    }
    let unnamed = preflight(&gateway, "/v1/messages", APP).send();
    let names = list(&unnamed, "access-control-allow-headers");
    for name in [
        "authorization",
        "x-api-key",
        "content-type",
        "anthropic-version",
        "openai-organization",
    ] {
        assert!(names.contains(name), "{name} of {names:?}");
    }
    assert_eq!(a.log().len(), 0, "no engine hears of it");
}

#[test]
fn a5_other_origins_are_not_let_in() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = configured(&a);
    for origin in [
        "null",
        "https://app.example.evil.example",
        "https://app.example:8443",
        "http://app.example",
        "https://APP.example/",
        "*",
    ] {
        let answer = preflight(&gateway, "/v1/chat/completions", origin).send();
        assert_eq!((answer.status, allowed(&answer).len()), (403, 0), "{origin}");
        assert!(answer.text().contains("cors.origins"), "{}", answer.text());
        assert!(list(&answer, "vary").contains("origin"));
        a.set_mode(&format!("h.access-control-allow-origin={origin}"));
        let answer = ask(&gateway, "m")
            .header(KEY.0, KEY.1)
            .header("origin", origin)
            .send();
        assert_eq!((answer.status, allowed(&answer).len()), (200, 0), "{origin}");
        assert!(list(&answer, "vary").contains("origin"));
    }
}

#[test]
fn a5_every_answer_may_be_read_and_all_of_its_headers() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = configured(&a);
    let upstreams = "h.access-control-allow-origin=*,h.access-control-allow-credentials=true,\
        h.access-control-expose-headers=x-theirs,h.x-ratelimit-limit-requests=7,h.x-theirs=1";
    let stream = || Request::post(&gateway.url("/v1/chat/completions"), chat_stream("m", "x"));
    let messages = || Request::post(&gateway.url("/v1/messages"), messages_stream("m", "x"));
    let cases: [(&str, Request, u16); 11] = [
        ("", ask(&gateway, "m"), 200),
        ("", stream(), 200),
        ("", messages(), 200),
        ("cut=2", stream(), 200),
        ("status=400", ask(&gateway, "m"), 400),
        ("status=429", ask(&gateway, "m"), 429),
        ("status=500", ask(&gateway, "m"), 502),
        ("drop", ask(&gateway, "m"), 502),
        ("hang=headers", stream(), 504),
        ("", ask(&gateway, "unknown"), 404),
        ("", Request::get(&gateway.url("/v1/models")), 200),
    ];
    for (mode, request, status) in cases {
        a.set_mode(&format!("{mode},{upstreams}"));
        let answer = request
            .header(KEY.0, KEY.1)
            .header("origin", APP)
            .try_send()
            .unwrap();
        assert_eq!((answer.status, allowed(&answer)), (status, vec![APP]), "{mode}");
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        let exposed = list(&answer, "access-control-expose-headers");
        let ours = |name: &str| name.starts_with("access-control-");
        let framing = [
            "vary",
            "connection",
            "transfer-encoding",
            "content-length",
            "date",
            "keep-alive",
        ];
        for (name, _) in &answer.headers {
            let name = name.to_ascii_lowercase();
            assert!(
                ours(&name) || framing.contains(&&*name) || exposed.contains(&name),
                "{mode}: {name} is not among {exposed:?}"
            );
        }
        assert!(exposed.contains("x-request-id"));
        assert!(list(&answer, "vary").contains("origin"));
    }
    a.set_mode("");
    let post = a.posts().pop().unwrap();
    assert_eq!(
        post.header("origin"),
        None,
        "engines with lists of their own would refuse it"
    );
    let health = Request::get(&gateway.url("/health")).header("origin", APP).send();
    assert_eq!(allowed(&health), [APP]);
    let options = Request::new("OPTIONS", &gateway.url("/v1/models"))
        .header("origin", APP)
        .send();
    assert_eq!(
        (options.status, allowed(&options)),
        (405, vec![APP]),
        "no preflight"
    );
}

#[test]
fn a5_a_call_needs_its_key_all_the_same() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = configured(&a);
    for key in [None, Some("Bearer wrong-secret")] {
        let mut request = ask(&gateway, "m").header("origin", APP);
        if let Some(key) = key {
            request = request.header("authorization", key);
        }
        let answer = request.send();
        assert_eq!((answer.status, allowed(&answer)), (401, vec![APP]));
    }
    assert_eq!(a.posts().len(), 0);
}

#[test]
fn a5_all_origins_only_where_the_config_says_so() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a, "cors: {origins: [\"*\"]}");
    let answer = preflight(&gateway, "/v1/messages", "https://any.example").send();
    assert_eq!((answer.status, allowed(&answer)), (204, vec!["*"]));
    let answer = preflight(&gateway, "/v1/messages", "null").send();
    assert_eq!((answer.status, allowed(&answer).len()), (403, 0));
}

#[test]
fn a5_without_cors_nothing_is_said_of_it_and_a_reload_brings_it() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = start(&a, "");
    let answer = preflight(&gateway, "/v1/chat/completions", APP).send();
    assert_eq!((answer.status, allowed(&answer).len()), (405, 0));
    a.set_mode("h.access-control-allow-origin=*");
    let answer = ask(&gateway, "m")
        .header(KEY.0, KEY.1)
        .header("origin", APP)
        .send();
    assert_eq!(
        (answer.status, allowed(&answer).len()),
        (200, 0),
        "engines do not decide it"
    );
    assert_eq!(answer.header("vary"), None);
    assert_eq!(a.posts().pop().unwrap().header("origin"), Some(APP));
    let rest = ["breaker: false"];
    gateway.write_config(&format!(
        "auth: keys\nkeys: [{{name: k, key: secret-key}}]\ncors: {{origins: [{APP}]}}\npools:\n{}",
        pool("m", &[&a], &rest)
    ));
    assert!(weighbridge_test_engine::eventually(SOON, || {
        preflight(&gateway, "/v1/chat/completions", APP).send().status == 204
    }));
}
