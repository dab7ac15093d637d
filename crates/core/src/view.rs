//! The scheduler's state, as people and metrics see it.

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
    /// Effective weight.
    pub weight: Weight,
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
