//! A gateway, an upstream behind it, and what must hold after whatever was done to them.

use serde_json::json;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weighbridge_test_engine::client::{Raw, Request, raw};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::{Upstream, eventually};

/// For what is certain to come, on a slow and busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const CHAT: &str = "/v1/chat/completions";

pub(crate) struct Scene {
    pub(crate) gateway: Gateway,
    pub(crate) upstream: Upstream,
    served: AtomicU32,
}

impl Scene {
    /// A gateway with one pool `m`; `more` are further parts of the config.
    pub(crate) fn new(more: &str) -> Self {
        let upstream = Upstream::start("a");
        let gateway = to(&upstream.url(), more);
        Self {
            gateway,
            upstream,
            served: AtomicU32::new(0),
        }
    }

    pub(crate) fn connect(&self) -> Raw {
        raw(address(&self.gateway))
    }

    /// Writes to a new connection and reads until the gateway closes it.
    pub(crate) fn talk(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut client = self.connect();
        // It may close before all is written.
        let _ = client.write(bytes);
        let ended = client.read_to_end(PATIENCE).map(<[u8]>::len);
        let text = client.text();
        assert!(
            ended.is_ok() || !text.is_empty(),
            "neither answered nor closed: {ended:?}"
        );
        text
    }

    /// The prompts that the upstream has got since it was last asked.
    pub(crate) fn prompts(&self) -> Vec<String> {
        let posts = self.upstream.posts();
        self.upstream.reset();
        let prompt = |body: &str| -> String {
            let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
            let said = &body["messages"][0]["content"];
            said.as_str().unwrap_or("no prompt").to_owned()
        };
        posts
            .iter()
            .map(|post| post.body.as_deref().map_or("no text".to_owned(), prompt))
            .collect()
    }

    /// The process lives, serves the next request with its own answer, and holds nothing of those before.
    pub(crate) fn serves(&self) {
        serves(&self.gateway, self.served.fetch_add(1, Ordering::Relaxed));
        let idle = eventually(PATIENCE, || {
            self.gateway.metrics().sum("weighbridge_inflight", &[]) == 0.0
        });
        assert!(idle, "{}", self.gateway.metrics().text);
    }
}

/// Sends a request with a mark of its own, and sees that its answer has it.
pub(crate) fn serves(gateway: &Gateway, number: u32) {
    let mark = format!("mark-{number}-{}", gateway.pid());
    let body =
        json!({"model": "m", "messages": [{"role": "user", "content": format!("[[mock:text={mark}]]")}]});
    let answer = Request::post(&gateway.url(CHAT), body.to_string()).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains(&mark), "{}", answer.text());
    assert_eq!(answer.text().matches("mark-").count(), 1, "{}", answer.text());
}

/// A gateway with one pool `m` of the engine at `url`.
pub(crate) fn to(url: &str, more: &str) -> Gateway {
    let yaml = format!(
        "pools: [{{name: m, kind: generic, health: false, breaker: false, endpoints: [{{name: a, url: '{url}'}}]}}]\n{more}"
    );
    Gateway::start(Path::new(env!("CARGO_BIN_EXE_weighbridge")), &yaml)
}

pub(crate) fn address(gateway: &Gateway) -> SocketAddr {
    gateway.url("").trim_start_matches("http://").parse().unwrap()
}

/// A chat body with this prompt.
pub(crate) fn chat(prompt: &str) -> String {
    json!({"model": "m", "messages": [{"role": "user", "content": prompt}]}).to_string()
}

/// A whole request with this prompt, with further header lines.
pub(crate) fn request(prompt: &str, headers: &str) -> String {
    let body = chat(prompt);
    let length = body.len();
    format!("POST {CHAT} HTTP/1.1\r\nhost: x\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

/// Statuses of the answers in what came over a connection, interim ones included.
pub(crate) fn statuses(text: &str) -> Vec<u16> {
    let heads = ["HTTP/1.1 ", "HTTP/1.0 "];
    let starts = text
        .match_indices("HTTP/1.")
        .filter(|(at, _)| heads.iter().any(|head| text[*at..].starts_with(head)));
    starts
        .filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok())
        .collect()
}
