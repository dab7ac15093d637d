//! What was set on endpoints that are gone, for when they come back: sources of endpoints lose sight of an engine while it
//! restarts, and whoever drained it for that does not expect it to serve before they say so.

use crate::endpoint::{Endpoint, SetWeight, in_force};
use crate::time::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long it is kept. Restarts and upgrades take less; an address that somebody else has got by then is nobody's that was
/// drained.
const KEPT: Duration = Duration::from_secs(3600);
/// Most endpoints that are remembered: as many as a source may name.
const KEPT_MAX: usize = 1024;

/// Pool, name and address of an endpoint: what makes it the same one.
pub(super) type Identity = (Arc<str>, Arc<str>, Arc<str>);

/// The identity of an endpoint.
pub(super) fn identity(endpoint: &Endpoint) -> Identity {
    let Endpoint {
        pool, name, address, ..
    } = endpoint;
    (Arc::clone(&pool.name), Arc::clone(name), Arc::clone(address))
}

/// What commands have set.
#[derive(Clone, Copy, Debug)]
struct Set {
    /// When the endpoint was gone.
    since: Time,
    drained: bool,
    weight: Option<SetWeight>,
    calibrated: Option<SetWeight>,
}

/// Of endpoints that are gone.
#[derive(Debug, Default)]
pub(super) struct ByHand(BTreeMap<Identity, Set>);

impl ByHand {
    /// Keeps what is set on an endpoint that is gone for good.
    pub(super) fn keep(&mut self, endpoint: &Endpoint, now: Time) {
        let set = Set {
            since: now,
            drained: endpoint.drained,
            weight: in_force(endpoint.weight_override, now),
            calibrated: in_force(endpoint.calibrated, now),
        };
        if !set.drained && set.weight.is_none() && set.calibrated.is_none() {
            return;
        }
        self.0.retain(|_, other| now.since(other.since) < KEPT);
        if self.0.len() >= KEPT_MAX {
            let oldest = (self.0.iter()).min_by_key(|(_, set)| set.since);
            if let Some(oldest) = oldest.map(|(identity, _)| identity.clone()) {
                self.0.remove(&oldest);
            }
        }
        self.0.insert(identity(endpoint), set);
    }

    /// Sets it again on one that is back.
    pub(super) fn give_back(&mut self, endpoint: &mut Endpoint, now: Time) {
        if self.0.is_empty() {
            return;
        }
        let set = self.0.remove(&identity(endpoint));
        if let Some(set) = set.filter(|set| now.since(set.since) < KEPT) {
            endpoint.drained = set.drained;
            endpoint.weight_override = set.weight;
            endpoint.calibrated = set.calibrated;
        }
    }
}
