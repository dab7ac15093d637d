//! The decision for a request that is only thought of, by API and by command.

use super::{bad, binary, good, pool, run, run_alone};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{self, Request, Response};
use weighbridge_test_engine::harness::Gateway;

const ROUTE: &str = "
routes:
  - {name: r, targets: [m], policies: {session_affinity: {weight: 2}, least_inflight: {}}}
";

fn start(upstreams: &[Upstream]) -> Gateway {
    Gateway::start(binary(), &(pool("m", upstreams) + ROUTE))
}

fn ask(gateway: &Gateway, body: &str) -> Response {
    let token = format!("Bearer {}", gateway.admin_token());
    let request = Request::post(&gateway.admin_url("/api/explain"), body);
    request.header("authorization", &token).send()
}

#[test]
fn what_is_explained_is_what_happens() {
    let ups = Upstream::start_all(["a", "b", "c"]);
    let gateway = start(&ups);
    let mut winners = std::collections::BTreeSet::new();
    for session in 0..12 {
        let session = format!("s{session}");
        let body = client::chat("r", "x");
        let wrapped = format!("{{\"headers\": {{\"session-id\": \"{session}\"}}, \"body\": {body}}}");
        let told = ask(&gateway, &wrapped);
        assert_eq!(told.status, 200, "{}", told.text());
        let told = told.json();
        let headers = [("session-id", session.as_str())];
        let served = client::post(&gateway.url("/v1/chat/completions"), &headers, &body);
        assert_eq!(told["endpoint"].as_str(), served.served_by(), "{told:#}");
        winners.insert(told["endpoint"].as_str().unwrap().to_owned());
        let candidates = told["explanation"].as_array().unwrap();
        assert_eq!(candidates.len(), 3);
        let sum: f64 = candidates
            .iter()
            .map(|candidate| candidate["total"].as_f64().unwrap())
            .sum();
        assert!(
            (sum - 3.0).abs() < 1e-9,
            "the totals hand out the weights 2 and 1: {sum}"
        );
    }
    assert!(winners.len() > 1, "twelve sessions are spread: {winners:?}");
    // A request runs until its last byte has left, which its client may see first.
    super::wait_api(&gateway, "/api/status", |status| status["running_requests"] == 0);
}

#[test]
fn asking_sends_nothing_and_moves_no_turn() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = super::in_turn(&ups);
    for _ in 0..2 {
        let first = super::served_by(&gateway, "m");
        let told: Vec<Value> = (0..5)
            .map(|_| ask(&gateway, &client::chat("m", "x")).json()["endpoint"].take())
            .collect();
        assert!(told.iter().all(|endpoint| *endpoint != json!(first)), "{told:?}");
        assert_eq!(json!(super::served_by(&gateway, "m")), told[0]);
    }
    let posts = ups.iter().map(|up| up.posts().len()).sum::<usize>();
    assert_eq!(posts, 4, "only the real requests were sent");
}

#[test]
fn bodies_are_taken_as_they_are() {
    let ups = Upstream::start_all(["a"]);
    let gateway = start(&ups);
    for body in [
        r#"{"model": "r", "seed": 123456789012345678901234567890, "x": 1e999, "messages": []}"#,
        r#"{"body": {"model": "r", "seed": 123456789012345678901234567890, "x": 1e999}, "path": "/v1/messages"}"#,
        r#"{"body": {"model": "other"}, "headers": {"x-model": ["r"]}, "client_ip": "10.0.0.1"}"#,
    ] {
        let told = ask(&gateway, body);
        assert_eq!(told.status, 200, "{body}: {}", told.text());
        assert_eq!(told.json()["route"], "r");
    }
    for (body, status, says) in [
        (r#"{"model": "none"}"#, 404, "none"),
        (r#"{"messages": []}"#, 400, "model"),
        ("hello", 400, "JSON"),
        (r#"{"body": {"model": "r"}, "haeders": {}}"#, 400, "haeders"),
        (
            r#"{"body": {"model": "r"}, "headers": {"a b": "c"}}"#,
            400,
            "`a b` is not a header's name",
        ),
        (r#"{"body": {"model": "r"}, "path": "/v2/chat"}"#, 404, "/v2/chat"),
        (
            r#"{"body": {"model": "r"}, "path": "/v1/models"}"#,
            400,
            "answers questions about models by itself",
        ),
        (
            r#"{"body": {"model": "r"}, "path": "/v1/responses/resp_1"}"#,
            400,
            "goes to the engine that holds it",
        ),
        (
            r#"{"body": {"model": "r"}, "client_ip": "zz"}"#,
            400,
            "client_ip: \"zz\" is no IP address",
        ),
        (r#"{"body": {"model": "r"}, "client_ip": 7}"#, 400, "client_ip: 7"),
        (
            r#"{"body": {"model": "r"}, "headers": {"x-model": ["r", "s"]}}"#,
            400,
            "more than once",
        ),
    ] {
        let told = ask(&gateway, body);
        assert_eq!(told.status, status, "{body}: {}", told.text());
        let message = told.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(says), "{body}: {message}");
    }
}

#[test]
fn body_session_keys_count_by_the_path() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = start(&ups);
    let abstained = |path: &str| {
        let body = json!({"path": path, "body": {"model": "r", "prompt_cache_key": "k"}});
        ask(&gateway, &body.to_string()).json()["abstained"].take()
    };
    assert_eq!(abstained("/v1/responses"), json!({}));
    assert_eq!(
        abstained("/v1/chat/completions"),
        json!({"session_affinity": "no_key"})
    );
}

fn file(gateway: &Gateway, body: &str) -> PathBuf {
    let path = gateway.dir().join("request.json");
    std::fs::write(&path, body).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn the_command_asks_the_running_gateway() {
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = start(&ups);
    let request = file(&gateway, r#"{"model": "r", "seed": 1e999}"#);
    let drained = gateway.api_send("PATCH", "/api/endpoints/m/a", &json!({"drain": true}));
    assert_eq!(drained.status, 200);
    let args = [
        "explain",
        "--request",
        text(&request),
        "--header",
        "session-id: 7",
    ];
    let shown = good(&run(&gateway, &args));
    let expect = "route r by policy: 1 of 2 candidates live\nwinner m/b: the largest total, 3\n";
    assert!(
        shown.starts_with(expect) && shown.contains("state: draining"),
        "{shown}"
    );
    assert!(shown.contains("*  m/b"), "{shown}");
    let told: Value =
        serde_json::from_str(&good(&run(&gateway, &[&args[..], &["--json"]].concat()))).unwrap();
    assert_eq!((&told["endpoint"], &told["live"]), (&json!("b"), &json!(1)));
    let unknown = file(&gateway, r#"{"model": "none"}"#);
    bad(
        &run(&gateway, &["explain", "--request", text(&unknown)]),
        2,
        &["none"],
    );
}

#[test]
fn the_command_decides_offline_by_a_config() {
    let ups = Upstream::start_all(["a", "b", "c"]);
    let gateway = start(&ups);
    let request = file(&gateway, r#"{"model": "r"}"#);
    let config = gateway.config_path();
    for session in ["1", "2", "3", "4"] {
        let header = format!("session-id: {session}");
        let offline = [
            "explain",
            "--request",
            text(&request),
            "--header",
            &header,
            "--json",
            "--config",
            text(&config),
        ];
        let told: Value = serde_json::from_str(&good(&run_alone(&offline, &[]))).unwrap();
        let served = client::post(
            &gateway.url("/v1/chat/completions"),
            &[("session-id", session)],
            client::chat("r", "x"),
        );
        assert_eq!(
            told["endpoint"].as_str(),
            served.served_by(),
            "the same on every machine"
        );
    }
    let offline = |request: &Path, config: &Path| {
        run_alone(
            &["explain", "--request", text(request), "--config", text(config)],
            &[],
        )
    };
    let shown = good(&offline(&request, &config));
    assert!(
        shown.contains("drawn from equals") && shown.contains("has no session key"),
        "{shown}"
    );
    let missing = gateway.dir().join("missing.json");
    bad(&offline(&missing, &config), 2, &["missing.json"]);
    bad(&offline(&request, &missing), 2, &["missing.json"]);
    let nonsense = file(&gateway, "nonsense");
    bad(&offline(&nonsense, &config), 2, &["JSON"]);
}

#[test]
fn the_documented_example_is_true() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/explaining.md");
    let document = std::fs::read_to_string(document).unwrap();
    let (_, document) = document.split_once("## Policies of your own").unwrap();
    let block = |language: &str| {
        let (_, rest) = document.split_once(&format!("```{language}\n")).unwrap();
        rest.split_once("```").unwrap().0.to_owned()
    };
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("weighbridge.yaml");
    std::fs::write(&config, block("yaml")).unwrap();
    let request = directory.path().join("chat.json");
    std::fs::write(&request, client::chat("chat", "x")).unwrap();
    let args = [
        "explain",
        "--request",
        text(&request),
        "--config",
        text(&config),
        "--header",
        "session-id: 42",
    ];
    assert_eq!(good(&run_alone(&args, &[])), block("text"));
}

/// What a config decides of a request with these headers, as JSON and in words.
fn offline(config: &str, (path, body): (&str, &str), headers: &[&str]) -> (Value, String) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("weighbridge.yaml");
    std::fs::write(&file, config).unwrap();
    let request = directory.path().join("request.json");
    std::fs::write(&request, body).unwrap();
    let mut args = vec!["explain", "--request", text(&request), "--config", text(&file)];
    args.extend(["--path", path]);
    args.extend(headers.iter().flat_map(|header| ["--header", header]));
    let words = good(&run_alone(&args, &[]));
    let json = good(&run_alone(&[&args[..], &["--json"]].concat(), &[]));
    (serde_json::from_str(&json).unwrap(), words)
}

const TWO: &str = "
pools:
  - {name: p, context_length: 4096, abilities: [tools], endpoints: [{url: 'http://h:1', labels: {gpu: T4}}, 'http://h:2']}
  - {name: q, kind: openai, context_length: 8192, endpoints: ['http://h:3']}
routes:
  - {name: r, targets: [p], filters: {by_header: [gpu]}}
  - {name: s, targets: [p], filters: {by_header: [gpu]}, fallback: [{route: q, on: [unavailable, context_length]}]}
  - {name: q, targets: [q]}
";

const CHAT: &str = "/v1/chat/completions";

#[test]
fn what_can_never_be_served_is_told_with_its_reason() {
    let image = json!({"model": "r", "messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "http://h/x.png"}},
    ]}]});
    let plain = |route: &str| client::chat(route, "x");
    let long = |route: &str| json!({"model": route, "max_tokens": 9000, "messages": []}).to_string();
    let labels = "x-weighbridge-labels: gpu=B200";
    for (path, body, header, refused, why) in [
        (
            CHAT,
            plain("r"),
            Some(labels),
            "unfit",
            "no endpoint of `r` carries the labels that are asked for",
        ),
        (
            CHAT,
            image.to_string(),
            None,
            "unfit",
            "no target of `r` takes images",
        ),
        (
            "/v1/messages",
            plain("q"),
            None,
            "unserved",
            "no engine of `q` serves /v1/messages",
        ),
        (
            CHAT,
            plain("s"),
            Some(labels),
            "unfit",
            "the labels that are asked for; the fallback `q` is asked instead",
        ),
    ] {
        let headers: Vec<&str> = header.into_iter().collect();
        let (told, words) = offline(TWO, (path, &body), &headers);
        assert_eq!(told["refused"], refused, "{told}");
        assert!(told["never"].as_str().unwrap().contains(why), "{told}");
        assert!(
            words.contains("the route can never serve such a request, by its config: ")
                && words.contains(why)
                && !words.contains(" now"),
            "{words}"
        );
    }
    // The count is an estimate, so that the engine has the last word.
    for (route, more) in [("r", ""), ("s", "; the fallback `q` is asked then")] {
        let (told, words) = offline(TWO, (CHAT, &long(route)), &[]);
        let never = told["never"].as_str().unwrap();
        assert!(
            never.contains("and no engine of the route takes more than 4096") && never.ends_with(more),
            "{never}"
        );
        assert!(never.contains("take 90"), "{never}");
        assert_eq!(told["target"], "p");
        assert!(words.contains("winner p/") && words.contains(never), "{words}");
    }
    let (told, words) = offline(TWO, (CHAT, &plain("r")), &[]);
    assert_eq!((&told["never"], &told["refused"]), (&Value::Null, &Value::Null));
    assert!(!words.contains("never"), "{words}");
}

#[test]
fn what_is_refused_for_now_is_told_as_that() {
    let ups = Upstream::start_all(["a"]);
    let gateway = start(&ups);
    let drained = gateway.api_send("PATCH", "/api/endpoints/m/a", &json!({"drain": true}));
    assert_eq!(drained.status, 200);
    let told: Value = ask(&gateway, r#"{"model": "r"}"#).json();
    assert_eq!(
        (&told["refused"], &told["never"]),
        (&json!("unavailable"), &Value::Null)
    );
    let request = file(&gateway, r#"{"model": "r"}"#);
    let words = good(&run(&gateway, &["explain", "--request", text(&request)]));
    assert!(words.contains("no candidate can take the request now"), "{words}");
}

#[test]
fn labels_that_a_request_may_not_ask_for_are_told() {
    let note = |name: &str, route: &str| {
        format!(
            "the label `{name}` of x-weighbridge-labels counts for nothing: `filters.by_header` of the route `{route}` does not list it"
        )
    };
    let asked = "x-weighbridge-labels: gpu=T4, tier=gold";
    for (route, expect) in [
        ("r", vec![note("tier", "r")]),
        ("q", vec![note("gpu", "q"), note("tier", "q")]),
    ] {
        let (told, words) = offline(TWO, (CHAT, &client::chat(route, "x")), &[asked]);
        assert_eq!(told["notes"], json!(expect), "{told}");
        assert!(expect.iter().all(|note| words.contains(note)), "{words}");
    }
    for header in ["x-weighbridge-labels: gpu=T4", "x-weighbridge-labels:"] {
        let (told, _) = offline(TWO, (CHAT, &client::chat("r", "x")), &[header]);
        assert_eq!(told["notes"], Value::Null, "{told}");
    }
    // A request that is served is told as well, where it asks, and so are its decisions.
    let ups = Upstream::start_all(["a", "b"]);
    let gateway = start(&ups);
    let headers = [
        ("x-weighbridge-labels", "tier=gold"),
        ("x-weighbridge-explain", "1"),
    ];
    let answer = client::post(
        &gateway.url("/v1/chat/completions"),
        &headers,
        client::chat("r", "x"),
    );
    let told: Value = serde_json::from_str(answer.header("x-weighbridge-explain").unwrap()).unwrap();
    assert_eq!(told["notes"], json!([note("tier", "r")]), "{told}");
    let decisions = gateway.api("/api/decisions?route=r");
    assert!(decisions.to_string().contains(&note("tier", "r")), "{decisions}");
}
