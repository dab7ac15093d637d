//! Active health probes, sent when the scheduler asks. They never run inference.

use crate::driver;
use crate::gateway::{Gateway, ProbeQueue};
use crate::snapshot::Upstream;
use crate::upstream::alert;
use crate::upstream::connect::connect_once;
use crate::upstream::link::RequestBody;
use bytes::Bytes;
use http::header::{HOST, USER_AGENT};
use http::{HeaderValue, Method, Request};
use secrecy::ExposeSecret;
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};
use weighbridge_config::resolved::{Health, Probe};
use weighbridge_core::Event;

/// Sends probes for ever, each on its own.
pub(crate) async fn run(gateway: Arc<Gateway>, mut queue: ProbeQueue) {
    while let Some(endpoint) = queue.recv().await {
        let gateway = gateway.clone();
        tokio::task::spawn_local(async move {
            let upstream = gateway.snapshot().upstream(endpoint).cloned();
            let healthy = match &upstream {
                Some(upstream) => probe(upstream).await,
                None => false,
            };
            if let (Some(upstream), false) = (&upstream, healthy) {
                // An engine may be too busy with its streams to answer a probe in time.
                driver::report(&gateway, upstream);
            }
            gateway.tell(Event::Probed { endpoint, healthy });
        });
    }
}

async fn probe(upstream: &Upstream) -> bool {
    let Some(Health { probe, timeout }) = &upstream.pool.config.health else {
        return true;
    };
    let deadline = Instant::now() + *timeout;
    let answered = match probe {
        Probe::Tcp => timeout_at(deadline, reach(upstream)).await,
        Probe::Http { path, expect } => timeout_at(deadline, ask(upstream, (path, expect, deadline))).await,
    };
    match answered {
        Ok(Ok(())) => true,
        Ok(Err(why)) => {
            tracing::debug!(pool = %upstream.pool_name(), endpoint = %upstream.name, %why, "probe failed");
            false
        }
        Err(_) => {
            tracing::debug!(pool = %upstream.pool_name(), endpoint = %upstream.name, "probe timed out");
            false
        }
    }
}

async fn reach(upstream: &Upstream) -> Result<(), String> {
    let reached = upstream.addresses.connect().await;
    if let (Err(_), Some(bell)) = (&reached, &upstream.pool.bell) {
        bell.notify_one();
    }
    reached.map(drop).map_err(|error| error.to_string())
}

async fn ask(upstream: &Upstream, (path, expect, deadline): (&str, &[u16], Instant)) -> Result<(), String> {
    let mut link = connect_once(upstream, deadline)
        .await
        .map_err(|error| format!("{error:?}"))?;
    let prefix = &upstream.url.prefix;
    let uri = match &upstream.url.query {
        Some(query) => format!("{prefix}{path}?{}", query.expose_secret()),
        None => format!("{prefix}{path}"),
    };
    let mut request = Request::new(RequestBody::Whole(Bytes::new()));
    *request.method_mut() = Method::GET;
    *request.uri_mut() = uri
        .try_into()
        .map_err(|_| "the probe's path makes no valid URI".to_owned())?;
    request.headers_mut().insert(HOST, upstream.host.clone());
    request
        .headers_mut()
        .insert(USER_AGENT, HeaderValue::from_static("weighbridge-probe"));
    if let Some((name, value)) = upstream.pool.credentials.first() {
        request.headers_mut().insert(name, value.clone());
    }
    let response = link.send(request).await.map_err(|failure| match failure.alert {
        Some(alert) => alert::text(alert, upstream.shows_certificate()),
        None => failure.error.to_string(),
    })?;
    let status = response.status();
    let healthy = if expect.is_empty() {
        status.is_success()
    } else {
        expect.contains(&status.as_u16())
    };
    if healthy {
        Ok(())
    } else {
        Err(format!("status {}", status.as_u16()))
    }
}
