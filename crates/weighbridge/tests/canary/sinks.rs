//! Everything that a gateway shows to others than the client of a request.

use crate::config::{ADMIN, CLIENT, MISUSED, PROMPT, Planted, WRONG_ADMIN, clean};
use crate::shared::SOON;
use serde_json::{Value, json};
use std::time::Duration;
use weighbridge_test_engine::client::{Request, Response};
use weighbridge_test_engine::harness::Gateway;

/// Longest wait for an answer of the API: what goes on for ever has begun by then.
const PATIENCE: Duration = Duration::from_secs(5);

/// No secret, and nothing that a person wrote to a model.
fn quiet(what: &str, bytes: impl AsRef<[u8]>) {
    clean(what, bytes.as_ref());
    let canary = crate::forms::Canary::new("a prompt", PROMPT);
    if let Some(form) = canary.found(bytes.as_ref()) {
        panic!("{what} holds a prompt as {form}");
    }
}

/// The bodies that a call is tried with.
fn bodies(method: &str, path: &str) -> Vec<String> {
    let ask = json!({
        "headers": {"authorization": format!("Bearer {CLIENT}"), "x-session": "s1"},
        "body": {"model": "rotated", "messages": [{"role": "user", "content": PROMPT}]},
    });
    match (method, path) {
        ("GET", _) => vec![String::new()],
        (_, "/api/explain") => vec![ask.to_string(), format!("{{\"body\": {{\"model\": {CLIENT:?}}}")],
        (_, "/api/config/check") => vec![
            "pools: [{name: \"${CANARY_MISUSED}\", api_key: \"${CANARY_MISUSED}\", endpoints: [http://h:1]}]\nauth: none\n".to_owned(),
            format!("pools: [{{name: m, endpoints: [http://h:1], max_inflight: \"${{{}}}\"}}]\n", MISUSED.0),
            format!("log: {{level: \"${{{}}}\"}}\npools: []\n", MISUSED.0),
        ],
        ("PATCH", _) => vec![json!({"drain": true}).to_string(), json!({"resume": true}).to_string()],
        _ => vec!["{}".to_owned(), String::new()],
    }
}

fn each_answer(gateway: &Gateway, mut look: impl FnMut(&str, &Response)) {
    let document = Request::get(&gateway.admin_url("/api/openapi.json"))
        .header("authorization", &format!("Bearer {ADMIN}"))
        .send()
        .json();
    let mut calls = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let method = method.to_uppercase();
            // Endpoints are named by two parts, all else by one.
            let named = path.replace("{pool}", "rotated").replace("/{name}", "/{NAME}");
            let name = if path.contains("{pool}") { "e" } else { "rotated" };
            let named = named.replace("{NAME}", name);
            assert!(!named.contains('{'), "say what {path} is to be called with");
            for token in [ADMIN, WRONG_ADMIN] {
                for body in bodies(&method, path) {
                    let request = Request::new(&method, &gateway.admin_url(&named))
                        .header("authorization", &format!("Bearer {token}"))
                        .body(body)
                        .patience(PATIENCE);
                    let Ok(answer) = request.try_send() else { continue };
                    calls += 1;
                    look(&format!("{method} {named}"), &answer);
                }
            }
        }
    }
    assert!(calls > 20, "{calls}");
}

fn families(metrics: &str) -> Vec<(String, String)> {
    let mut families: Vec<(String, String)> = Vec::new();
    for line in metrics.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let name = help.split(' ').next().unwrap_or_default();
            families.push((name.to_owned(), String::new()));
        }
        if let Some((_, text)) = families.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    families
}

/// Looks into every sink of a gateway that has served, and ends it.
pub(crate) fn are_clean(planted: Planted) {
    let Planted { mut gateway, dir } = planted;
    let mut good = 0;
    each_answer(&gateway, |what, answer| {
        good += usize::from(answer.status == 200);
        for (name, value) in &answer.headers {
            quiet(what, format!("{name}: {value}"));
        }
        quiet(what, &answer.body);
    });
    assert!(good >= 12, "{good}");
    let families = families(&gateway.metrics().text);
    assert!(families.len() >= 15, "{}", families.len());
    for (name, text) in families {
        quiet(&name, text);
    }
    // A reload that is refused, and one that is taken, tell of it.
    let file = dir.path().join("weighbridge.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    for (old, new) in [
        ("\"first_byte\":\"400ms\"", "\"first_byte\":\"${CANARY_MISUSED}\""),
        ("\"${CANARY_FIRST}\"", "\"${CANARY_MISUSED}\""),
        ("?key=canary-query", "?key=canary-query-other"),
        ("canary-client", "canary-client"),
    ] {
        std::fs::write(&file, text.replace(old, new)).unwrap();
        let answer = Request::post(&gateway.admin_url("/api/config/reload"), "")
            .header("authorization", &format!("Bearer {ADMIN}"))
            .send();
        quiet("a reload", &answer.body);
        let status: Value = Request::get(&gateway.admin_url("/api/status"))
            .header("authorization", &format!("Bearer {ADMIN}"))
            .send()
            .json();
        quiet("the status after a reload", status.to_string());
    }
    gateway.sigterm();
    assert!(gateway.wait_exit(SOON).is_some());
    for (what, text) in [("stdout", gateway.stdout()), ("stderr", gateway.stderr())] {
        assert!(!text.is_empty());
        for line in text.lines() {
            quiet(what, line);
        }
    }
    let events = std::fs::read(dir.path().join("events")).unwrap();
    assert!(events.len() > 10_000);
    for line in events.split(|byte| *byte == b'\n') {
        quiet("the event log", line);
    }
    for entry in std::fs::read_dir(gateway.dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            quiet(&path.display().to_string(), std::fs::read(&path).unwrap());
        }
    }
}
