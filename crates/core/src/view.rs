//! The scheduler's state, as people and metrics see it.

use crate::engine::Trial;
use crate::ids::{EndpointId, RouteId};
use crate::spec::{RouteBy, Weight};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// State of an endpoint, by the table of the routing semantics: the first that applies.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StateKind {
    /// Takes requests.
    Live,
    /// Told to take no new requests, or weight 0, or removed from the config.
    Draining,
    /// Asked us to wait.
    Cooling,
    /// At `max_inflight`.
    Full,
    /// Connections fail.
    Ejected,
    /// The breaker is open or half-open.
    Open,
    /// Probes fail.
    Unhealthy,
    /// Its streams are silent.
    Stalled,
}

impl StateKind {
    /// Every state, in the order of the table.
    pub const ALL: [Self; 8] = [
        Self::Live,
        Self::Draining,
        Self::Cooling,
        Self::Full,
        Self::Ejected,
        Self::Open,
        Self::Unhealthy,
        Self::Stalled,
    ];

    /// The word of the API and of metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Draining => "draining",
            Self::Cooling => "cooling",
            Self::Full => "full",
            Self::Ejected => "ejected",
            Self::Open => "open",
            Self::Unhealthy => "unhealthy",
            Self::Stalled => "stalled",
        }
    }
}

/// A state, why, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Which.
    pub kind: StateKind,
    /// For a person: "429 with Retry-After 7 s", "5 failures in a row".
    pub reason: String,
    /// When time alone ends it; none if something else must happen.
    pub until: Option<Time>,
}

/// The whole fleet at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FleetView {
    /// When.
    pub now: Time,
    /// In the order of the spec; endpoints that were removed but still answer come last.
    pub endpoints: Vec<EndpointView>,
    /// In the order of the spec.
    pub routes: Vec<RouteView>,
    /// What pools have learned of the requests of routes that look at it; of others nothing is listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolView>,
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointView {
    /// Its id.
    pub id: EndpointId,
    /// Pool it belongs to.
    pub pool: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its state.
    pub state: State,
    /// Whether it was removed from the config and only finishes what it has.
    pub removed: bool,
    /// Requests in flight.
    pub inflight: u32,
    /// Effective weight: the one that counts, by hand or by load as it may be.
    pub weight: Weight,
    /// The measured weight, else the config's: what counts without a weight by hand, the load aside.
    pub base_weight: Weight,
    /// Whether the weight is overridden by hand, and until when.
    pub weight_override: Option<Option<Time>>,
    /// Whether a weight was measured for it, which counts unless it is overridden, and until when.
    pub weight_calibrated: Option<Option<Time>>,
    /// Ramp penalty, in requests.
    pub penalty: f64,
    /// Attempts dispatched since it joined.
    pub dispatched: u64,
    /// Attempts that ended in a complete 2xx.
    pub succeeded: u64,
    /// Attempts that the breaker counts as failures.
    pub failed: u64,
    /// Seconds during which at least one request was in flight, since it joined.
    pub busy_seconds: f64,
    /// Upstream keys that are cooling, with the time they come back.
    pub keys_cooling: Vec<(u16, Time)>,
    /// Failed probes in a row.
    pub probe_failures: u32,
    /// When its engine last told something of itself; none: never.
    #[serde(default)]
    pub heard_at: Option<Time>,
    /// What its answers show; none: no route looks at it, or nothing came yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<Box<LiveView>>,
}

/// What an endpoint's answers show, decayed to what its pool's do with a half-life of 30 s.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveView {
    /// Seconds to the first token.
    pub first_token: Option<LatencyView>,
    /// Seconds per token after the first.
    pub per_token: Option<LatencyView>,
    /// Seconds from sending to the last token.
    pub total: Option<LatencyView>,
    /// Share of failures among answers and failures, of late.
    pub failures: f64,
    /// Prompt tokens that it computes in a second.
    pub prefill_rate: f64,
    /// Tokens of answers that it generates in a second, at its pool's usual batch.
    pub decode_rate: f64,
    /// Prompt tokens not computed yet.
    pub prefill_tokens: f64,
    /// Tokens of answers expected still to come.
    pub decode_tokens: f64,
    /// Seconds that these take.
    pub outstanding_seconds: f64,
}

/// Times of one kind, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyView {
    /// Mean of the last 100.
    pub mean: f64,
    /// Peak-EWMA.
    pub peak: f64,
    /// Median, within 10 %.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Seconds since the newest sample.
    pub age: f64,
}

/// What a pool has learned.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PoolView {
    /// Its name.
    pub name: Arc<str>,
    /// Mean seconds to the first token, of late; none: nothing came yet.
    pub first_token: Option<f64>,
    /// Mean seconds per token after the first.
    pub per_token: Option<f64>,
    /// Mean prompt tokens that were not cached.
    pub prompt_tokens: Option<f64>,
    /// Mean tokens of an answer.
    pub output_tokens: Option<f64>,
    /// How well the time to the first token is predicted; none: no route asks for it.
    pub predicts_first_token: Option<Trial>,
    /// How well the time per token is predicted.
    pub predicts_per_token: Option<Trial>,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteView {
    /// Its id.
    pub id: RouteId,
    /// Its name.
    pub name: Arc<str>,
    /// How it chooses.
    pub route_by: RouteBy,
    /// Retries in the budget's window, and how many it allows.
    pub retries: (u64, u64),
    /// Requests now between arrival and end.
    pub requests: u32,
}
