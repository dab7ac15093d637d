//! Prompts that begin alike go to the same engine, by a conversation's own text.

use crate::shared::{gateway, pool, send_all, served};
use serde_json::{Value, json};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::Request;
use weighbridge_test_engine::harness::Gateway;

/// A page of its own for every number.
pub(crate) fn page(number: usize) -> String {
    (0..30).fold(format!("Page {number}. "), |page, line| {
        page + &format!(
            "Line {line} of page {number} says \"{}\", as before.\n",
            line * number + 7
        )
    })
}

pub(crate) fn yaml(upstreams: &[&Upstream]) -> String {
    let pool = pool("p", upstreams, &["ramp: 0s"]);
    format!(
        "pools:\n{pool}routes: [{{name: r, targets: [p], policies: {{prefix_cache: {{}}, least_inflight: {{}}}}}}]\n"
    )
}

pub(crate) fn ask(gateway: &Gateway, body: &str) -> Request {
    Request::post(&gateway.url("/v1/chat/completions"), body)
}

/// A conversation of this many turns, with what the engine said in between.
pub(crate) fn conversation(number: usize, turns: usize) -> Value {
    let mut messages = vec![json!({"role": "system", "content": page(number)})];
    for turn in 0..turns {
        if turn > 0 {
            messages.push(json!({"role": "assistant", "content": page(number * 1000 + turn)}));
        }
        messages
            .push(json!({"role": "user", "content": format!("{}, and then?", page(number * 100 + turn))}));
    }
    json!({"model": "r", "messages": messages})
}

#[test]
fn a_conversation_of_ten_turns_stays_where_it_began() {
    let [a, b, c] = Upstream::start_all(["A", "B", "C"]);
    let gateway = gateway(&yaml(&[&a, &b, &c]));
    let turns = (1..=10).map(|turns| ask(&gateway, &conversation(3, turns).to_string()));
    let answers = send_all(&gateway, turns);
    let names = served(&answers);
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
}

/// The same JSON with every character of its strings escaped.
fn respelt(value: &Value) -> String {
    match value {
        Value::String(text) => {
            let units: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            format!("\"{units}\"")
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(respelt).collect();
            format!("[\n{} ]", items.join(" ,\t"))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("\"{key}\" : {}", respelt(value)))
                .collect();
            format!("{{ {}\n}}", fields.join(","))
        }
        other => other.to_string(),
    }
}

#[test]
fn equal_texts_go_to_the_same_place_however_they_are_escaped() {
    let [a, b, c, d] = Upstream::start_all(["A", "B", "C", "D"]);
    let gateway = gateway(&yaml(&[&a, &b, &c, &d]));
    let body = conversation(5, 2);
    let mut parts = body.clone();
    for message in parts["messages"].as_array_mut().unwrap() {
        let text = message["content"].as_str().unwrap();
        let (first, second) = text.split_at(text.len() / 3);
        message["content"] = json!([{"type": "text", "text": first}, {"type": "text", "text": second}]);
    }
    let ways = [
        body.to_string(),
        respelt(&body),
        parts.to_string(),
        serde_json::to_string_pretty(&body).unwrap(),
        respelt(&parts),
    ];
    let requests = ways.iter().cycle().take(5).map(|body| ask(&gateway, body));
    let answers = send_all(&gateway, requests);
    let names = served(&answers);
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
}
