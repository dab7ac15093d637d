//! `/api/status`.

use super::health::phase;
use crate::answer::{Answer, Result};
use crate::table::Call;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use weighbridge_config::Problem;
use weighbridge_core::Time;
use weighbridge_gateway::clock::rfc3339;
use weighbridge_gateway::reload::LastReload;

/// The gateway as a whole.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Status {
    version: &'static str,
    pid: u32,
    /// RFC 3339.
    started: String,
    uptime_seconds: f64,
    /// `ready` or `draining`.
    phase: &'static str,
    /// Where clients connect, as the config says.
    listen: String,
    /// Where this API is.
    admin: String,
    /// None: started without a file.
    config_file: Option<String>,
    /// Counts up with every config that is taken, from 0.
    generation: u64,
    /// None: there was none since the start.
    last_reload: Option<ReloadShown>,
    routes: usize,
    pools: usize,
    endpoints: EndpointCounts,
    /// Client connections that are open.
    connections: usize,
    /// Requests between their first and last byte.
    running_requests: usize,
}

/// How many endpoints there are.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EndpointCounts {
    total: usize,
    /// Only states that some endpoint is in.
    by_state: BTreeMap<&'static str, usize>,
}

/// How the newest reload went.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ReloadShown {
    /// RFC 3339.
    time: String,
    ok: bool,
    /// What changed, one line each.
    changes: Vec<String>,
    /// Why the config was refused.
    error: Option<String>,
    /// The same, problem by problem.
    #[schemars(with = "Vec<serde_json::Value>")]
    problems: Vec<Problem>,
}

impl From<LastReload> for ReloadShown {
    fn from(last: LastReload) -> Self {
        let time = rfc3339(last.time);
        match last.result {
            Ok(changes) => Self {
                time,
                ok: true,
                changes,
                error: None,
                problems: Vec::new(),
            },
            Err(refused) => Self {
                time,
                ok: false,
                changes: Vec::new(),
                error: Some(refused.message),
                problems: refused.problems,
            },
        }
    }
}

pub(crate) fn status(call: &Call<'_>) -> Result<Answer> {
    let served = call.served;
    let gateway = &served.admin.gateway;
    let reloader = served.admin.reloader.as_ref();
    let snapshot = gateway.snapshot();
    let view = gateway.view();
    let mut by_state = BTreeMap::new();
    let endpoints = view.endpoints.iter().filter(|endpoint| !endpoint.removed);
    for endpoint in endpoints.clone() {
        *by_state.entry(endpoint.state.kind.as_str()).or_default() += 1;
    }
    Answer::json(&Status {
        version: env!("CARGO_PKG_VERSION"),
        pid: std::process::id(),
        started: rfc3339(gateway.clock().wall(Time::ZERO)),
        uptime_seconds: gateway.clock().uptime().as_secs_f64(),
        phase: phase(call),
        listen: snapshot.config.server.listen.to_string(),
        admin: served.listen.to_string(),
        config_file: reloader.map(|reloader| reloader.path().display().to_string()),
        generation: snapshot.generation,
        last_reload: reloader.and_then(|reloader| reloader.last()).map(Into::into),
        routes: snapshot.config.routes.len(),
        pools: snapshot.config.pools.len(),
        endpoints: EndpointCounts {
            total: endpoints.count(),
            by_state,
        },
        connections: gateway.connections(),
        running_requests: gateway.lifecycle.running(),
    })
}
