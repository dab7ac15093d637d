//! Data-parallel ranks of one URL: endpoints of their own in all but what concerns their common process.

use super::Scheduler;
use crate::endpoint::Endpoint;
use crate::event::Outcome;
use crate::health::verdict::is_connect_failure;
use crate::ids::EndpointId;
use crate::spec::PoolSpec;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Scheduler {
    /// Tells the ranks of each URL of each other.
    pub(super) fn introduce_siblings(&mut self, pool: &PoolSpec, ids: &[EndpointId]) {
        let mut urls: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (spec, id) in pool.endpoints.iter().zip(ids) {
            if spec.rank.is_some() {
                urls.entry(spec.base_name()).or_default().push(id.slot);
            }
        }
        for (spec, id) in pool.endpoints.iter().zip(ids) {
            let siblings = spec.rank.and_then(|_| urls.get(spec.base_name()));
            self.endpoints[id.slot as usize].siblings =
                siblings.map(|slots| slots.as_slice().into()).unwrap_or_default();
        }
    }

    /// An attempt at a rank ended. What it found out about reaching the process holds for all ranks. `returned`: the rank was
    /// ejected before and is not any more.
    pub(super) fn tell_siblings(&mut self, id: EndpointId, outcome: Outcome, returned: bool) {
        let now = self.now;
        if is_connect_failure(outcome) {
            for sibling in self.siblings(id) {
                self.cache_lost(sibling, outcome);
            }
            self.with_siblings(id, |sibling| sibling.unreached(now, outcome));
        } else if returned {
            self.with_siblings(id, |sibling| sibling.reached(now));
        }
    }

    /// The other ranks of an endpoint's URL.
    fn siblings(&self, id: EndpointId) -> Vec<EndpointId> {
        let endpoint = self.endpoints.get(id.slot as usize);
        let slots = endpoint
            .map(|endpoint| Arc::clone(&endpoint.siblings))
            .unwrap_or_default();
        let others = slots.iter().filter(|slot| **slot != id.slot);
        others
            .filter_map(|slot| self.endpoints.get(*slot as usize).map(|other| other.id))
            .collect()
    }

    /// Changes the other ranks of an endpoint's URL and has their states looked at.
    pub(super) fn with_siblings(&mut self, id: EndpointId, change: impl Fn(&mut Endpoint)) {
        let known = self.endpoints.get(id.slot as usize);
        if known.is_none_or(|endpoint| endpoint.id != id || endpoint.siblings.is_empty()) {
            return;
        }
        for sibling in self.siblings(id) {
            self.with(sibling, &change);
        }
    }
}
