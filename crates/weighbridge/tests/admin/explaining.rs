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
