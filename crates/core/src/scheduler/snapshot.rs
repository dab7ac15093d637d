//! What people and metrics see: states in words, the whole fleet, and dry runs.

use super::Scheduler;
use crate::endpoint::{Endpoint, MeanFactor, in_force};
use crate::engine::Engine;
use crate::engine::decay::{Average, seconds};
use crate::engine::latency::Latency;
use crate::event::Arrival;
use crate::explain::Explanation;
use crate::health::breaker::Breaker;
use crate::policies::Request;
use crate::pool::{Means, Pool};
use crate::select::{self, Choice, Kind, Query, Scratch, record};
use crate::time::Time;
use crate::view::{EndpointView, FleetView, LatencyView, LiveView, PoolView, RouteView, State, StateKind};
use std::sync::Arc;

impl Endpoint {
    /// The row of the state table that applies. Half-open endpoints and those that wait for a trial request are still
    /// shown as open and ejected.
    pub(crate) fn kind(&self, now: Time) -> StateKind {
        match self.notable(now) {
            kind @ (StateKind::Draining | StateKind::Cooling) => kind,
            _ if self.is_full() => StateKind::Full,
            kind => kind,
        }
    }

    /// As [`Self::kind`], but for being full, which comes and goes with single requests.
    pub(crate) fn notable(&self, now: Time) -> StateKind {
        if self.is_draining(now) {
            StateKind::Draining
        } else if self.cooling.blocks(now) {
            StateKind::Cooling
        } else if self.ejection.is_ejected() {
            StateKind::Ejected
        } else if self.breaker.as_ref().is_some_and(Breaker::is_open) {
            StateKind::Open
        } else if self.is_unhealthy() {
            StateKind::Unhealthy
        } else if self.is_stalled(now) {
            StateKind::Stalled
        } else {
            StateKind::Live
        }
    }

    /// Puts a state into words.
    pub(crate) fn describe(&self, kind: StateKind, now: Time) -> State {
        let later = |at: Option<Time>| at.filter(|at| *at > now);
        let (reason, until) = match kind {
            StateKind::Live => (String::new(), None),
            StateKind::Draining => self.describe_draining(),
            StateKind::Cooling => (self.cooling.reason(), later(Some(self.cooling.until()))),
            StateKind::Full => (format!("{} requests in flight", self.inflight), None),
            StateKind::Ejected => (self.ejection.reason(now), later(self.ejection.back())),
            StateKind::Open => match &self.breaker {
                Some(breaker) => (breaker.reason(now), later(breaker.back())),
                None => (String::new(), None),
            },
            StateKind::Unhealthy => {
                let failures = self.probes.as_ref().map_or(0, |probes| probes.failures());
                (format!("{failures} probes failed in a row"), None)
            }
            StateKind::Stalled => {
                let silence = now.since(self.last_byte).as_secs_f64();
                (
                    format!(
                        "no byte for {silence:.1} s with {} requests in flight",
                        self.inflight
                    ),
                    None,
                )
            }
        };
        State { kind, reason, until }
    }

    fn describe_draining(&self) -> (String, Option<Time>) {
        if self.removed {
            ("removed".into(), None)
        } else if self.drained {
            ("drained by hand".into(), None)
        } else {
            let until = self.weight_override.and_then(|(_, until)| until);
            ("weight 0".into(), until)
        }
    }
}

impl Scheduler {
    /// The whole state, for people and metrics.
    #[must_use]
    pub fn view(&self, now: Time) -> FleetView {
        let now = self.now.max(now);
        let means = self.mean_factors(now);
        FleetView {
            now,
            endpoints: (self.listed.iter().chain(&self.lingering))
                .map(|slot| self.endpoint_view(&self.endpoints[*slot as usize], now, &means))
                .collect(),
            routes: (self.route_order.iter())
                .filter_map(|id| self.routes.get(id.0 as usize))
                .map(|route| RouteView {
                    id: route.plan.id,
                    name: Arc::clone(&route.plan.name),
                    route_by: route.plan.route_by,
                    retries: route.budget.used(now),
                    requests: route.requests,
                })
                .collect(),
            pools: self.pools.iter().filter_map(pool_view).collect(),
        }
    }

    /// For each pool the mean of its load factors, see [`MeanFactor`].
    fn mean_factors(&self, now: Time) -> Vec<MeanFactor> {
        let mut means = vec![MeanFactor::default(); self.pools.len()];
        for slot in &self.listed {
            let endpoint = &self.endpoints[*slot as usize];
            if let Some(mean) = means.get_mut(endpoint.pool_at) {
                mean.add(endpoint, now);
            }
        }
        means
    }

    fn endpoint_view(&self, endpoint: &Endpoint, now: Time, means: &[MeanFactor]) -> EndpointView {
        let penalty = if endpoint.ramp.is_on(now) {
            let largest = (self.listed.iter())
                .map(|slot| &self.endpoints[*slot as usize])
                .filter(|other| other.pool.name == endpoint.pool.name && other.blocked(now).is_none())
                .map(|other| other.inflight)
                .max();
            endpoint.ramp.penalty(now, largest.unwrap_or(0))
        } else {
            0.0
        };
        let mean = means.get(endpoint.pool_at).and_then(MeanFactor::get);
        EndpointView {
            id: endpoint.id,
            pool: Arc::clone(&endpoint.pool.name),
            name: Arc::clone(&endpoint.name),
            state: endpoint.describe(endpoint.kind(now), now),
            removed: endpoint.removed,
            inflight: endpoint.inflight,
            weight: endpoint.shown_weight(now, mean),
            base_weight: endpoint.base_weight(now),
            weight_override: in_force(endpoint.weight_override, now).map(|(_, until)| until),
            weight_calibrated: in_force(endpoint.calibrated, now).map(|(_, until)| until),
            penalty,
            dispatched: endpoint.counts.dispatched,
            succeeded: endpoint.counts.succeeded,
            failed: endpoint.counts.failed,
            busy_seconds: endpoint.busy(now).as_secs_f64(),
            keys_cooling: endpoint.cooling.cooling(now),
            probe_failures: endpoint.probes.as_ref().map_or(0, |probes| probes.failures()),
            heard_at: endpoint.engine.last().map(|(_, at)| at),
            live: live_view(&endpoint.engine, now, &self.pools[endpoint.pool_at].means).map(Box::new),
        }
    }

    /// What would be decided for this request now, candidate by candidate; changes nothing. None: no such route.
    #[must_use]
    pub fn explain(&self, now: Time, arrival: &Arrival) -> Option<Explanation> {
        let route = (self.routes.get(arrival.route.0 as usize)).filter(|route| !route.removed)?;
        let query = Query {
            now: self.now.max(now),
            plan: &route.plan,
            shares: Some(&route.shares),
            endpoints: &self.endpoints,
            pools: &self.pools,
            prefixes: &self.prefixes,
            under_way: &self.under_way,
            facts: Request {
                session: arrival.session,
                work: arrival.work.as_deref(),
            },
            protocols: arrival.protocols,
            only: arrival.only,
            tried: &[],
            kind: Kind::First,
        };
        let mut scratch = Scratch::default();
        let choice = select::choose(&query, &mut scratch, &mut self.rng.clone());
        let (take, refused) = match &choice {
            Choice::Take(take) => (Some(take), None),
            Choice::Refuse(refusal) => (None, Some(refusal.verdict())),
        };
        Some(Explanation {
            refused,
            ..record::explanation(&query, &scratch, take)
        })
    }
}

fn live_view(engine: &Engine, now: Time, means: &Means) -> Option<LiveView> {
    let live = engine.live()?;
    let latency = |of: &Latency, pool: &Average| {
        let age = seconds(now.since(of.newest()?));
        Some(LatencyView {
            mean: of.mean(now, pool)?,
            peak: of.peak(now, pool)?,
            p50: of.quantile(0.5)?,
            p90: of.quantile(0.9)?,
            p99: of.quantile(0.99)?,
            age,
        })
    };
    Some(LiveView {
        first_token: latency(&live.first_token, &means.first_token),
        per_token: latency(&live.per_token, &means.per_token),
        total: latency(&live.total, &means.total),
        failures: live.failures.mean().unwrap_or(0.0),
        prefill_rate: engine.prefill_rate(now, means),
        decode_rate: engine.decode_rate(now, means),
        prefill_tokens: engine.prefill_ahead(now, means),
        decode_tokens: engine.decode_left(now, means),
        outstanding_seconds: engine.outstanding(now, means),
    })
}

/// None: nobody has looked at its requests.
fn pool_view(pool: &Pool) -> Option<PoolView> {
    let means = &pool.means;
    let forecast = means.forecast.as_deref();
    let is_known = means.first_token.mean().is_some() || means.total.mean().is_some();
    is_known.then(|| PoolView {
        name: Arc::clone(&pool.name),
        first_token: means.first_token.mean(),
        per_token: means.per_token.mean(),
        prompt_tokens: means.prompt.mean(),
        output_tokens: means.output.mean(),
        predicts_first_token: forecast.map(|forecast| *forecast.first_token.trial()),
        predicts_per_token: forecast.map(|forecast| *forecast.per_token.trial()),
    })
}
