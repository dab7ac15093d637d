//! Routes that say nothing of how they choose, and have a choice: the preset `auto`, and what must not come of it.

use crate::prefix::conversation;
use crate::shared::{SOON, gateway, send_all, served};
use serde_json::json;
use sha2::{Digest, Sha256};
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// A pool `r` of this kind, of which nothing more is said.
fn unsaid(kind: &str, upstreams: &[&Upstream]) -> Gateway {
    let endpoints: Vec<_> = upstreams
        .iter()
        .map(|upstream| format!("{{name: {}, url: \"{}\"}}", upstream.name(), upstream.url()))
        .collect();
    gateway(&format!(
        "pools: [{{name: r, kind: {kind}, endpoints: [{}]}}]\n",
        endpoints.join(", ")
    ))
}

fn ask(gateway: &Gateway, body: &str) -> Request {
    Request::post(&gateway.url("/v1/chat/completions"), body)
}

#[test]
fn a_conversation_stays_where_it_began_without_a_word_about_it() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateway = unsaid("generic", &[&a, &b, &c]);
    let turns = (1..=8).map(|turns| ask(&gateway, &conversation(5, turns).to_string()));
    let answers = send_all(&gateway, turns);
    let names = served(&answers);
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    let route = gateway.api("/api/routes/r");
    assert_eq!(
        (&route["preset"], &route["route_by"]),
        (&json!("auto"), &json!("policy"))
    );
}

#[test]
fn engines_and_providers_that_have_no_metrics_are_not_asked_and_nothing_is_said_of_it() {
    for kind in ["generic", "openai", "ollama"] {
        let [a, b] = Upstream::start_all(["A", "B"]);
        let gateway = unsaid(kind, &[&a, &b]);
        let answers = send_all(
            &gateway,
            (1..=20).map(|turns| ask(&gateway, &conversation(turns, 1).to_string())),
        );
        assert_eq!(served(&answers).len(), 20);
        for upstream in [&a, &b] {
            let pages = upstream
                .log()
                .into_iter()
                .filter(|seen| seen.target.contains("metrics"));
            assert_eq!(pages.count(), 0, "{kind}");
        }
        let ok = gateway
            .metrics()
            .sum("weighbridge_attempts_total", &[("outcome", "ok")]);
        let all = gateway.metrics().sum("weighbridge_attempts_total", &[]);
        assert_eq!((ok, all), (20.0, 20.0), "{kind}");
        let said = gateway.stderr();
        let about = |line: &&str| line.contains("metrics") && !line.contains("admin API and metrics");
        assert_eq!(said.lines().find(about), None, "{kind}");
    }
}

#[test]
fn an_engine_whose_page_is_missing_is_told_of_once_and_not_as_a_warning() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    for upstream in [&a, &b] {
        upstream.set_metrics_status(404);
    }
    let gateway = unsaid("vllm", &[&a, &b]);
    let told = || gateway.stderr().matches("no metrics here").count();
    assert!(eventually(SOON, || told() == 2), "{}", gateway.stderr());
    let answers = send_all(
        &gateway,
        (1..=20).map(|turns| ask(&gateway, &conversation(turns, 1).to_string())),
    );
    assert_eq!(served(&answers).len(), 20);
    assert_eq!(told(), 2);
    let said = gateway.stderr();
    let warned = said
        .lines()
        .find(|line| line.contains("WARN") && line.contains("metrics"));
    assert_eq!(warned, None);
    for name in ["A", "B"] {
        assert_eq!(crate::shared::state(&gateway, name), "live");
    }
}

#[test]
fn a_large_prompt_and_what_is_no_prompt_pass_as_they_are() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    let gateway = unsaid("generic", &[&a, &b]);
    let posts = || [a.posts(), b.posts()].concat();
    let text = "All work and no play. ".repeat(1_000_000);
    let body = json!({"model": "r", "messages": [{"role": "user", "content": text}]}).to_string();
    assert!(body.len() > 20 << 20);
    let answer = ask(&gateway, &body).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let hash: String = (Sha256::digest(&body).iter())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(posts()[0].body_sha256, hash, "the same bytes");
    let form = "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nr\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nsound\r\n--x--\r\n";
    let answer = Request::post(&gateway.url("/v1/audio/transcriptions"), form)
        .header("content-type", "multipart/form-data; boundary=x")
        .send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    // A body that no prompt is found in chooses all the same.
    for odd in [json!({"model": "r"}), json!({"model": "r", "messages": 7})] {
        assert_eq!(ask(&gateway, &odd.to_string()).send().status, 200, "{odd}");
    }
}
