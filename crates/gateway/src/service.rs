//! Routes that nobody serves, told to whoever brought it about.

use crate::gateway::Gateway;
use weighbridge_core::view::StateKind;

/// What to say of routes none of whose endpoints is in service now: of all, or of those that use this pool.
///
/// An endpoint that is full serves, and one that is cooling soon does again; one that is drained does not return by
/// itself.
#[must_use]
pub fn unserved(gateway: &Gateway, pool: Option<&str>) -> Vec<String> {
    let snapshot = gateway.snapshot();
    let view = gateway.view();
    let serves = |name: &str| {
        view.endpoints.iter().any(|endpoint| {
            let kind = endpoint.state.kind;
            let able = matches!(kind, StateKind::Live | StateKind::Full | StateKind::Cooling);
            able && !endpoint.removed && &*endpoint.pool == name
        })
    };
    let mut told = Vec::new();
    for route in &snapshot.config.routes {
        let pools = || {
            let pools = &snapshot.config.pools;
            route
                .targets
                .iter()
                .filter_map(|(_, pool)| Some(&*pools.get(*pool)?.name))
        };
        if pool.is_none_or(|pool| pools().any(|name| name == pool)) && !pools().any(serves) {
            told.push(format!(
                "the route `{}` has no endpoint in service any more: until one is back, its requests are refused or fall back",
                route.name
            ));
        }
    }
    told
}
