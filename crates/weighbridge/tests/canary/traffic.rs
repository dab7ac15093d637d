//! Requests of every sort to an engine that repeats its key in every way.

use crate::config::{CLIENT, FIRST, IN_URL, PROMPT, Planted, SECOND, SOLE, WRONG, clean};
use crate::forms::{base64, json, percent};
use crate::shared::SOON;
use weighbridge_test_engine::client::{Request, Response, chat, chat_stream, messages, messages_stream};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// Each route with the keys that its engine gets.
const ROUTES: [(&str, &[&str]); 3] = [
    ("rotated", &[FIRST, SECOND]),
    ("back", &[SOLE]),
    ("url", &[IN_URL.0, IN_URL.1]),
];

fn call(gateway: &Gateway, (path, body): (&str, &str), key: &str) -> Response {
    let session = format!("session={key}");
    let basic = format!("Basic {}", base64(format!("user:{key}").as_bytes()));
    Request::post(&gateway.url(path), body)
        .header("authorization", &format!("Bearer {key}"))
        .header("x-api-key", key)
        .header("api-key", key)
        .header("x-goog-api-key", key)
        .header("cookie", &session)
        .header("proxy-authorization", &basic)
        .header("x-session", "s1")
        .header("x-weighbridge-explain", "1")
        .header("origin", "https://app.example")
        .try_send()
        .unwrap()
}

fn requests(model: &str) -> [(&'static str, String); 6] {
    [
        (
            "/v1/responses",
            format!("{{\"model\":\"{model}\",\"input\":\"{PROMPT}\"}}"),
        ),
        (
            "/v1/moderations",
            format!("{{\"model\":\"{model}\",\"input\":\"{PROMPT}\"}}"),
        ),
        ("/v1/chat/completions", chat(model, PROMPT)),
        ("/v1/chat/completions", chat_stream(model, PROMPT)),
        ("/v1/messages", messages(model, PROMPT)),
        ("/v1/messages", messages_stream(model, PROMPT)),
    ]
}

fn answer_is_clean(what: &str, answer: &Response) {
    let target = answer.header("x-weighbridge-target").unwrap_or_default();
    let what = format!("the answer {} of {target} to {what}", answer.status);
    for (name, value) in &answer.headers {
        clean(&what, format!("{name}: {value}"));
    }
    clean(&what, &answer.body);
}

/// A value of the upstream's mode language.
fn value(text: &str) -> String {
    text.replace('%', "%25").replace(',', "%2C")
}

/// Answers in which KEY stands for the key.
fn modes() -> Vec<String> {
    let said = "err_msg=bad key KEY of it,h.x-goog-api-key=KEY,h.x-debug=key KEY";
    let mut modes = vec![String::new()];
    modes.extend(
        [
            "h.x-debug=is KEY;",
            "h.set-cookie=k=KEY",
            "h.www-authenticate=Bearer realm=KEY",
            "redirect=http://127.0.0.1:9/?key=KEY",
        ]
        .map(str::to_owned),
    );
    for body in ["openai", "anthropic", "detail", "html", "text", "badjson"] {
        for status in [400, 401, 429, 500, 503] {
            modes.push(format!("status={status},body={body},{said}"));
        }
    }
    modes.push(format!("ok_error,{said}"));
    for (events, rest) in [
        (0, ""),
        (3, ""),
        (3, ",coalesce"),
        (3, ",split=7"),
        (3, ",split=31"),
    ] {
        modes.push(format!("error_event={events},err_msg=bad key KEY{rest}"));
    }
    modes
}

/// The key as an engine may repeat it: in every form where it does so in an error of each kind.
fn spoken(key: &str, mode: &str) -> Vec<String> {
    if ["400", "429", "500", "503"]
        .iter()
        .any(|status| mode.contains(status))
    {
        return vec![key.to_owned()];
    }
    let mut ways = vec![key.to_owned(), percent(key, true), base64(key.as_bytes())];
    ways.push(json(key));
    ways.sort_unstable();
    ways.dedup();
    ways
}

#[test]
fn sec1_canary_no_secret_comes_out() {
    let [a] = Upstream::start_all(["A"]);
    let planted = Planted::start(&a);
    let gateway = &planted.gateway;
    for mode in modes() {
        for (model, keys) in ROUTES {
            for way in keys.iter().flat_map(|key| spoken(key, &mode)) {
                a.set_mode(&mode.replace("KEY", &value(&way)));
                for (path, body) in requests(model) {
                    let answer = call(gateway, (path, &body), CLIENT);
                    answer_is_clean(&format!("{mode} as {way} by {model}{path}"), &answer);
                }
                if !mode.contains("KEY") {
                    break;
                }
            }
        }
    }
    for mode in ["hang=headers", "hang=1", "drop", "drop=rst", "cut=2", "short=9"] {
        a.set_mode(mode);
        for (model, _) in ROUTES {
            for (path, body) in requests(model) {
                answer_is_clean(mode, &call(gateway, (path, &body), CLIENT));
            }
        }
    }
    let refusing = a.refuse_until();
    for (model, _) in ROUTES {
        let (path, body) = &requests(model)[0];
        answer_is_clean("a refused connection", &call(gateway, (path, body), CLIENT));
    }
    drop(refusing);
    a.set_mode("");
    for (path, body) in requests("url") {
        let answer = call(gateway, (path, &body), WRONG);
        assert_eq!(answer.status, 401);
        answer_is_clean("a wrong key", &answer);
    }
    let used: Vec<String> = a.log().iter().map(|record| format!("{record:?}")).collect();
    for key in [FIRST, SECOND, SOLE, IN_URL.0] {
        let sent = format!("{key:?}");
        let sent = sent.trim_matches('"');
        assert!(
            used.iter().any(|record| record.contains(sent)),
            "{key} is used at all"
        );
    }
    for record in &used {
        for key in [CLIENT, WRONG] {
            let canary = crate::forms::Canary::new("a client's key", key);
            assert_eq!(
                canary.found(record.as_bytes()),
                None,
                "the engine got it: {record}"
            );
        }
    }
    let wrong = |line: &serde_json::Value| line["status"] == 401;
    assert!(eventually(SOON, || gateway
        .log_lines()
        .iter()
        .filter(|line| wrong(line))
        .count()
        >= 4));
    crate::sinks::are_clean(planted);
}
