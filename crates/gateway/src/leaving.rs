//! Endpoints that have been taken out and still have requests.

use crate::gateway::Gateway;
use crate::snapshot::{Snapshot, Upstream};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use weighbridge_core::EndpointId;
use weighbridge_core::view::FleetView;

/// What stays known of them until the last request has ended: no snapshot holds them.
#[derive(Default)]
pub(crate) struct Leaving(Mutex<BTreeMap<EndpointId, Arc<Upstream>>>);

impl Leaving {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<EndpointId, Arc<Upstream>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes which endpoints of `old` are not in `new`, and which are back.
    pub(crate) fn replaced(&self, old: &Snapshot, new: &Snapshot) {
        let mut leaving = self.lock();
        leaving.retain(|id, _| new.upstream(*id).is_none());
        let gone = old
            .upstreams()
            .filter(|upstream| new.upstream(upstream.id).is_none());
        leaving.extend(gone.map(|upstream| (upstream.id, upstream.clone())));
    }

    /// Those that have no request any more, which are forgotten here.
    pub(crate) fn take_gone(&self, view: &FleetView) -> Vec<Arc<Upstream>> {
        let mut leaving = self.lock();
        if leaving.is_empty() {
            return Vec::new();
        }
        let busy: BTreeSet<_> = view.endpoints.iter().map(|endpoint| endpoint.id).collect();
        let gone = leaving.extract_if(.., |id, _| !busy.contains(id));
        gone.map(|(_, upstream)| upstream).collect()
    }
}

impl Gateway {
    /// The endpoint of this id, be it in service or on its way out.
    pub(crate) fn upstream(&self, id: EndpointId) -> Option<Arc<Upstream>> {
        let current = self.snapshot().upstream(id).cloned();
        current.or_else(|| self.leaving.lock().get(&id).cloned())
    }
}
