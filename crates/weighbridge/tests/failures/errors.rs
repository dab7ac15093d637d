//! ERR-1: every error is in the client's protocol, whoever made it.

use crate::shared::{SOON, ask, gateway, in_order, pool, send};
use serde_json::Value;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, Response, chat, chat_stream, messages, messages_stream};
use weighbridge_test_engine::harness::Gateway;

const BOUND: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Protocol {
    OpenAi,
    Anthropic,
}

const BOTH: [(Protocol, &str); 2] = [
    (Protocol::OpenAi, "/v1/chat/completions"),
    (Protocol::Anthropic, "/v1/messages"),
];

/// The `error` of an answer, after the checks that hold for every error.
fn error(protocol: Protocol, answer: &Response) -> Value {
    let content_type = answer.header("content-type").unwrap_or_default();
    assert_eq!(content_type, "application/json", "{}", answer.text());
    assert!(answer.header("x-request-id").is_some());
    let body = answer.json();
    let error = body["error"].clone();
    let message = error["message"]
        .as_str()
        .unwrap_or_else(|| panic!("no message: {body}"));
    assert!(
        !message.trim().is_empty() && message.len() <= BOUND,
        "{message:?}"
    );
    assert!(!message.contains('<'), "a page is passed through: {message}");
    let kind = error["type"]
        .as_str()
        .unwrap_or_else(|| panic!("no type: {body}"));
    assert!(!kind.is_empty());
    match protocol {
        Protocol::OpenAi => assert!(body.get("type").is_none(), "{body}"),
        Protocol::Anthropic => assert_eq!(body["type"], "error", "{body}"),
    }
    error
}

fn body(protocol: Protocol, model: &str, streamed: bool) -> String {
    match (protocol, streamed) {
        (Protocol::OpenAi, false) => chat(model, "x"),
        (Protocol::OpenAi, true) => chat_stream(model, "x"),
        (Protocol::Anthropic, false) => messages(model, "x"),
        (Protocol::Anthropic, true) => messages_stream(model, "x"),
    }
}

const FORMS: [&str; 7] = [
    "openai",
    "anthropic",
    "detail",
    "html",
    "text",
    "empty",
    "badjson",
];

/// Upstream status, and what clients of OpenAI's and Anthropic's paths get.
const STATUSES: [(u16, u16, u16); 11] = [
    (400, 400, 400),
    (401, 401, 401),
    (403, 403, 403),
    (404, 404, 404),
    (413, 413, 413),
    (422, 422, 422),
    (429, 429, 429),
    (500, 502, 502),
    (502, 502, 502),
    (503, 503, 503),
    (504, 504, 504),
];

fn lenient(a: &Upstream) -> Gateway {
    let pools = ["breaker: false", "cooldown: {default: 0s, max: 0s}"];
    gateway(&in_order(&[a], &["retry: false"], &pools))
}

#[test]
fn err1_upstream_errors_of_every_form_reach_both_protocols() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = lenient(&a);
    for (status, openai, anthropic) in STATUSES.into_iter().chain([(529, 503, 529)]) {
        for form in FORMS {
            a.set_mode(&format!(
                "status={status},body={form},err_msg=the words of the upstream"
            ));
            for (protocol, path) in BOTH {
                for streamed in [false, true] {
                    let case = format!("{status} {form} {protocol:?} {streamed}");
                    let request = Request::post(&gateway.url(path), body(protocol, "r", streamed));
                    let answer = request.send();
                    let expect = if protocol == Protocol::OpenAi {
                        openai
                    } else {
                        anthropic
                    };
                    assert_eq!(answer.status, expect, "{case}");
                    let error = error(protocol, &answer);
                    let kept = !matches!(form, "html" | "empty" | "badjson");
                    assert_eq!(
                        error["message"] == "the words of the upstream",
                        kept,
                        "{case}: {error}"
                    );
                }
            }
        }
    }
}

#[test]
fn err1_a_long_message_is_cut() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = lenient(&a);
    let long = "long words ".repeat(5_000);
    for form in ["openai", "anthropic", "detail", "text"] {
        a.set_mode(&format!("status=500,body={form},err_msg={long}"));
        for (protocol, path) in BOTH {
            let answer = Request::post(&gateway.url(path), body(protocol, "r", false)).send();
            let error = error(protocol, &answer);
            assert!(
                error["message"].as_str().unwrap().starts_with("long words"),
                "{form}"
            );
        }
    }
}

#[test]
fn err1_the_upstreams_own_type_and_code_are_kept() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = lenient(&a);
    a.set_mode("status=400,err_type=context_error,err_msg=too long");
    let error = error(Protocol::OpenAi, &send(&gateway, "r"));
    assert_eq!(
        (&error["type"], &error["code"], &error["message"]),
        (&"context_error".into(), &"400".into(), &"too long".into())
    );
}

#[test]
fn err1_retry_after_is_kept_where_it_means_something() {
    for (status, client, kept) in [
        (429, 429, true),
        (503, 503, true),
        (529, 503, true),
        (500, 502, false),
        (400, 400, false),
    ] {
        let [a] = Upstream::start_all(["A"]);
        let gateway = gateway(&in_order(&[&a], &["retry: false"], &["breaker: false"]));
        a.set_mode(&format!("status={status},retry_after=7"));
        let answer = send(&gateway, "r");
        assert_eq!(answer.status, client);
        assert_eq!(answer.header("retry-after"), kept.then_some("7"), "{status}");
    }
}

#[test]
fn err1_a_good_status_around_an_error_is_no_success() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = lenient(&a);
    a.set_mode("ok_error,err_msg=the words of the upstream");
    for (protocol, path) in BOTH {
        let answer = Request::post(&gateway.url(path), body(protocol, "r", false)).send();
        assert_eq!(answer.status, 502, "{protocol:?}");
        assert_eq!(error(protocol, &answer)["message"], "the words of the upstream");
    }
    let line = gateway.wait_log(SOON, |line| line["status"] == 502);
    assert_eq!(line["outcome"], "upstream_error");
    assert_eq!(
        gateway
            .metrics()
            .sum("weighbridge_requests_total", &[("outcome", "ok")]),
        0.0
    );
}

struct Own {
    what: &'static str,
    path: &'static str,
    body: String,
    headers: &'static [(&'static str, &'static str)],
    status: u16,
    code: &'static str,
}

fn own(what: &'static str, body: impl Into<String>, (status, code): (u16, &'static str)) -> Own {
    Own {
        what,
        path: "",
        body: body.into(),
        headers: &[],
        status,
        code,
    }
}

fn mistakes() -> Vec<Own> {
    let gzip = Own {
        headers: &[("content-encoding", "gzip")],
        ..own(
            "a compressed body",
            "\u{1f}\u{8b}",
            (415, "unsupported_media_type"),
        )
    };
    vec![
        own("no JSON", "hello", (400, "invalid_json")),
        own("half a JSON", "{\"model\": \"r\"", (400, "invalid_json")),
        own("a list", "[1]", (400, "invalid_json")),
        own("nothing", "", (400, "invalid_json")),
        own(
            "no model",
            "{\"messages\": []}",
            (400, "missing_required_parameter"),
        ),
        own("a model that is no name", "{\"model\": 5}", (400, "invalid_type")),
        own(
            "two models",
            "{\"model\": \"r\", \"model\": \"s\"}",
            (400, "duplicate_parameter"),
        ),
        own(
            "stream that is no flag",
            "{\"model\": \"r\", \"stream\": \"yes\"}",
            (400, "invalid_type"),
        ),
        own("an unknown model", chat("nix", "x"), (404, "model_not_found")),
        own(
            "too much",
            format!("{{\"model\": \"r\", \"x\": \"{}\"}}", "y".repeat(70_000)),
            (413, "request_too_large"),
        ),
        gzip,
    ]
}

#[test]
fn err1_our_own_errors_are_in_the_clients_protocol() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&format!(
        "server: {{max_body: 64KiB}}\n{}",
        in_order(&[&a], &[], &[])
    ));
    for own in mistakes() {
        for (protocol, path) in BOTH {
            let answer = Request::post(&gateway.url(&format!("{path}{}", own.path)), &own.body)
                .headers(own.headers)
                .send();
            assert_eq!(answer.status, own.status, "{}: {}", own.what, answer.text());
            let error = error(protocol, &answer);
            if protocol == Protocol::OpenAi {
                assert_eq!(error["code"], own.code, "{}", own.what);
            }
        }
    }
    assert_eq!(a.posts().len(), 0);
    let outcomes = gateway
        .metrics()
        .sum("weighbridge_requests_total", &[("outcome", "client_error")]);
    assert_eq!(outcomes, 2.0 * mistakes().len() as f64);
}

#[test]
fn err1_wrong_paths_and_methods_are_told_apart() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    for (method, path, status, protocol) in [
        ("POST", "/v1/nothing", 404, Protocol::OpenAi),
        ("GET", "/", 404, Protocol::OpenAi),
        ("POST", "/v1/messages/nothing", 404, Protocol::Anthropic),
        ("GET", "/v1/chat/completions", 405, Protocol::OpenAi),
        ("DELETE", "/v1/models", 405, Protocol::OpenAi),
        ("GET", "/v1/messages", 405, Protocol::Anthropic),
    ] {
        let answer = Request::new(method, &gateway.url(path)).send();
        assert_eq!(answer.status, status, "{method} {path}");
        error(protocol, &answer);
        assert_eq!(answer.header("allow").is_some(), status == 405, "{method} {path}");
    }
}

#[test]
fn err1_what_no_engine_serves_is_a_400_that_names_the_path() {
    let [a] = Upstream::start_all(["A"]);
    let pools = pool("claude", &[&a], &["kind: anthropic"]) + &pool("gpt", &[&a], &["kind: openai"]);
    let gateway = gateway(&format!("pools:\n{pools}"));
    let answers = [
        (
            Protocol::OpenAi,
            "/v1/chat/completions",
            ask(&gateway, "claude").send(),
        ),
        (
            Protocol::Anthropic,
            "/v1/messages",
            Request::post(&gateway.url("/v1/messages"), messages("gpt", "x")).send(),
        ),
    ];
    for (protocol, path, answer) in answers {
        assert_eq!(answer.status, 400);
        let error = error(protocol, &answer);
        assert!(error["message"].as_str().unwrap().contains(path), "{error}");
    }
    assert_eq!(a.posts().len(), 0);
}

#[test]
fn err1_failures_of_engines_are_told_in_both_protocols() {
    for (protocol, path) in BOTH {
        for streamed in [false, true] {
            let [a] = Upstream::start_all(["A"]);
            let timeouts = "timeouts: {first_byte: 300ms, total: 300ms}";
            let gateway = gateway(&in_order(&[&a], &[], &["breaker: false", timeouts]));
            let call = || Request::post(&gateway.url(path), body(protocol, "r", streamed)).send();
            let check = |mode: &str, status: u16| {
                a.set_mode(mode);
                let answer = call();
                assert_eq!(
                    answer.status,
                    status,
                    "{mode} {protocol:?} {streamed}: {}",
                    answer.text()
                );
                error(protocol, &answer);
                answer
            };
            check("hang=headers", 504);
            check("drop", 502);
            check("redirect=http://127.0.0.1:9/", 502);
            let busy = check("status=429,retry_after=30", 429);
            assert_eq!(busy.header("retry-after"), Some("30"));
            let cooling = check("", 429);
            assert!(cooling.header("retry-after").is_some());
        }
        let [a] = Upstream::start_all(["A"]);
        let gateway = gateway(&in_order(&[&a], &[], &[]));
        let _refusing = a.refuse_until();
        let answer = Request::post(&gateway.url(path), body(protocol, "r", false)).send();
        assert_eq!(answer.status, 503);
        assert!(answer.header("retry-after").is_some());
        let kind = error(protocol, &answer)["type"].clone();
        assert!(
            kind == "overloaded_error" || kind == "api_error" || kind == "server_error",
            "{kind}"
        );
    }
}

#[test]
fn err1_heads_that_are_too_large_or_no_http_are_errors_too() {
    let [a] = Upstream::start_all(["A"]);
    let gateway = gateway(&in_order(&[&a], &[], &[]));
    let many = (0..200).fold(ask(&gateway, "r"), |request, n| {
        request.header(&format!("x-many-{n}"), "v")
    });
    let large = ask(&gateway, "r").header("x-large", &"v".repeat(100_000));
    for request in [many, large] {
        let answer = request.try_send().unwrap();
        assert_eq!(answer.status, 431);
        assert_eq!(error(Protocol::OpenAi, &answer)["code"], "headers_too_large");
    }
}
