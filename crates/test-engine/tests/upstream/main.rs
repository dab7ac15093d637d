//! Pins how the scriptable upstream behaves, key by key: the tests of the gateway rely on it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod answers;
mod connections;
mod control;
mod framing;
mod peers;
mod streams;

use std::time::Duration;
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, Response, StreamClient};

/// More than any step of these tests takes.
const SOON: Duration = Duration::from_secs(20);

/// A chat request in a mode.
fn chat_request(upstream: &Upstream, mode: &str, stream: bool) -> Request {
    let body = serde_json::json!({
        "model": format!("m@@{mode}"), "stream": stream, "messages": [{"role": "user", "content": "hi"}]
    });
    Request::post(
        &format!("{}/v1/chat/completions", upstream.url()),
        body.to_string(),
    )
}

fn message_request(upstream: &Upstream, mode: &str, stream: bool) -> Request {
    let body = serde_json::json!({
        "model": format!("m@@{mode}"), "stream": stream, "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}]
    });
    Request::post(&format!("{}/v1/messages", upstream.url()), body.to_string())
}

/// The whole answer to a chat request.
fn chat(upstream: &Upstream, mode: &str) -> Response {
    chat_request(upstream, mode, false).send()
}

fn message(upstream: &Upstream, mode: &str) -> Response {
    message_request(upstream, mode, false).send()
}

/// A streamed answer, read to its end.
fn streamed(request: &Request) -> StreamClient {
    let mut stream = request.open();
    stream.finish(SOON);
    stream
}

fn chat_stream(upstream: &Upstream, mode: &str) -> StreamClient {
    streamed(&chat_request(upstream, mode, true))
}

/// Event data without the model, which holds the mode.
fn normal(stream: &StreamClient, mode: &str) -> String {
    stream.data().join("\n").replace(&format!("m@@{mode}"), "m")
}
