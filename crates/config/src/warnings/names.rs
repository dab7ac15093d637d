//! Names of models under which engines are asked.

use crate::read::Reader;
use crate::resolve::Resolved;
use weighbridge_core::spec::RouteSpec;

/// Most routes that are named in one warning.
const ROUTES_MAX: usize = 3;
/// Most pools that are warned of one by one.
const POOLS_MAX: usize = 5;

/// Warns of pools without a `model` that routes of other names send to: their engines are asked for the route's name, which they
/// refuse unless they serve a model of that name. Adapters are asked for by names of their own.
pub(crate) fn upstream_names(reader: &mut Reader<'_>, routes: &[RouteSpec], pools: &[Resolved]) {
    let mut others: Vec<Vec<&str>> = vec![Vec::new(); pools.len()];
    for route in routes
        .iter()
        .filter(|route| route.policies.lora_affinity.is_none())
    {
        for target in &route.targets {
            if let (Some(others), Some(pool)) = (others.get_mut(target.pool), pools.get(target.pool))
                && route.name != pool.spec.name
                && !others.contains(&&*route.name)
            {
                others.push(&route.name);
            }
        }
    }
    let asks = |pool: &Resolved| pool.pool.model.is_none() && pool.pool.kind.asks_for_its_model();
    let unsure: Vec<(&Resolved, Vec<&str>)> = (pools.iter().zip(others))
        .filter(|(pool, others)| asks(pool) && !others.is_empty())
        .collect();
    for (pool, others) in unsure.iter().take(POOLS_MAX) {
        warn(reader, pool, others);
    }
    if let Some((pool, _)) = unsure.get(POOLS_MAX) {
        let more = unsure.len() - POOLS_MAX;
        reader.warn(
            pool.node,
            format!(
                "engines of this pool, and of {} more, are asked for the names of routes as well",
                more - 1
            ),
            "add `model: …` to these pools, too",
        );
    }
}

fn warn(reader: &mut Reader<'_>, pool: &Resolved, routes: &[&str]) {
    let named: Vec<String> = (routes.iter().take(ROUTES_MAX))
        .map(|route| format!("`{route}`"))
        .collect();
    let more = match routes.len().saturating_sub(ROUTES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let called = match routes.len() {
        1 => "the route is",
        _ => "the routes are",
    };
    reader.warn(
        pool.node,
        format!(
            "engines of the pool `{}` are asked for the model {}{more}, as {called} called, and refuse what they do not serve under that name",
            pool.spec.name,
            named.join(", ")
        ),
        "add `model: …` to the pool with the name that its engines serve, also where it is this one; `GET /v1/models` of an engine tells it",
    );
}
