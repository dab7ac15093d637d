//! Routes that nobody serves, told to whoever brought it about.

use crate::gateway::Gateway;
use std::collections::HashMap;
use std::sync::Arc;
use weighbridge_core::view::StateKind;

/// Which routes had an endpoint in service at some moment.
pub struct Service(HashMap<Arc<str>, bool>);

impl Service {
    /// As it is now.
    ///
    /// An endpoint that is full serves, and one that is cooling soon does again; one that is drained does not return by
    /// itself.
    #[must_use]
    pub fn of(gateway: &Gateway) -> Self {
        let snapshot = gateway.snapshot();
        let view = gateway.view();
        let serves = |name: &str| {
            view.endpoints.iter().any(|endpoint| {
                let kind = endpoint.state.kind;
                let able = matches!(kind, StateKind::Live | StateKind::Full | StateKind::Cooling);
                able && !endpoint.removed && &*endpoint.pool == name
            })
        };
        let pools = &snapshot.config.pools;
        let routes = snapshot.config.routes.iter().map(|route| {
            let mut targets = route.targets.iter().filter_map(|(_, pool)| pools.get(*pool));
            (route.name.clone(), targets.any(|pool| serves(&pool.name)))
        });
        Self(routes.collect())
    }

    /// What to say of routes that have no endpoint in service now, and had one at this moment or were not there. Those
    /// that had none already are not told again.
    #[must_use]
    pub fn lost(&self, gateway: &Gateway) -> Vec<String> {
        let now = Self::of(gateway);
        let mut told: Vec<_> = now
            .0
            .iter()
            .filter(|(_, served)| !**served)
            .filter_map(|(route, _)| match self.0.get(route) {
                Some(false) => None,
                Some(true) => Some((route, " any more")),
                None => Some((route, "")),
            })
            .map(|(route, more)| {
                format!(
                    "the route `{route}` has no endpoint in service{more}: until one is there, its requests are refused or fall back"
                )
            })
            .collect();
        told.sort_unstable();
        told
    }
}
