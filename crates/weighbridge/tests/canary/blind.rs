//! What a check over the API says has nothing to do with what the variables of the gateway hold.

use crate::config::{leaves, schema, with};
use crate::shared::as_written;
use serde_json::{Value, json};
use std::path::Path;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;

const DIGEST: &str = "8e02ed13b9f8a2a3c1aa46d5e5b8c6c0ad31a3c1c0fc7ad6c9f54ee2b2c9b7d1";

/// It has secrets in every place that is not shown, and one variable in a place that is.
const RUNNING: &str = "
server: {listen: 127.0.0.1:0, zone: \"${SHOWN}\"}
admin: {listen: 127.0.0.1:0, token: canary-admin}
auth: keys
keys: [{name: k, key: \"${KEY}\"}, {name: d, key_sha256: \"${DIGEST}\"}, {name: f, key: \"file:key\"}]
pools:
  - {name: p, health: false, api_key: \"${KEY}\", endpoints: [\"http://h:1/${SHOWN}?q=${QUERY}\", \"${ENGINE}\"]}
routes: [{name: r, targets: [p]}]
";

/// Secrets of one gateway.
struct Secrets {
    key: &'static str,
    digest: &'static str,
    query: &'static str,
    file: &'static str,
    engine: &'static str,
    other: &'static str,
}

fn start(dir: &Path, secrets: &Secrets) -> Gateway {
    let file = dir.join("weighbridge.yaml");
    std::fs::write(&file, RUNNING).unwrap();
    std::fs::write(dir.join("key"), secrets.file).unwrap();
    let mut options = as_written(&file);
    options.env = [
        ("KEY", secrets.key),
        ("DIGEST", secrets.digest),
        ("QUERY", secrets.query),
        ("ENGINE", secrets.engine),
        ("OTHER", secrets.other),
        ("SHOWN", "zone-a"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    Gateway::start_with(&options)
}

fn check(gateway: &Gateway, text: &str) -> String {
    let answer = Request::post(&gateway.admin_url("/api/config/check"), text)
        .header("authorization", "Bearer canary-admin")
        .send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

/// What an asker who wants to know a variable would have checked.
fn questions() -> Vec<String> {
    let pad = "x".repeat(50);
    let deep = "y".repeat(59);
    let mut texts = Vec::new();
    let root = schema();
    let mut found = Vec::new();
    leaves(&root, &root, &[], &mut found);
    for (path, _) in found {
        for value in ["${OTHER}", "${KEY}", "${ENGINE}", "file:${OTHER}"] {
            texts.push(with(&path, &json!(value)).to_string());
        }
        texts.push(with(&path, &json!(format!("{pad}${{OTHER}}"))).to_string());
    }
    let asked = [
        // Cut, in small letters, padded, ordered, counted, compared with a guess.
        "description: \"${OTHER}\"".to_owned(),
        format!("description: \"{deep}${{OTHER}}\""),
        "endpoints: [\"http://${OTHER}:1\"]".to_owned(),
        "endpoints: [\"http://h:1/${OTHER}\", \"http://h:1/Mixed-Case-Secret\"]".to_owned(),
        "endpoints: [{name: \"${OTHER}\", url: \"http://h:1\"}, {name: short, url: \"http://g:1\"}]"
            .to_owned(),
        "endpoints: [{name: m, url: \"http://h:1\"}, {name: \"${OTHER}\", url: \"http://g:1\"}]".to_owned(),
        "discovery: {dns: \"${OTHER}:1\"}".to_owned(),
        "discovery: {dns: {name: \"${OTHER}\", port: 1, path: \"/${OTHER}\", resolver: \"${OTHER}:53\"}}"
            .to_owned(),
        "discovery: {file: \"${OTHER}\"}".to_owned(),
        "discovery: {file: key}".to_owned(),
        "max_inflight: \"1${OTHER}\"".to_owned(),
        "api_key: canary-other-key-of-the-one".to_owned(),
        "api_key: \"${OTHER}\"".to_owned(),
        "api_key: file:key".to_owned(),
        "labels: {a: \"${OTHER}\"}".to_owned(),
        "model: \"${OTHER}\"".to_owned(),
    ];
    for line in asked {
        let endpoints = if line.contains("endpoints") || line.contains("discovery") {
            ""
        } else {
            ", endpoints: [\"http://h:1\"]"
        };
        texts.push(format!("auth: none\nadmin: {{listen: 127.0.0.1:0}}\nserver: {{listen: 127.0.0.1:0}}\npools: [{{name: p, {line}{endpoints}}}]\n"));
    }
    for more in [
        "cors: {origins: [\"https://${OTHER}\", \"https://Mixed-Case-Secret\"]}",
        "keys: [{name: a, key: \"${OTHER}\"}, {name: b, key: short}]",
        "keys: [{name: a, key: \"${KEY}\"}, {name: b, key: canary-key-of-the-one}]",
        "keys: [{name: a, key: \"file:key\"}, {name: b, key: file-one}]",
        "routes: [{name: \"${OTHER}\", targets: [p]}, {name: short, targets: [p]}]",
        "routes: [{name: r, targets: [\"${OTHER}\"]}]",
    ] {
        texts.push(format!(
            "{more}\nauth: none\nserver: {{listen: 127.0.0.1:0}}\npools: [{{name: p, endpoints: [\"http://h:1\"]}}]\n"
        ));
    }
    texts
}

#[test]
fn sec1_a_check_says_the_same_whatever_the_variables_hold() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first = Secrets {
        key: "canary-key-of-the-one",
        digest: DIGEST,
        query: "canary-query",
        file: "file-one",
        engine: "http://engine:1/?key=canary-engine",
        other: "Mixed-Case-Secret",
    };
    let second = Secrets {
        key: "k2",
        digest: "9e02ed13b9f8a2a3c1aa46d5e5b8c6c0ad31a3c1c0fc7ad6c9f54ee2b2c9b7d1",
        query: "q",
        file: "another-file",
        engine: "https://other:2/a?k=v",
        other: "7",
    };
    let gateways = [start(dirs[0].path(), &first), start(dirs[1].path(), &second)];
    let mut told = 0;
    for text in questions() {
        let answers = [check(&gateways[0], &text), check(&gateways[1], &text)];
        let here = |index: usize| answers[index].replace(&dirs[index].path().display().to_string(), "DIR");
        assert_eq!(here(0), here(1), "{text}");
        let small = answers[0].to_lowercase();
        assert!(
            !small.contains("mixed-case-secret") || text.contains("Mixed-Case"),
            "{text}: {small}"
        );
        told += usize::from(small.contains("${other}"));
    }
    assert!(told > 20, "the variable is called by its name: {told}");
}

#[test]
fn a_check_compares_variables_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let secrets = Secrets {
        key: "canary-key-of-the-one",
        digest: DIGEST,
        query: "canary-query",
        file: "file-one",
        engine: "http://engine:1/?key=canary-engine",
        other: "other",
    };
    let gateway = start(dir.path(), &secrets);
    let checked = |text: &str| -> Value { serde_json::from_str(&check(&gateway, text)).unwrap() };
    let same = checked(RUNNING);
    assert_eq!(
        (&same["ok"], &same["changes"]),
        (&json!(true), &json!([])),
        "{same}"
    );
    for (from, to, change) in [
        (
            "zone: \"${SHOWN}\"",
            "zone: \"${OTHER}\"",
            "server.zone: zone-a → ${OTHER}",
        ),
        (
            "api_key: \"${KEY}\"",
            "api_key: \"${OTHER}\"",
            "pools[p].api_keys: changed",
        ),
        ("q=${QUERY}", "q=${OTHER}", "the query changed"),
        (
            "key: \"${KEY}\"}",
            "key: \"${OTHER}\"}",
            "keys: the keys themselves changed",
        ),
    ] {
        let answer = checked(&RUNNING.replace(from, to));
        assert_eq!(answer["ok"], true, "{answer}");
        let changes = answer["changes"].as_array().unwrap();
        assert!(
            changes.iter().any(|line| line.as_str().unwrap().contains(change)),
            "{answer}"
        );
    }
    let unknown = checked(&RUNNING.replace("health: false", "health: false, max_inflight: \"${OTHER}\""));
    assert_eq!(unknown["ok"], false, "{unknown}");
    let problem = &unknown["problems"][0];
    assert_eq!(problem["path"], "pools[0].max_inflight");
    let message = problem["message"].as_str().unwrap();
    assert!(
        message.starts_with("`${OTHER}` cannot be judged here"),
        "{message}"
    );
}
