//! Finding engines on this machine, for a start without a config.

use crate::upstream::connect::connect_to;
use crate::upstream::link::RequestBody;
use bytes::Bytes;
use http::header::HOST;
use http::{HeaderValue, Request};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Ports on which engines listen unless told otherwise, with the `kind` that each then is.
pub const USUAL_PORTS: [(u16, &str); 5] = [
    (8000, "vllm"),
    (8080, "llamacpp"),
    (30000, "sglang"),
    (11434, "ollama"),
    (1234, "generic"),
];

/// Longest wait for one engine.
const WAIT: Duration = Duration::from_millis(1500);
/// Largest list of models that is read, bytes.
const LIST_MAX: usize = 1 << 20;

/// An engine that answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where.
    pub address: SocketAddr,
    /// The config's word for what it is.
    pub kind: &'static str,
    /// The models it names.
    pub models: Vec<String>,
}

#[derive(Deserialize)]
struct Models {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
    #[serde(default)]
    owned_by: String,
}

/// Asks every port of `ports` on the loopback address for its models, all at once; those of `own` are left out.
pub async fn find(ports: &[(u16, &'static str)], own: &[SocketAddr]) -> Vec<Found> {
    let asked = ports
        .iter()
        .filter(|(port, _)| own.iter().all(|address| address.port() != *port));
    let asked: Vec<_> = asked
        .map(|&(port, kind)| tokio::task::spawn_local(ask(port, kind)))
        .collect();
    let mut found = Vec::new();
    for engine in asked {
        found.extend(engine.await.ok().flatten());
    }
    found
}

async fn ask(port: u16, usual: &'static str) -> Option<Found> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let deadline = Instant::now() + WAIT;
    let models = timeout_at(deadline, models(address)).await.ok()??;
    // Another gateway of ours is no engine: requests would go round in circles.
    if models.data.iter().any(|model| model.owned_by == "weighbridge") {
        return None;
    }
    let kind = models
        .data
        .first()
        .and_then(|model| kind_of(&model.owned_by))
        .unwrap_or(usual);
    let models: Vec<_> = models
        .data
        .into_iter()
        .map(|model| model.id)
        .filter(|id| !id.is_empty())
        .collect();
    (!models.is_empty()).then_some(Found {
        address,
        kind,
        models,
    })
}

async fn models(address: SocketAddr) -> Option<Models> {
    let mut link = connect_to(address).await.ok()?;
    let mut request = Request::new(RequestBody::Whole(Bytes::new()));
    *request.uri_mut() = http::Uri::from_static("/v1/models");
    request
        .headers_mut()
        .insert(HOST, HeaderValue::try_from(address.to_string()).ok()?);
    let response = link.send(request).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let body = link
        .drive(Limited::new(response.into_body(), LIST_MAX).collect())
        .await
        .ok()?;
    serde_json::from_slice(&body.to_bytes()).ok()
}

/// What the `owned_by` of a model tells of its engine.
fn kind_of(owned_by: &str) -> Option<&'static str> {
    match owned_by {
        "vllm" => Some("vllm"),
        "sglang" => Some("sglang"),
        "llamacpp" | "llama.cpp" => Some("llamacpp"),
        "library" => Some("ollama"),
        "mistral.rs" | "mistralrs" => Some("mistralrs"),
        _ => None,
    }
}

/// The config that stands for what was found: a pool, and so a route, per model.
#[must_use]
pub fn config_for(found: &[Found], listen: SocketAddr, admin: SocketAddr) -> String {
    let mut by_model: BTreeMap<&str, Vec<&Found>> = BTreeMap::new();
    for engine in found {
        for model in &engine.models {
            by_model.entry(model).or_default().push(engine);
        }
    }
    let mut text = format!("server: {{listen: \"{listen}\"}}\nadmin: {{listen: \"{admin}\"}}\npools:\n");
    for (model, engines) in by_model {
        let kind = engines[0].kind;
        let kind = if engines.iter().all(|engine| engine.kind == kind) {
            kind
        } else {
            "generic"
        };
        let name = serde_json::Value::from(model.replace('$', "$$"));
        let endpoints: Vec<_> = engines
            .iter()
            .map(|engine| format!("\"http://{}\"", engine.address))
            .collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  - name: {name}\n    kind: {kind}\n    endpoints: [{}]",
            endpoints.join(", ")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(port: u16, kind: &'static str, models: &[&str]) -> Found {
        let models = models.iter().map(|model| (*model).to_owned()).collect();
        Found {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            kind,
            models,
        }
    }

    #[test]
    fn two_engines_with_one_model_become_one_pool() {
        let found = [
            engine(1, "vllm", &["m"]),
            engine(2, "vllm", &["m", "n"]),
            engine(3, "ollama", &["n:1b", "a\"$b"]),
        ];
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let text = config_for(&found, address, address);
        let loaded =
            weighbridge_config::load_str("found", &text.replacen("127.0.0.1:9", "127.0.0.1:10", 1), &|_| {
                None
            });
        let config = loaded.unwrap().config;
        let names: Vec<_> = config.routes.iter().map(|route| &*route.name).collect();
        assert_eq!(names, ["a\"$b", "m", "n", "n:1b"]);
        assert_eq!(config.pools[1].endpoints.len(), 2);
    }
}
