//! Balance of a pool: least ÷ most busy seconds per weight over the last minute.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weighbridge_core::view::FleetView;
use weighbridge_core::{EndpointId, Time};

/// Span over which busy time is compared.
const SPAN: Duration = Duration::from_secs(60);

/// Busy seconds per weight of every endpoint, sampled now and then.
#[derive(Default)]
pub struct Balance {
    samples: Mutex<VecDeque<(Time, BTreeMap<EndpointId, f64>)>>,
}

impl Balance {
    /// Notes how busy every endpoint has been.
    pub(crate) fn sample(&self, view: &FleetView) {
        let busy = view
            .endpoints
            .iter()
            .map(|endpoint| (endpoint.id, endpoint.busy_seconds))
            .collect();
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back((view.now, busy));
        while samples.len() > 2 && samples.get(1).is_some_and(|(at, _)| view.now.since(*at) >= SPAN) {
            samples.pop_front();
        }
    }

    /// The ratio of each pool that has at least two endpoints with a weight and was busy at all.
    pub(crate) fn ratios(&self, view: &FleetView) -> Vec<(Arc<str>, f64)> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, before)) = samples.front() else {
            return Vec::new();
        };
        let mut pools: BTreeMap<Arc<str>, Vec<f64>> = BTreeMap::new();
        for endpoint in view
            .endpoints
            .iter()
            .filter(|endpoint| !endpoint.removed && endpoint.weight.0 > 0)
        {
            let busy = endpoint.busy_seconds - before.get(&endpoint.id).copied().unwrap_or_default();
            pools
                .entry(endpoint.pool.clone())
                .or_default()
                .push(busy.max(0.0) / endpoint.weight.as_f64());
        }
        pools
            .into_iter()
            .filter(|(_, busy)| busy.len() > 1)
            .filter_map(|(pool, busy)| {
                let most = busy.iter().copied().fold(0.0, f64::max);
                let least = busy.iter().copied().fold(f64::INFINITY, f64::min);
                (most > 0.0).then(|| (pool, least / most))
            })
            .collect()
    }
}
