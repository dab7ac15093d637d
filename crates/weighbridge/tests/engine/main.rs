//! `weighbridge engine` as a process, over loopback.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

mod client;
mod command;
mod load;
mod ranking;

use client::{EngineProcess, Reply};
use serde_json::{Value, json};

const MODEL: &str = "llama-3.1-8b";

fn fast() -> EngineProcess {
    EngineProcess::start(&["--speed", "100"])
}

fn ask(text: &str, more: Value) -> Value {
    let mut body = json!({"model": MODEL, "messages": [{"role": "user", "content": text}]});
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn content(reply: &Reply) -> String {
    let events = reply.events();
    events
        .iter()
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
        .collect()
}

#[test]
fn a_chat_says_the_same_in_one_piece_and_as_a_stream() {
    let engine = fast();
    let whole = engine.post(
        "/v1/chat/completions",
        &ask("Where is the mill?", json!({"max_tokens": 30})),
    );
    assert_eq!(
        (whole.status, whole.header("x-simulated-engine")),
        (200, Some("weighbridge"))
    );
    let whole = whole.json();
    let text = whole["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(whole["usage"]["completion_tokens"], 30);
    assert_eq!(whole["choices"][0]["finish_reason"], "length");

    let options = json!({"max_tokens": 30, "stream": true, "stream_options": {"include_usage": true}});
    let stream = engine.post("/v1/chat/completions", &ask("Where is the mill?", options));
    assert_eq!(
        stream.header("content-type"),
        Some("text/event-stream; charset=utf-8")
    );
    assert_eq!(stream.header("x-simulated-engine"), Some("weighbridge"));
    let events = stream.events();
    assert_eq!(events.len(), 1 + 30 + 1 + 1, "role, tokens, usage, end");
    assert_eq!(
        events[0]["choices"][0]["delta"],
        json!({"role": "assistant", "content": ""})
    );
    assert_eq!(events[30]["choices"][0]["finish_reason"], "length");
    assert!(
        events[1..30]
            .iter()
            .all(|event| event["choices"][0]["finish_reason"].is_null())
    );
    assert_eq!(events[31]["choices"], json!([]));
    assert_eq!(events[31]["usage"]["completion_tokens"], 30);
    assert_eq!(
        events[31]["usage"]["prompt_tokens"],
        whole["usage"]["prompt_tokens"]
    );
    assert_eq!(events[32], "[DONE]");
    assert_eq!(content(&stream), text);
    assert!(
        events[..32]
            .iter()
            .all(|event| event["id"] == events[0]["id"] && event["model"] == MODEL)
    );
}

#[test]
fn an_answer_without_limit_ends_by_itself_and_a_stop_sequence_ends_it_early() {
    let engine = fast();
    let free = engine
        .post("/v1/chat/completions", &ask("Tell me all.", json!({})))
        .json();
    assert_eq!(free["choices"][0]["finish_reason"], "stop");
    let text = free["choices"][0]["message"]["content"].as_str().unwrap();
    let stop = &text[2..6];
    let early = engine.post(
        "/v1/chat/completions",
        &ask("Tell me all.", json!({"stop": stop, "stream": true})),
    );
    assert_eq!(content(&early), text[..text.find(stop).unwrap()]);
    let events = early.events();
    let last = &events[events.len() - 2]["choices"][0];
    assert_eq!(
        (&last["finish_reason"], &last["stop_reason"]),
        (&json!("stop"), &json!(stop))
    );
}

#[test]
fn completions_take_text_or_tokens() {
    let engine = fast();
    let whole = engine
        .post("/v1/completions", &json!({"model": MODEL, "prompt": "Once"}))
        .json();
    assert_eq!(whole["object"], "text_completion");
    assert_eq!(
        whole["usage"]["completion_tokens"], 16,
        "the default of this endpoint"
    );
    let stream = engine.post(
        "/v1/completions",
        &json!({"model": MODEL, "prompt": [1, 2, 3], "max_tokens": 5, "stream": true}),
    );
    let events = stream.events();
    assert_eq!(events.len(), 6);
    assert!(events[..5].iter().all(|event| {
        event["choices"][0]["text"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    }));
}

#[test]
fn messages_stream_in_anthropics_order() {
    let engine = fast();
    let body = json!({
        "model": MODEL, "max_tokens": 12, "system": "Be brief.", "messages": [{"role": "user", "content": "Why?"}],
    });
    let whole = engine.post("/v1/messages", &body).json();
    assert_eq!(
        (&whole["type"], &whole["stop_reason"]),
        (&json!("message"), &json!("max_tokens"))
    );
    let counted = engine.post("/v1/messages/count_tokens", &body).json();
    assert_eq!(counted["input_tokens"], whole["usage"]["input_tokens"]);

    let mut streamed = body;
    streamed["stream"] = json!(true);
    let reply = engine.post("/v1/messages", &streamed);
    let names: Vec<_> = reply
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("event: "))
        .collect();
    assert_eq!(names[..3], ["message_start", "content_block_start", "ping"]);
    assert_eq!(names[3..15], ["content_block_delta"; 12]);
    assert_eq!(
        names[15..],
        ["content_block_stop", "message_delta", "message_stop"]
    );
    let events = reply.events();
    assert!(
        events
            .iter()
            .zip(&names)
            .all(|(event, name)| event["type"] == **name)
    );
    let text: String = events
        .iter()
        .filter_map(|event| event["delta"]["text"].as_str())
        .collect();
    assert_eq!(text, whole["content"][0]["text"].as_str().unwrap());
    assert_eq!(events[16]["usage"]["output_tokens"], 12);
}

#[test]
fn a_demanded_tool_is_called_in_both_dialects() {
    let engine = fast();
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": schema}}]);
    let asked = |stream: bool| {
        ask(
            "Rain?",
            json!({"tools": tools, "tool_choice": "required", "stream": stream}),
        )
    };
    let whole = engine.post("/v1/chat/completions", &asked(false)).json();
    let (call, end) = (
        &whole["choices"][0]["message"]["tool_calls"][0],
        &whole["choices"][0]["finish_reason"],
    );
    assert_eq!(
        (&call["function"]["name"], end),
        (&json!("weather"), &json!("tool_calls"))
    );
    let arguments = call["function"]["arguments"].as_str().unwrap();
    assert!(serde_json::from_str::<Value>(arguments).unwrap()["city"].is_string());

    let events = engine.post("/v1/chat/completions", &asked(true)).events();
    let calls: Vec<_> = events
        .iter()
        .map(|event| &event["choices"][0]["delta"]["tool_calls"][0]["function"])
        .collect();
    assert_eq!(calls[1]["name"], "weather");
    let streamed: String = calls
        .iter()
        .filter_map(|function| function["arguments"].as_str())
        .collect();
    assert_eq!(streamed, arguments);
    assert_eq!(
        events[events.len() - 2]["choices"][0]["finish_reason"],
        "tool_calls"
    );

    let body = json!({
        "model": MODEL, "max_tokens": 100, "messages": [{"role": "user", "content": "Rain?"}], "stream": true,
        "tools": [{"name": "weather", "input_schema": schema}], "tool_choice": {"type": "tool", "name": "weather"},
    });
    let events = engine.post("/v1/messages", &body).events();
    assert_eq!(events[1]["content_block"]["name"], "weather");
    let input: String = events
        .iter()
        .filter_map(|event| event["delta"]["partial_json"].as_str())
        .collect();
    assert!(serde_json::from_str::<Value>(&input).unwrap()["city"].is_string());
    assert_eq!(events[events.len() - 2]["delta"]["stop_reason"], "tool_use");
}

#[test]
fn embeddings_come_as_numbers_and_as_base64() {
    let engine = fast();
    let ask = |format: &str| {
        let body = json!({"model": MODEL, "input": ["the red boat", "x"], "dimensions": 3, "encoding_format": format});
        engine.post("/v1/embeddings", &body).json()
    };
    let floats = ask("float");
    let vector: Vec<f64> = serde_json::from_value(floats["data"][0]["embedding"].clone()).unwrap();
    assert_eq!((vector.len(), floats["data"].as_array().unwrap().len()), (3, 2));
    assert!((vector.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-5);
    assert_eq!(floats["usage"]["prompt_tokens"], 4);
    assert_eq!(ask("base64")["data"][0]["embedding"].as_str().unwrap().len(), 16);
    assert_eq!(engine.metric("generation_tokens_total"), 0.0);
}

#[test]
fn models_are_listed_and_found_by_id() {
    let engine = EngineProcess::start(&["--model", "a", "--model", "org/b", "--max-model-len", "5000"]);
    let list = engine.get("/v1/models").json();
    let ids: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| model["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["a", "org/b"]);
    for path in ["/v1/models/org/b", "/v1/models/org%2Fb"] {
        assert_eq!(engine.get(path).json()["max_model_len"], 5000, "{path}");
    }
    assert_eq!(engine.get("/v1/models/c").status, 404);
    assert_eq!(engine.get("/health").status, 200);
    assert_eq!(engine.get("/version").json()["simulated"], true);
}

#[test]
fn errors_come_in_the_dialects_shape() {
    let engine = EngineProcess::start(&["--kv-tokens", "320"]);
    let long = "word ".repeat(400);
    let cases = [
        (400, "not valid", "{".to_owned()),
        (400, "messages", json!({"model": MODEL}).to_string()),
        (
            400,
            "messages",
            json!({"model": MODEL, "messages": []}).to_string(),
        ),
        (
            404,
            "`gpt` does not exist",
            json!({"model": "gpt", "messages": [{"role": "user", "content": "x"}]}).to_string(),
        ),
        (400, "n must be 1", ask("x", json!({"n": 2})).to_string()),
        (400, "max_tokens", ask("x", json!({"max_tokens": 0})).to_string()),
        (
            400,
            "maximum context length is 320 tokens",
            ask(&long, json!({})).to_string(),
        ),
        (
            400,
            "maximum context length is 320 tokens",
            ask("x", json!({"max_tokens": 320})).to_string(),
        ),
        (
            400,
            "stream_options",
            ask("x", json!({"stream_options": {"include_usage": true}})).to_string(),
        ),
    ];
    for (status, words, body) in cases {
        let reply = engine.send("POST", "/v1/chat/completions", &body);
        assert_eq!(reply.status, status, "{body}");
        let error = &reply.json()["error"];
        assert!(
            error["message"].as_str().unwrap().contains(words),
            "{words} is missing in {error}"
        );
        assert_eq!(error["code"], status);
        assert_eq!(reply.header("x-simulated-engine"), Some("weighbridge"));
    }
    let reply = engine.post(
        "/v1/messages",
        &json!({"model": "gpt", "max_tokens": 1, "messages": []}),
    );
    assert_eq!(
        (reply.status, &reply.json()["error"]["type"]),
        (404, &json!("not_found_error"))
    );
    let reply = engine.post("/v1/messages", &json!({"model": MODEL, "messages": []}));
    assert_eq!(
        (reply.status, &reply.json()["error"]["type"]),
        (400, &json!("invalid_request_error"))
    );
    let reply = engine.get("/v1/chat/completions");
    assert_eq!((reply.status, reply.header("allow")), (405, Some("POST")));
    assert_eq!(engine.get("/v1/nothing").status, 404);
    assert_eq!(engine.metric("num_requests_running"), 0.0);
}
