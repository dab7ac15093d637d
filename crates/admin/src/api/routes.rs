//! `/api/routes`.

use crate::answer::{Answer, Failure, Result};
use crate::names;
use crate::table::Call;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;
use weighbridge_config::masked;
use weighbridge_config::resolved::Chosen;
use weighbridge_core::presets::Preset;
use weighbridge_core::view::{FleetView, RouteView, StateKind};
use weighbridge_gateway::snapshot::Snapshot;

/// All routes.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Routes {
    routes: Vec<RouteShown>,
}

/// One route.
#[derive(Serialize, JsonSchema)]
pub(crate) struct RouteShown {
    name: String,
    /// Made from a pool that no route names.
    implied: bool,
    /// `round_robin`, `weight` or `policy`.
    route_by: &'static str,
    /// The preset that `policies` are, such as `auto`; null: they are the route's own, or it has none.
    preset: Option<&'static str>,
    /// Whether that preset is what routes get that do not say how they choose.
    preset_implied: bool,
    targets: Vec<TargetShown>,
    /// The weighted sum: each policy's weight and settings, as in the config; null where none is set.
    policies: Value,
    picker: Value,
    /// Null unless targets have weights.
    spill: Value,
    retry: Value,
    fallback: Value,
    retry_budget: BudgetUse,
    /// Requests now between arrival and end.
    requests: u32,
}

/// One choice of a route.
#[derive(Serialize, JsonSchema)]
pub(crate) struct TargetShown {
    name: String,
    pool: String,
    /// Null where the route does not go by weights.
    weight: Option<f64>,
    order: u16,
    endpoints: usize,
    /// Endpoints in the state `live`.
    live: usize,
}

/// Retries within the budget's window.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BudgetUse {
    used: u64,
    allowed: u64,
}

pub(crate) fn all(call: &Call<'_>) -> Result<Answer> {
    Answer::json(&Routes { routes: shown(call) })
}

pub(crate) fn one(call: &Call<'_>) -> Result<Answer> {
    let wanted = names::decode(call.rest).ok_or_else(|| Failure::bad("the route's name is not UTF-8"))?;
    let mut routes = shown(call);
    match routes.iter().position(|route| route.name == wanted) {
        Some(at) => Answer::json(&routes.swap_remove(at)),
        None => Err(no_such_route(
            &wanted,
            routes.iter().map(|route| route.name.as_str()),
        )),
    }
}

/// 404 with the nearest name.
pub(crate) fn no_such_route<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Failure {
    let hint = names::hint(wanted, known);
    Failure::unknown(format!("there is no route `{}`{hint}", names::shorten(wanted)))
}

fn shown(call: &Call<'_>) -> Vec<RouteShown> {
    let gateway = &call.served.admin.gateway;
    let snapshot = gateway.snapshot();
    let view = gateway.view();
    // The file's own words for what is set, with every default filled in.
    let mut config = masked(&snapshot.config);
    let settings = config["routes"].as_array_mut().map(std::mem::take);
    let settings = settings.unwrap_or_default();
    (0..snapshot.config.routes.len())
        .zip(settings)
        .map(|(index, settings)| route_shown(&snapshot, &view, (index, settings)))
        .collect()
}

fn route_shown(
    snapshot: &Arc<Snapshot>,
    view: &FleetView,
    (index, mut settings): (usize, Value),
) -> RouteShown {
    let config = &snapshot.config;
    let (route, spec) = (&config.routes[index], &config.fleet.routes[index]);
    let state: Option<&RouteView> = view.routes.iter().find(|state| state.name == route.name);
    let (used, allowed) = state.map(|state| state.retries).unwrap_or_default();
    let targets = spec.targets.iter().map(|target| {
        let pool = config.pools.get(target.pool).map(|pool| &pool.name);
        let endpoints = || {
            view.endpoints
                .iter()
                .filter(|endpoint| !endpoint.removed && Some(&endpoint.pool) == pool)
        };
        TargetShown {
            name: target.name.to_string(),
            pool: pool.map(ToString::to_string).unwrap_or_default(),
            weight: target.weight.map(|weight| weight.as_f64()),
            order: target.order,
            endpoints: endpoints().count(),
            live: endpoints()
                .filter(|endpoint| endpoint.state.kind == StateKind::Live)
                .count(),
        }
    });
    let targets = targets.collect();
    let mut take = |key: &str| settings.get_mut(key).map(Value::take).unwrap_or_default();
    RouteShown {
        name: route.name.to_string(),
        implied: route.implied,
        route_by: spec.route_by().as_str(),
        preset: route.chosen.preset().map(Preset::as_str),
        preset_implied: route.chosen == Chosen::Implied,
        targets,
        policies: take("policies"),
        picker: take("picker"),
        spill: take("spill"),
        retry: take("retry"),
        fallback: take("fallback"),
        retry_budget: BudgetUse { used, allowed },
        requests: state.map_or(0, |state| state.requests),
    }
}
