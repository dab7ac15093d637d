//! Connections and the table of endpoints.

use super::driver::{Handle, driver};
use super::http::{Answer, Dialect, Fault, json_answer, whole};
use super::{EngineConfig, anthropic, embeddings, metrics, openai};
use hyper::body::Incoming;
use hyper::header::{ALLOW, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use weighbridge_sim::engine::BatchingEngine;
use weighbridge_sim::text::mix;

/// Pause after an accept that failed, as for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What every request needs.
pub(super) struct Server {
    pub(super) config: EngineConfig,
    pub(super) engine: Handle,
    started: u64,
}

impl Server {
    /// The name the answer carries: the one asked for, or the first where none is.
    pub(super) fn model(&self, asked: Option<&str>) -> Result<String, Fault> {
        let found = match asked {
            Some(name) => self.config.models.iter().find(|model| *model == name),
            None => self.config.models.first(),
        };
        found
            .cloned()
            .ok_or_else(|| Fault::unknown_model(asked.unwrap_or_default()))
    }

    pub(super) fn block_size(&self) -> u32 {
        self.config.settings.block_size
    }
}

/// Seconds since 1970.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// An id that no other answer of this process has, nor likely one of another.
pub(super) fn unique_id(prefix: &str) -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_nanos() as u64;
    let (high, low) = (mix(now), COUNTER.fetch_add(1, Ordering::Relaxed));
    format!("{prefix}{high:016x}{:016x}", mix(high ^ low))
}

/// See [`super::serve`].
pub(super) async fn serve(config: EngineConfig, listener: TcpListener, shutdown: impl Future<Output = ()>) {
    let (engine, drive) = driver(BatchingEngine::new(config.settings.clone()), config.speed);
    let server = Arc::new(Server {
        config,
        engine,
        started: unix_seconds(),
    });
    let mut tasks = JoinSet::new();
    tasks.spawn(drive);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    tasks.spawn(connection(stream, Arc::clone(&server)));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            _ = tasks.join_next() => {}
        }
    }
}

async fn connection(stream: TcpStream, server: Arc<Server>) {
    // Without it the last tokens of a stream wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(respond(&server, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = served.await {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn respond(server: &Server, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let dialect = if path.starts_with("/v1/messages") {
        Dialect::Anthropic
    } else {
        Dialect::OpenAi
    };
    route(server, &path, request)
        .await
        .unwrap_or_else(|fault| fault.answer(dialect))
}

async fn route(server: &Server, path: &str, request: Request<Incoming>) -> Result<Answer, Fault> {
    let posts = matches!(
        path,
        "/v1/chat/completions"
            | "/v1/completions"
            | "/v1/embeddings"
            | "/v1/messages"
            | "/v1/messages/count_tokens"
    );
    let method = request.method().clone();
    if posts {
        if method != Method::POST {
            return Ok(wrong_method(path, "POST"));
        }
        let body = request.into_body();
        return match path {
            "/v1/chat/completions" => openai::chat(server, body).await,
            "/v1/completions" => openai::completion(server, body).await,
            "/v1/embeddings" => embeddings::embeddings(server, body).await,
            "/v1/messages" => anthropic::messages(server, body).await,
            _ => anthropic::count_tokens(server, body).await,
        };
    }
    let answer = read_only(server, path).await?;
    Ok(if method == Method::GET || method == Method::HEAD {
        answer
    } else {
        wrong_method(path, "GET, HEAD")
    })
}

fn wrong_method(path: &str, allowed: &'static str) -> Answer {
    let dialect = if path.starts_with("/v1/messages") {
        Dialect::Anthropic
    } else {
        Dialect::OpenAi
    };
    let message = format!("{path} takes {allowed} only.");
    let mut answer = Fault::new(StatusCode::METHOD_NOT_ALLOWED, message).answer(dialect);
    answer
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allowed));
    answer
}

async fn read_only(server: &Server, path: &str) -> Result<Answer, Fault> {
    let ok = StatusCode::OK;
    match path {
        "/health" | "/ping" => Ok(whole(ok, "text/plain; charset=utf-8", "")),
        "/version" => Ok(json_answer(
            ok,
            &json!({"version": env!("CARGO_PKG_VERSION"), "simulated": true}),
        )),
        "/load" => {
            let stats = server.engine.report().await.ok_or_else(Fault::stopped)?.stats;
            Ok(json_answer(
                ok,
                &json!({"server_load": stats.running + stats.waiting}),
            ))
        }
        "/metrics" => {
            let report = server.engine.report().await.ok_or_else(Fault::stopped)?;
            let page = metrics::render(&server.config, &report);
            Ok(whole(ok, "text/plain; version=0.0.4; charset=utf-8", page))
        }
        "/v1/models" => {
            let data: Vec<_> = server
                .config
                .models
                .iter()
                .map(|name| model_card(server, name))
                .collect();
            Ok(json_answer(ok, &json!({"object": "list", "data": data})))
        }
        _ => match path.strip_prefix("/v1/models/") {
            Some(name) => {
                let name = server.model(Some(&percent_decoded(name)))?;
                Ok(json_answer(ok, &model_card(server, &name)))
            }
            None => Err(Fault::new(
                StatusCode::NOT_FOUND,
                format!("There is no {path} here."),
            )),
        },
    }
}

fn model_card(server: &Server, name: &str) -> serde_json::Value {
    json!({
        "id": name,
        "object": "model",
        "created": server.started,
        "owned_by": "weighbridge-simulation",
        "root": name,
        "parent": null,
        "max_model_len": server.config.settings.longest_sequence(),
    })
}

/// Text with its `%XX` resolved; what is not UTF-8 after that stays as it was.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::percent_decoded;

    #[test]
    fn percent_signs() {
        assert_eq!(percent_decoded("meta%2FLlama%203"), "meta/Llama 3");
        assert_eq!(percent_decoded("100%"), "100%");
        assert_eq!(percent_decoded("%ff"), "%ff");
    }
}
