//! LB-3 without a session key: the head of the prompt places a conversation, on every gateway alike.

use crate::shared::{gateway, pool, send_all, served};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;

const KEYS: &str = "[{header: session-id}, {prompt_head: 4KiB}]";

fn yaml(upstreams: &[&Upstream], keys: &str) -> String {
    let pool = pool("p", upstreams, &["ramp: 0s"]);
    format!(
        "pools:\n{pool}routes: [{{name: r, targets: [p], policies: {{session_affinity: {{keys: {keys}}}}}}}]\n"
    )
}

/// The messages of a conversation that has come to its turn `turn`, from 0 on, under a system prompt that all share.
fn conversation(number: usize, turn: usize) -> Value {
    let mut messages = vec![
        json!({"role": "system", "content": "You are the clerk of a hardware shop. Be brief. ".repeat(5)}),
        json!({"role": "user", "content": format!("I need {number} nails.")}),
    ];
    for turn in 0..turn {
        messages.push(json!({"role": "assistant", "content": format!("Which ones? {}", "Long or short? ".repeat(turn * 30))}));
        messages.push(json!({"role": "user", "content": format!("Let me think for {turn} s.")}));
    }
    json!(messages)
}

fn chat(gateway: &Gateway, messages: &Value) -> Request {
    let body = json!({"model": "r", "messages": messages});
    Request::post(&gateway.url("/v1/chat/completions"), body.to_string())
}

fn homes(gateway: &Gateway, turn: usize) -> Vec<String> {
    let requests = (0..40).map(|number| chat(gateway, &conversation(number, turn)));
    let answers = send_all(gateway, requests);
    served(&answers).into_iter().map(str::to_owned).collect()
}

#[test]
fn lb3_conversations_without_a_key_stay_and_two_gateways_agree() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let first = gateway(&yaml(&[&a, &b, &c], KEYS));
    let second = gateway(&yaml(&[&c, &b, &a], KEYS));
    let at_first = homes(&first, 0);
    for turn in 1..4 {
        let gateway = if turn % 2 == 1 { &second } else { &first };
        assert_eq!(homes(gateway, turn), at_first, "turn {turn}");
    }
    for name in ["A", "B", "C"] {
        let many = at_first.iter().filter(|home| *home == name).count();
        assert!(
            many >= 5,
            "{name} has {many} of 40 that differ in a word after a block that they share"
        );
    }
}

#[test]
fn lb3_a_key_comes_before_the_head_and_beyond_the_head_nothing_counts() {
    let upstreams = Upstream::start_all(["A", "B", "C", "D", "E", "F", "G", "H"]);
    let all: Vec<_> = upstreams.iter().collect();
    let gateway = gateway(&yaml(&all, KEYS));
    let distinct = |requests: Vec<Request>| -> usize {
        let answers = send_all(&gateway, requests);
        served(&answers).into_iter().collect::<BTreeSet<_>>().len()
    };
    let numbers = || 0..30;
    let named = numbers().map(|number| chat(&gateway, &conversation(number, 0)).header("session-id", "one"));
    assert_eq!(distinct(named.collect()), 1, "the key of the client counts");
    assert!(
        distinct(
            numbers()
                .map(|number| chat(&gateway, &conversation(number, 0)))
                .collect()
        ) >= 6
    );
    let about = |pages: &str, number: usize| {
        let text = format!("{pages} What does page {number} say?");
        chat(&gateway, &json!([{"role": "user", "content": text}]))
    };
    let document = "The mill grinds wheat and rye. ".repeat(200);
    assert_eq!(
        distinct(numbers().map(|number| about(&document, number)).collect()),
        1,
        "4 KiB of 6 are the same"
    );
    assert!(distinct(numbers().map(|number| about("A short text.", number)).collect()) >= 6);
    let completion = |number: usize| {
        let body = json!({"model": "r", "prompt": format!("{document}{number}")});
        Request::post(&gateway.url("/v1/completions"), body.to_string())
    };
    assert_eq!(
        distinct(numbers().map(completion).collect()),
        1,
        "no conversation"
    );
}

#[test]
fn lb3_an_explanation_reads_the_head_as_the_gateway_does() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&yaml(&[&a, &b, &c], KEYS));
    let explained = |messages: &Value| {
        let question = json!({"body": {"model": "r", "messages": messages}});
        let told = gateway.api_send("POST", "/api/explain", &question);
        assert_eq!(told.status, 200, "{}", told.text());
        told.json()
    };
    for (number, home) in homes(&gateway, 2).iter().enumerate() {
        let told = explained(&conversation(number, 2));
        assert_eq!(told["endpoint"].as_str(), Some(home.as_str()), "{told:#}");
        assert_eq!(told["abstained"], json!({}));
    }
    let told = explained(&json!([]));
    assert_eq!(
        told["abstained"],
        json!({"session_affinity": "no_key"}),
        "no prompt, no head"
    );
}
