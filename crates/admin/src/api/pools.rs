//! `/api/pools`.

use crate::answer::{Answer, Result};
use crate::table::Call;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use weighbridge_config::masked;
use weighbridge_gateway::admin_view::{EndpointShown, endpoints};
use weighbridge_gateway::discovery::SourceShown;

/// All pools.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Pools {
    pools: Vec<PoolShown>,
}

/// One pool.
#[derive(Serialize, JsonSchema)]
pub(crate) struct PoolShown {
    name: String,
    kind: &'static str,
    /// Name sent upstream; null: the client's.
    model: Option<String>,
    description: Option<String>,
    /// Routes that have it as a target.
    routes: Vec<String>,
    /// Everything else that the config can set, with all defaults; secrets are masked.
    settings: Value,
    /// Who says what the endpoints are, and how that goes; null: the config.
    discovery: Option<SourceShown>,
    endpoints: Vec<EndpointShown>,
}

/// What stands beside the settings.
const BESIDE: [&str; 5] = ["name", "kind", "model", "description", "endpoints"];

pub(crate) fn all(call: &Call<'_>) -> Result<Answer> {
    let gateway = &call.served.admin.gateway;
    let snapshot = gateway.snapshot();
    let config = &snapshot.config;
    let mut shown = masked(config);
    let settings = shown["pools"].as_array_mut().map(std::mem::take);
    let mut endpoints = endpoints(gateway, &snapshot, &gateway.view());
    let mut sources = gateway.sources();
    let pools = config
        .pools
        .iter()
        .zip(settings.unwrap_or_default())
        .enumerate()
        .map(|(index, (pool, mut settings))| {
            if let Some(settings) = settings.as_object_mut() {
                settings.retain(|key, _| !BESIDE.contains(&key.as_str()));
            }
            let specs = config.fleet.routes.iter();
            PoolShown {
                name: pool.name.to_string(),
                kind: pool.kind.as_str(),
                model: pool.model.as_ref().map(ToString::to_string),
                description: pool.description.clone(),
                routes: specs
                    .filter(|route| route.targets.iter().any(|target| target.pool == index))
                    .map(|route| route.name.to_string())
                    .collect(),
                settings,
                discovery: sources.remove(&pool.name),
                endpoints: endpoints
                    .extract_if(.., |endpoint| *endpoint.pool == *pool.name)
                    .collect(),
            }
        });
    Answer::json(&Pools {
        pools: pools.collect(),
    })
}
