//! Request bodies.

use serde_json::{Value, json};

/// A chat completion request with one user message.
pub fn chat(model: &str, text: &str) -> String {
    chat_value(model, text).to_string()
}

/// As [`chat`], streamed.
pub fn chat_stream(model: &str, text: &str) -> String {
    streamed(chat_value(model, text))
}

/// A messages request (Anthropic) with one user message.
pub fn messages(model: &str, text: &str) -> String {
    messages_value(model, text).to_string()
}

/// As [`messages`], streamed.
pub fn messages_stream(model: &str, text: &str) -> String {
    streamed(messages_value(model, text))
}

fn chat_value(model: &str, text: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": text}]})
}

fn messages_value(model: &str, text: &str) -> Value {
    let mut body = chat_value(model, text);
    body["max_tokens"] = json!(256);
    body
}

fn streamed(mut body: Value) -> String {
    body["stream"] = json!(true);
    body.to_string()
}
