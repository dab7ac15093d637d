//! Measuring one endpoint.

use super::Order;
use crate::client::connection::{Client, Way};
use crate::client::presence::Exchange;
use crate::exchange::flight::Flight;
use crate::exchange::relay::AnswerBody;
use crate::exchange::{intake, respond, run};
use crate::gateway::Gateway;
use crate::lifecycle::Phase;
use crate::server::Worker;
use crate::snapshot::{RouteEntry, Snapshot};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep, timeout_at};
use weighbridge_config::show_duration;
use weighbridge_core::EndpointId;
use weighbridge_core::event::Only;
use weighbridge_core::spec::{Protocols, Weight};
use weighbridge_core::view::StateKind;
use weighbridge_wire::{Api, StreamObserver};

/// What every endpoint is asked: an answer that is as long as it may be, whatever the model.
const PROMPT: &str = "Write the whole numbers from one to one thousand as English words, in order and separated by commas. \
    Write nothing else and do not stop before the last.";
/// Tokens of the first request, which pays for connections and what an engine does once, and does not count.
const WARM_UP_TOKENS: u32 = 8;
/// Time between two looks at an endpoint that is busy.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What an endpoint wrote.
pub(super) struct Written {
    pub(super) tokens: u64,
    pub(super) seconds: f64,
}

impl Written {
    /// Tokens per second.
    #[expect(clippy::cast_precision_loss, reason = "tokens are far below 2^53")]
    pub(super) fn rate(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

/// A route that sends requests to the pool, with what to ask; or why there is none, for a person.
pub(super) fn way(snapshot: &Snapshot, pool: &str) -> Result<(Arc<RouteEntry>, Api), String> {
    let fleet = &snapshot.config.fleet;
    let place = fleet.pools.iter().position(|spec| *spec.name == *pool);
    let place = place.ok_or_else(|| format!("the pool `{pool}` has been removed"))?;
    let protocols = fleet.pools[place].protocols;
    let api = if protocols.serves(Protocols::OPENAI) {
        Api::ChatCompletions
    } else if protocols.serves(Protocols::ANTHROPIC) {
        Api::Messages
    } else {
        return Err(format!("the pool `{pool}` serves no protocol that can be asked"));
    };
    let sends = |target: &weighbridge_core::spec::TargetSpec| {
        target.pool == place && target.weight != Some(Weight::ZERO)
    };
    let route = fleet.routes.iter().find(|route| route.targets.iter().any(sends));
    let route = route.and_then(|route| snapshot.route(&route.name));
    let route = route.ok_or_else(|| format!("no route sends requests to the pool `{pool}`"))?;
    Ok((route.clone(), api))
}

/// Waits until the endpoint is live and has no more requests than the order allows; or says why it is not measured.
pub(super) async fn until_quiet(gateway: &Gateway, order: &Order, name: &str) -> Result<(), String> {
    let deadline = Instant::now() + order.rate.timeout;
    loop {
        if gateway.lifecycle.phase() >= Phase::Draining {
            return Err("the gateway is ending".to_owned());
        }
        let view = gateway.view();
        let found = (view.endpoints.iter())
            .find(|seen| !seen.removed && *seen.pool == *order.pool && *seen.name == *name);
        let Some(seen) = found else {
            return Err("it has been removed".to_owned());
        };
        match seen.state.kind {
            StateKind::Live | StateKind::Full => {}
            kind => return Err(format!("it is {}: {}", kind.as_str(), seen.state.reason)),
        }
        if seen.inflight <= order.rate.max_inflight {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(format!(
                "it had more than {} requests in flight for {}",
                order.rate.max_inflight,
                show_duration(order.rate.timeout)
            ));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// What is asked of one endpoint.
struct Asked {
    worker: Rc<Worker>,
    route: Arc<RouteEntry>,
    api: Api,
    endpoint: EndpointId,
}

/// Lets the endpoint answer, and counts.
pub(super) async fn measure(worker: &Rc<Worker>, order: &Order, name: &str) -> Result<Written, String> {
    let snapshot = worker.gateway.snapshot_full();
    let (route, api) = way(&snapshot, &order.pool)?;
    let upstream = snapshot.upstream_named(&order.pool, name);
    let asked = Rc::new(Asked {
        worker: worker.clone(),
        route,
        api,
        endpoint: upstream.ok_or("it has been removed")?.id,
    });
    let deadline = Instant::now() + order.rate.timeout;
    let late = || format!("no answer within {}", show_duration(order.rate.timeout));
    let warm = Rc::new(Cell::new(0));
    timeout_at(
        deadline,
        ask(asked.clone(), WARM_UP_TOKENS.min(order.rate.tokens), warm),
    )
    .await
    .map_err(|_| late())??;
    let began = Instant::now();
    let deadline = began + order.rate.timeout;
    let mut counts = Vec::new();
    let mut running = JoinSet::new();
    for _ in 0..order.rate.requests {
        let count = Rc::new(Cell::new(0));
        counts.push(count.clone());
        running.spawn_local(ask(asked.clone(), order.rate.tokens, count));
    }
    // What has come by then is a measure as well; the rest is cancelled.
    while let Ok(Some(ended)) = timeout_at(deadline, running.join_next()).await {
        ended.map_err(|_| "the measurement broke off".to_owned())??;
    }
    let tokens: u64 = counts.iter().map(|count| count.get()).sum();
    let seconds = began.elapsed().as_secs_f64();
    if tokens == 0 {
        return Err(if Instant::now() >= deadline {
            late()
        } else {
            "its answers hold no tokens: is it a model that writes text?".to_owned()
        });
    }
    Ok(Written { tokens, seconds })
}

/// Sends one request and reads its answer; `count` holds the tokens that have come so far.
async fn ask(asked: Rc<Asked>, tokens: u32, count: Rc<Cell<u64>>) -> Result<(), String> {
    let client = Rc::new(Client {
        peer: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        exchange: Exchange::default(),
        way: Way::Own,
    });
    let request = request(&asked, tokens);
    let flight = Flight::begin(&asked.worker, &client, request.headers());
    let only = Only {
        endpoint: asked.endpoint,
        key: None,
    };
    let answer = match intake::own(flight, (asked.api, only), request) {
        Ok((flight, intake)) => Box::pin(run::run(flight, intake)).await,
        Err(refused) => respond::refused(refused),
    };
    read(answer, asked.api, &count).await
}

fn request(asked: &Asked, tokens: u32) -> Request<Bytes> {
    let mut body = json!({
        "model": &*asked.route.name,
        "messages": [{"role": "user", "content": PROMPT}],
        "max_tokens": tokens,
        "stream": true,
    });
    if asked.api == Api::ChatCompletions {
        body["stream_options"] = json!({"include_usage": true});
        body["temperature"] = json!(0);
    }
    let mut request = Request::new(Bytes::from(body.to_string()));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(match asked.api {
        Api::Messages => "/v1/messages",
        _ => "/v1/chat/completions",
    });
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if asked.api == Api::Messages {
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
    }
    request
}

/// Reads an answer to its end, or says what its error is.
async fn read(answer: Response<AnswerBody>, api: Api, count: &Cell<u64>) -> Result<(), String> {
    let (head, mut body) = answer.into_parts();
    let mut observer = StreamObserver::new(api);
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| "its answer broke off".to_owned())?;
        let Ok(data) = frame.into_data() else { continue };
        if head.status.is_success() {
            observer.feed(&data);
            count.set(observer.content_events());
        } else {
            whole.extend_from_slice(&data);
        }
    }
    if !head.status.is_success() {
        return Err(error_of(head.status, &whole));
    }
    observer.finish();
    if let Some(error) = observer.error() {
        return Err(format!("its answer ended with an error: {}", error.message));
    }
    if let Some(usage) = observer.usage().filter(|usage| usage.completion_tokens > 0) {
        count.set(usage.completion_tokens);
    }
    Ok(())
}

/// An error for a person.
fn error_of(status: http::StatusCode, body: &[u8]) -> String {
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    match told["error"]["message"].as_str() {
        Some(message) => format!("status {}: {message}", status.as_u16()),
        None => format!("status {}", status.as_u16()),
    }
}
