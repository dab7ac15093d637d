//! What the scheduler is told about the fleet: pools of endpoints, routes over them, and the rules of each.
//!
//! The config crate resolves the user's file into a [`FleetSpec`]; it is valid by construction there, and
//! [`FleetSpec::check`] says what the scheduler relies on.

mod check;

use crate::filters::Filters;
use crate::policies::Policies;
use crate::work::{Abilities, Needs};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// A share or preference in millionths, so that six decimals are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Weight(pub u64);

impl Weight {
    /// Weight 1.
    pub const ONE: Self = Self(1_000_000);
    /// Takes nothing.
    pub const ZERO: Self = Self(0);
    /// The largest: 1e9.
    pub const MAX: Self = Self(1_000_000_000_000_000);

    /// The weight times `factor`, which is above 0; 0 stays 0, and nothing else becomes it.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "clamped to the range of weights"
    )]
    pub fn times(self, factor: f64) -> Self {
        if self == Self::ZERO {
            return self;
        }
        let largest = Self::MAX.0 as f64;
        Self((self.0 as f64 * factor).round().clamp(1.0, largest) as u64)
    }

    /// The weight as a number.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "weights are at most 1e9, far below 2^53 millionths"
    )]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// The whole fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FleetSpec {
    /// Pools, names unique.
    pub pools: Vec<PoolSpec>,
    /// Routes, names unique.
    pub routes: Vec<RouteSpec>,
    /// How requests can be spread where nothing else decides is random; the seed of that.
    pub seed: u64,
    /// Zone that the gateway is in; none: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<Arc<str>>,
}

/// Endpoints that serve the same model with the same kind of engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolSpec {
    /// Unique among pools.
    pub name: Arc<str>,
    /// Names unique in the pool.
    pub endpoints: Vec<EndpointSpec>,
    /// How many upstream API keys rotate here; at least 1, also where none is needed. Cooling is counted per
    /// (endpoint, key), everything else per endpoint.
    pub keys: u16,
    /// Protocols that its endpoints speak, see [`Protocols`].
    pub protocols: Protocols,
    /// Most requests in flight per endpoint; none: no limit.
    pub max_inflight: Option<u32>,
    /// The breaker; none: switched off.
    pub breaker: Option<BreakerSpec>,
    /// Waits after 429, 503 with Retry-After and 529.
    pub cooldown: CooldownSpec,
    /// Whether ejected, open, unhealthy and stalled endpoints are tried when nothing is live.
    pub fail_open: bool,
    /// How long a newcomer or returner is given less than its share.
    pub ramp: Duration,
    /// Active probes; none: not probed.
    pub probe: Option<ProbeSpec>,
    /// Silence of all its streams after which an endpoint counts as stalled; none: never.
    pub stall_after: Option<Duration>,
    /// Time between readings of each engine's metrics; none: they are not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scrape: Option<Duration>,
    /// Most tokens of prompt and answer together; none: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_length: Option<u32>,
    /// What it costs; none: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// What its model is good at, as words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strengths: Vec<Arc<str>>,
    /// What its model can do beyond text.
    #[serde(default = "all_abilities")]
    pub abilities: Abilities,
    /// Whether the weights of its endpoints follow their load.
    #[serde(default)]
    pub auto_weight: bool,
    /// Whether endpoints of weight 1 get the one that their labels stand for, see [`PoolSpec::weigh_by_labels`]; done as well
    /// where weights follow the load, which then start from that.
    #[serde(default)]
    pub label_weight: bool,
}

fn all_abilities() -> Abilities {
    Abilities::ALL
}

/// Price of a model, in USD per million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Of prompts.
    pub input: f64,
    /// Of answers.
    pub output: f64,
}

/// One endpoint of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSpec {
    /// Unique in its pool: hash key, label, argument of `drain`.
    pub name: Arc<str>,
    /// Tells an endpoint that kept its name but moved elsewhere: a change makes it a new endpoint. Never shown.
    pub address: Arc<str>,
    /// Share inside its target; 0 takes nothing.
    pub weight: Weight,
    /// Labels, sorted by name, such as `gpu`, `zone`, `tier` and `spot`.
    #[serde(default)]
    pub labels: Arc<[(Arc<str>, Arc<str>)]>,
    /// Which data-parallel rank of its URL it is; none: the URL holds no ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

impl EndpointSpec {
    /// An endpoint of weight 1 without labels.
    pub fn new(name: impl Into<Arc<str>>, address: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            weight: Weight::ONE,
            labels: Arc::default(),
            rank: None,
        }
    }

    /// The name of the endpoint that it is a rank of; its own name if it is none.
    #[must_use]
    pub fn base_name(&self) -> &str {
        match self.rank {
            Some(_) => self.name.rsplit_once('#').map_or(&self.name, |(base, _)| base),
            None => &self.name,
        }
    }
}

/// Set of API dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protocols(pub u8);

impl Protocols {
    /// OpenAI paths.
    pub const OPENAI: Self = Self(1);
    /// Anthropic paths.
    pub const ANTHROPIC: Self = Self(2);
    /// Both.
    pub const ANY: Self = Self(3);
    /// None that clients can use.
    pub const NONE: Self = Self(0);

    /// Whether one of `wanted` is in the set.
    #[must_use]
    pub const fn serves(self, wanted: Self) -> bool {
        self.0 & wanted.0 != 0
    }
}

/// When the breaker opens and for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BreakerSpec {
    /// Span over which the error rate is taken.
    pub window: Duration,
    /// Fewest successes and failures in the window for the rate to count.
    pub min_requests: u32,
    /// Opens above this share of failures, in [0, 1].
    pub error_rate: f64,
    /// Opens after this many failures in a row.
    pub consecutive: u32,
    /// Time from opening to half-open.
    pub open_for: Duration,
}

impl Default for BreakerSpec {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(30),
            min_requests: 10,
            error_rate: 0.1,
            consecutive: 5,
            open_for: Duration::from_secs(10),
        }
    }
}

/// Waits that busy upstreams ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CooldownSpec {
    /// After 429 or 529 without Retry-After.
    pub default: Duration,
    /// Longest wait that is obeyed.
    pub max: Duration,
}

impl Default for CooldownSpec {
    fn default() -> Self {
        Self {
            default: Duration::from_secs(5),
            max: Duration::from_secs(60),
        }
    }
}

/// Active probing; the driver sends the probes that [`crate::Action::Probe`] asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeSpec {
    /// Time between probes of one endpoint.
    pub interval: Duration,
    /// Failed probes in a row that make an endpoint unhealthy.
    pub unhealthy_after: u32,
    /// Successes in a row that make it healthy again.
    pub healthy_after: u32,
}

/// A model name that clients use, and how it is served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RouteSpec {
    /// Unique among routes.
    pub name: Arc<str>,
    /// At least one; names unique in the route.
    pub targets: Vec<TargetSpec>,
    /// The weighted sum; empty: none.
    pub policies: Policies,
    /// How the winner is picked by the sums.
    #[serde(default)]
    pub picker: Picker,
    /// What keeps candidates from serving a request.
    #[serde(default, skip_serializing_if = "Filters::is_empty")]
    pub filters: Filters,
    /// Where weights choose: whether a full target's share goes to the others (else 429).
    pub spill: bool,
    /// What is tried again, and how often.
    pub retry: RetrySpec,
    /// Routes to try when this one failed, in order.
    pub fallback: Vec<FallbackSpec>,
}

/// A pool as one choice of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSpec {
    /// Unique in the route; the pool's name unless the user gave one.
    pub name: Arc<str>,
    /// Index into [`FleetSpec::pools`].
    pub pool: usize,
    /// Share of the route's traffic. Given on every target of a route or on none.
    pub weight: Option<Weight>,
    /// 1 first; a later order serves only when earlier ones cannot.
    pub order: u16,
    /// Prompt tokens that it is meant for, from and up to; none: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serves_tokens: Option<(u32, u32)>,
}

impl TargetSpec {
    /// The pool at index `pool`, of order 1 and without a weight.
    pub fn new(name: impl Into<Arc<str>>, pool: usize) -> Self {
        Self {
            name: name.into(),
            pool,
            weight: None,
            order: 1,
            serves_tokens: None,
        }
    }
}

/// How the winner is picked by the totals of the weighted sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Picker {
    /// The highest.
    #[default]
    Max,
    /// The higher of two that chance names.
    PowerOfTwo,
    /// In proportion to exp(total / temperature).
    WeightedRandom {
        /// Above 0; none: a tenth of the sum of the policies' weights.
        temperature: Option<f64>,
    },
}

impl Picker {
    /// The word of the config, the API and the logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Max => "max",
            Self::PowerOfTwo => "power_of_two",
            Self::WeightedRandom { .. } => "weighted_random",
        }
    }
}

/// How a route chooses; follows from its config alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteBy {
    /// Rotate over targets.
    RoundRobin,
    /// Targets by share.
    Weight,
    /// The weighted sum of policies over all candidates.
    Policy,
}

impl RouteBy {
    /// The word of the config, the API and the logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::Weight => "weight",
            Self::Policy => "policy",
        }
    }
}

impl RouteSpec {
    /// A route without policies, weights and fallbacks.
    pub fn new(name: impl Into<Arc<str>>, targets: Vec<TargetSpec>) -> Self {
        Self {
            name: name.into(),
            targets,
            policies: Policies::default(),
            picker: Picker::Max,
            filters: Filters::default(),
            spill: true,
            retry: RetrySpec::default(),
            fallback: Vec::new(),
        }
    }

    /// Facts of requests and engines that the route looks at.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.policies.needs().and(self.filters.needs())
    }

    /// Whether weights of endpoints matter to it: policies do not look at them, but for `gpu_load`.
    #[must_use]
    pub fn looks_at_weights(&self) -> bool {
        self.route_by() != RouteBy::Policy || self.policies.gpu_load.is_some()
    }

    /// Whether weights of the endpoints of the pool at this place matter to any of these routes.
    #[must_use]
    pub fn any_looks_at_weights(routes: &[Self], pool: usize) -> bool {
        let over = |route: &&Self| route.targets.iter().any(|target| target.pool == pool);
        routes.iter().filter(over).any(Self::looks_at_weights)
    }

    /// How this route chooses.
    #[must_use]
    pub fn route_by(&self) -> RouteBy {
        if !self.policies.is_empty() {
            RouteBy::Policy
        } else if self.targets.iter().any(|target| target.weight.is_some()) {
            RouteBy::Weight
        } else {
            RouteBy::RoundRobin
        }
    }
}

/// What is tried again on another candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RetrySpec {
    /// Most attempts in all, fallbacks included; 1: never again.
    pub max_attempts: u32,
    /// A connection that could not be made, its timeout included.
    pub on_connect: bool,
    /// A connection that closed or was reset without an answer.
    pub on_reset: bool,
    /// A timeout of ours while waiting for the answer.
    pub on_timeout: bool,
    /// Upstream statuses.
    pub on_status: Vec<u16>,
    /// Soft clock for the first byte of a stream; none: off. The driver keeps it and sends [`crate::Event::MoveOn`].
    pub move_on_after: Option<Duration>,
    /// Cap on retries.
    pub budget: BudgetSpec,
}

/// What a route that says nothing of retries does.
impl Default for RetrySpec {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            on_connect: true,
            on_reset: false,
            on_timeout: false,
            on_status: vec![429, 503, 529],
            move_on_after: None,
            budget: BudgetSpec::default(),
        }
    }
}

/// Cap on retries of a route: retries in the window < ratio · first attempts + floor · window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetSpec {
    /// Retries per first attempt.
    pub ratio: f64,
    /// Retries per second that are always allowed.
    pub floor_per_second: f64,
    /// Span over which both are counted.
    pub window: Duration,
}

impl Default for BudgetSpec {
    fn default() -> Self {
        Self {
            ratio: 0.2,
            floor_per_second: 10.0,
            window: Duration::from_secs(10),
        }
    }
}

/// A step to another route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackSpec {
    /// Name of the route.
    pub route: Arc<str>,
    /// When to take it.
    pub on: FallbackOn,
}

/// Set of reasons for going on with another route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackOn(pub u8);

impl FallbackOn {
    /// Nothing that another route could mend.
    pub const NONE: Self = Self(0);
    /// No engine answered: nothing live, or connections failed.
    pub const UNAVAILABLE: Self = Self(1);
    /// An upstream's 5xx, or no usable answer.
    pub const SERVER_ERROR: Self = Self(2);
    /// An upstream's 429 or 529, or all candidates full or cooling.
    pub const RATE_LIMIT: Self = Self(4);
    /// A timeout of ours, or an upstream's 504.
    pub const TIMEOUT: Self = Self(8);
    /// The upstream says that the prompt does not fit.
    pub const CONTEXT_LENGTH: Self = Self(16);

    /// The reasons of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the two have a reason in common.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}
