//! What is allowed and will surprise.

mod events;
mod facts;
mod labels;
mod names;

use crate::model::routes::RetryOn;
use crate::read::{At, Reader};
use crate::resolve::Resolved;
use crate::resolved::{ClientKey, Kind};
use crate::yaml::NodeId;
pub(crate) use events::events;
pub(crate) use facts::{unread_weights, weights, zones};
pub(crate) use names::upstream_names;
use std::collections::{BTreeSet, HashMap};
use weighbridge_core::policies::ScorerConfig;
use weighbridge_core::spec::{FallbackOn, Protocols, RouteSpec, Weight};

/// Warnings about one route that the user wrote.
pub(crate) fn route(reader: &mut Reader<'_>, node: NodeId, spec: &RouteSpec, pools: &[Resolved]) {
    orders(reader, node, spec);
    affinity(reader, node, spec, pools);
    facts::route(reader, node, spec, pools);
    labels::route(reader, node, spec, pools);
}

fn orders(reader: &mut Reader<'_>, node: NodeId, spec: &RouteSpec) {
    let orders: BTreeSet<u16> = spec.targets.iter().map(|target| target.order).collect();
    if orders.first().is_some_and(|first| *first > 1) {
        let place = reader.child(node, "targets").unwrap_or(node);
        let message = format!(
            "no target of the route `{}` has order 1, so its first order serves all along",
            spec.name
        );
        reader.warn(
            place,
            message,
            "give the targets that serve first `order: 1`, or leave it out there",
        );
    }
}

/// Warns where the sessions of a route stay on their endpoint however busy it is. Of policies that see load the reckoning knows
/// least in-flight alone; of the others it says nothing.
///
/// With affinity and least in-flight alone, the owner's lead is 0.5 / (2 (1 − 2^−N)) of affinity's weight and the gap
/// that load can make is below 1 / (N − 1) of the other's, so no load moves a session if the ratio of the weights is
/// at most lead · (N − 1).
fn affinity(reader: &mut Reader<'_>, node: NodeId, spec: &RouteSpec, pools: &[Resolved]) {
    let Some(affinity) = &spec.policies.session_affinity else {
        return;
    };
    let count = first_candidates(spec, pools);
    if affinity.bound.is_some() || count < 2 || affinity.weight <= 0.0 {
        return;
    }
    let place = reader.child(node, "policies").unwrap_or(node);
    let Some(load) = &spec.policies.least_inflight else {
        if facts::sees_load(&spec.policies) {
            return;
        }
        reader.warn(
            place,
            format!(
                "sessions of the route `{}` stay on their endpoint however busy it is",
                spec.name
            ),
            "add `least_inflight: {}`, or a `bound` such as 1.25 to `session_affinity`",
        );
        return;
    };
    let bound = lead(count) * (f64::from(count) - 1.0);
    let ratio = load.weight() / affinity.weight;
    if ratio > bound {
        return;
    }
    // Halves read well, and the next one above the bound moves sessions at a modest load.
    let mends = ((bound * 2.0).floor() + 1.0) / 2.0;
    let message = format!(
        "with {count} endpoints and weights {} : {} (least_inflight : session_affinity) no load moves a session of the route `{}`",
        load.weight(),
        affinity.weight,
        spec.name
    );
    let hint = format!(
        "a weight of {} for `least_inflight` moves it when its endpoint has {} requests more than idle ones; or set `bound`",
        mends * affinity.weight,
        moves_at(count, mends)
    );
    reader.warn(place, message, hint);
}

/// How far the owner of a session is ahead of the next endpoint by affinity alone, of `count`.
fn lead(count: u32) -> f64 {
    0.5 / (2.0 * (1.0 - 0.5_f64.powi(i32::try_from(count).unwrap_or(i32::MAX))))
}

/// The smallest number of requests in flight at the owner, the others idle, at which a session moves.
fn moves_at(count: u32, ratio: f64) -> u32 {
    let moves = |x: &u32| {
        let x = f64::from(*x);
        ratio * x / ((1.0 + x) * (f64::from(count) - 1.0) + 1.0) > lead(count) + 1e-12
    };
    (1..100_000).find(moves).unwrap_or(u32::MAX)
}

/// Endpoints that serve a route while all is well: those with a weight, of the first order.
fn first_candidates(spec: &RouteSpec, pools: &[Resolved]) -> u32 {
    let first = spec.targets.iter().map(|target| target.order).min();
    let targets = spec.targets.iter().filter(|target| Some(target.order) == first);
    let endpoints = targets
        .filter_map(|target| pools.get(target.pool))
        .flat_map(|pool| &pool.spec.endpoints);
    u32::try_from(
        endpoints
            .filter(|endpoint| endpoint.weight > Weight::ZERO)
            .count(),
    )
    .unwrap_or(u32::MAX)
}

/// Warns of a pool that no route names and whose own name is taken by a route over other pools.
pub(crate) fn hidden_pool(reader: &mut Reader<'_>, pool: &Resolved) {
    let name = &pool.spec.name;
    reader.warn(
        pool.node,
        format!("no request reaches the pool `{name}`: the route `{name}` does not name it as a target, and no other does"),
        "name it as a target, or give the route or the pool another name",
    );
}

/// Warns of fallbacks and pools that never serve. `places` are the nodes of the routes that the user wrote, which come
/// first in `routes`.
pub(crate) fn reach(reader: &mut Reader<'_>, routes: &[RouteSpec], places: &[NodeId], pools: &[Resolved]) {
    let by_name: HashMap<&str, &RouteSpec> = routes.iter().map(|route| (&*route.name, route)).collect();
    for (spec, node) in routes.iter().zip(places) {
        let own: BTreeSet<usize> = spec.targets.iter().map(|target| target.pool).collect();
        let steps = reader
            .child(*node, "fallback")
            .map(|list| reader.children(list))
            .unwrap_or_default();
        for (step, place) in spec.fallback.iter().zip(steps) {
            let Some(other) = by_name.get(&*step.route) else {
                continue;
            };
            let before_any = FallbackOn::UNAVAILABLE.and(FallbackOn::RATE_LIMIT);
            if spec.retry.max_attempts == 1 && !step.on.meets(before_any) {
                let message = format!(
                    "the fallback to `{}` is never taken: it follows an attempt, and the route `{}` makes no more than one",
                    step.route, spec.name
                );
                reader.warn(
                    place,
                    message,
                    "fallbacks are attempts: give `retry` a `max_attempts` of 2 or more",
                );
            }
            if other.targets.iter().all(|target| own.contains(&target.pool)) {
                let message = format!(
                    "the fallback to `{}` leads to the same pools as the route `{}` itself",
                    step.route, spec.name
                );
                reader.warn(
                    place,
                    message,
                    "retries already try all endpoints of those pools; name a route over other pools",
                );
            }
        }
    }
    let mut named = vec![(false, false); pools.len()];
    for target in routes.iter().flat_map(|route| &route.targets) {
        if let Some((named, served)) = named.get_mut(target.pool) {
            *named = true;
            *served |= target.weight != Some(Weight::ZERO);
        }
    }
    for (pool, (named, served)) in pools.iter().zip(named) {
        let name = &pool.spec.name;
        if named && !served {
            let message =
                format!("no request reaches the pool `{name}`: every target that names it has weight 0");
            reader.warn(
                pool.node,
                message,
                "give one of them a weight, or remove the pool",
            );
        }
        if pool.spec.protocols == Protocols::NONE {
            let message =
                format!("no request reaches the pool `{name}`: its API is neither OpenAI's nor Anthropic's");
            reader.warn(pool.node, message, "it serves once requests can be translated");
        }
    }
}

/// Warns of providers in the cloud to which requests go without a key.
pub(crate) fn providers(reader: &mut Reader<'_>, pools: &[Resolved]) {
    for Resolved { node, pool, .. } in pools {
        let provider = matches!(pool.kind, Kind::OpenAi | Kind::Anthropic | Kind::Azure);
        let cloud = pool.endpoints.iter().any(|endpoint| endpoint.url.https);
        if provider && cloud && pool.api_keys.is_empty() && !pool.forward_client_key {
            reader.warn(
                *node,
                format!("requests go to the provider `{}` without a key", pool.name),
                "add `api_key: ${NAME}`, or `forward_client_key: true` where clients bring their own",
            );
        }
    }
}

/// Warns of pools that follow the same source: requests in flight are counted per pool.
pub(crate) fn same_source(reader: &mut Reader<'_>, pools: &[Resolved]) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for Resolved { node, pool, .. } in pools {
        let Some(discovery) = &pool.discovery else {
            continue;
        };
        if let Some(first) = seen.insert(discovery.shown(), &pool.name) {
            let place = reader.child(*node, "discovery").unwrap_or(*node);
            reader.warn(
                place,
                format!("the pool `{first}` follows the same source, and neither sees the other's requests in flight"),
                "name one pool in several routes, or keep it if the engines tell the models apart",
            );
        }
    }
}

/// Warns of retries after which a request may have been done twice, or that cannot help.
pub(crate) fn retry(reader: &mut Reader<'_>, on: &At<Vec<At<RetryOn>>>) {
    for At { node, value } in &on.value {
        match value {
            RetryOn::Timeout | RetryOn::Reset | RetryOn::Status(500 | 502 | 504) => {
                let word = reader.written(*node);
                reader.warn(
                    *node,
                    format!("after `{word}` the engine may have done the request, so a retry may do it, and bill it, twice"),
                    "keep it if that is acceptable",
                );
            }
            RetryOn::Status(400 | 404 | 413 | 422) => {
                let word = reader.written(*node);
                reader.warn(
                    *node,
                    format!("{word} is the client's mistake, which another endpoint will see as well"),
                    "keep it if endpoints differ",
                );
            }
            _ => {}
        }
    }
}

/// Warns of keys that name routes which do not exist, or that have ended.
pub(crate) fn keys(reader: &mut Reader<'_>, keys: &[At<ClientKey>], routes: &[RouteSpec], now: i64) {
    for At { node, value: key } in keys {
        if key.expires.is_some_and(|expires| expires <= now) {
            let place = reader.child(*node, "expires").unwrap_or(*node);
            reader.warn(
                place,
                format!("the key `{}` has expired and opens nothing", key.name),
                "remove it, or give it a later date",
            );
        }
        let places = reader
            .child(*node, "models")
            .map(|list| reader.children(list))
            .unwrap_or_default();
        for (model, place) in key.models.iter().flatten().zip(places) {
            let matches = |name: &str| {
                model
                    .strip_suffix('*')
                    .map_or(name == &**model, |start| name.starts_with(start))
            };
            if !routes.iter().any(|route| matches(&route.name)) {
                reader.warn(
                    place,
                    format!("no route is named `{model}`"),
                    "name a route as it is written under `routes` or `pools`",
                );
            }
        }
    }
}

/// Warns of text in which `${` is left: somebody else was meant to replace it.
pub(crate) fn literal_variables(reader: &mut Reader<'_>) {
    for node in reader.tree.all() {
        let crate::yaml::Value::Scalar { text, .. } = reader.tree.value(node) else {
            continue;
        };
        if text.contains("$${") {
            reader.warn(
                node,
                "`${` stays in this value literally, because the dollar is doubled",
                "write `${NAME}` to have the variable replaced",
            );
        }
    }
}
