//! A small blocking client for tests, over HTTP/1.1 or HTTP/2, plain or under TLS. It sees what a library hides: when each piece of a body arrived,
//! and whether the body ended as it should, stopped short or was reset. It can also do what a library will not:
//! close or half-close at any moment, speak HTTP/1.0, and send any bytes at all.

mod bodies;
mod http2;
mod raw;
mod request;
mod sse;
mod stream;
mod wire;

pub use bodies::{chat, chat_stream, messages, messages_stream};
pub use http2::{Closed, Session};
pub use raw::{Raw, raw};
pub use request::{Connection, Failure, Http, Pending, Request};
pub use sse::{Event, Parsed};
pub use stream::{End, Piece, StreamClient};

use crate::http1::header;
use std::time::Duration;

/// How long a client waits if it is not told: longer than any answer in a test takes.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers as sent, in order.
    pub headers: Vec<(String, String)>,
    /// Body, chunk framing removed.
    pub body: Vec<u8>,
    /// From the start of connecting to the end of the body.
    pub elapsed: Duration,
    /// How the body ended.
    pub end: End,
}

impl Response {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// All values of a header.
    pub fn header_all(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(k, _)| k.eq_ignore_ascii_case(name));
        named.map(|(_, v)| v.as_str()).collect()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("status {}, body is not JSON ({e}): {}", self.status, self.text()))
    }

    /// Which scriptable upstream answered: the value of `x-mock-name`.
    pub fn served_by(&self) -> Option<&str> {
        self.header("x-mock-name")
    }
}

/// Posts a body and gives the whole answer.
///
/// # Panics
/// If no whole answer comes; use [`Request::try_send`] to look at failures.
pub fn post(url: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Response {
    Request::post(url, body).headers(headers).send()
}

/// Gets a URL.
///
/// # Panics
/// If no whole answer comes.
pub fn get(url: &str, headers: &[(&str, &str)]) -> Response {
    Request::get(url).headers(headers).send()
}

/// Posts a body and gives the answer as it comes, as soon as its head is there.
///
/// # Panics
/// If no head comes; use [`Request::try_open`] to look at failures.
pub fn stream(url: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> StreamClient {
    Request::post(url, body).headers(headers).open()
}
