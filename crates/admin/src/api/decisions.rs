//! `/api/decisions`.

use super::routes::no_such_route;
use crate::answer::{Answer, Failure, Result};
use crate::table::Call;
use schemars::JsonSchema;
use serde::Serialize;
use weighbridge_gateway::admin_view::{DecisionShown, taken};

/// Decisions told where no `limit` is given.
const LIMIT: usize = 50;
/// Most that may be asked for.
const LIMIT_MAX: usize = 1000;

/// The latest decisions.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Latest {
    /// Newest first.
    decisions: Vec<DecisionShown>,
}

pub(crate) fn latest(call: &Call<'_>) -> Result<Answer> {
    let limit = match call.parameter("limit") {
        None => LIMIT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=LIMIT_MAX).contains(limit))
            .ok_or_else(|| Failure::bad(format!("limit must be a whole number from 1 to {LIMIT_MAX}")))?,
    };
    let gateway = &call.served.admin.gateway;
    let snapshot = gateway.snapshot();
    let names = || snapshot.config.routes.iter().map(|route| &*route.name);
    let wanted = call.parameter("route");
    if let Some(wanted) = wanted
        && snapshot.route(wanted).is_none()
    {
        return Err(no_such_route(wanted, names()));
    }
    let mut found = Vec::new();
    for name in names().filter(|name| wanted.is_none_or(|wanted| wanted == *name)) {
        if let Some(route) = snapshot.route(name) {
            let latest = gateway.decisions().latest(name, limit);
            found.extend(latest.into_iter().map(|decision| (route, decision)));
        }
    }
    // Stable: decisions of one instant keep the order of their route.
    found.sort_by_key(|(_, decision)| std::cmp::Reverse(decision.time));
    found.truncate(limit);
    let decisions = found
        .iter()
        .map(|(route, decision)| taken(&snapshot, route, decision))
        .collect();
    Answer::json(&Latest { decisions })
}
