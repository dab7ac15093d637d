//! The catalogue of policies: the one list from which config parsing, suggestions, docs and schema derive.
//!
//! Adding a policy is one file with its config struct, docs and tests, and one line in the `catalogue!` call below.

pub mod least_inflight;
pub mod session_affinity;

use serde::{Deserialize, Serialize};

/// Declares the scorers: name in the config and module; the module holds `Config`, which implements [`ScorerConfig`].
macro_rules! catalogue {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// The `policies` of a route: a weight and settings for each that is used.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct Policies {
            $($(#[doc = $doc])+ #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$name::Config>,)+
        }

        impl Policies {
            /// The policies in use, in the order of the catalogue.
            pub fn configs(&self) -> impl Iterator<Item = &dyn ScorerConfig> {
                [$(self.$name.as_ref().map(|config| config as &dyn ScorerConfig)),+].into_iter().flatten()
            }

            /// Names of all policies that are built in.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];
        }
    };
}

catalogue! {
    /// Keeps the requests of one session on one endpoint while it is healthy.
    session_affinity,
    /// Prefers endpoints with fewer requests in flight.
    least_inflight,
}

/// Names of the catalogue that later versions build; refused by name until then.
pub const NOT_YET: &[&str] = &[
    "decision_service",
    "least_work",
    "queue_depth",
    "kv_headroom",
    "gpu_load",
    "latency",
    "prefix_cache",
    "prompt_length",
    "batch_packing",
    "prefill_batch",
    "expected_wait",
    "predicted_latency",
    "zone",
    "cost",
    "capability",
    "lora_affinity",
    "overload",
];

impl Policies {
    /// Whether no policy is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.configs().next().is_none()
    }
}

/// What every policy's config can say of itself.
pub trait ScorerConfig {
    /// The name in the catalogue.
    fn name(&self) -> &'static str;
    /// Its weight in the sum, > 0.
    fn weight(&self) -> f64;
    /// What is wrong with the settings, for a person, naming the key; `Ok` if nothing.
    ///
    /// # Errors
    /// The first problem found.
    fn check(&self) -> Result<(), String>;
    /// Builds the scorer.
    fn build(&self) -> Box<dyn Scorer>;
}

/// Gives each live candidate a score.
pub trait Scorer: Send + Sync {
    /// Writes one finite score ≥ 0 per candidate into `scores` (same length), or abstains as a whole. Says where the
    /// request belongs, if the policy has a notion of that.
    ///
    /// # Errors
    /// Why it abstains.
    fn score(
        &self,
        request: &RequestFacts,
        candidates: &[Candidate<'_>],
        scores: &mut [f64],
    ) -> Result<Option<Home>, crate::explain::Abstained>;

    /// How strongly the request belongs to the candidate with this key, as in [`Home::strength`].
    fn belongs(&self, request: &RequestFacts, key: &[u8]) -> u64 {
        let _ = (request, key);
        0
    }
}

/// The candidate that a request belongs to, whatever the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its place among the candidates that were scored.
    pub place: usize,
    /// How strongly: larger than any other candidate's.
    pub strength: u64,
}

/// What scorers know of the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestFacts {
    /// Hash state of the session key.
    pub session: Option<session_affinity::SessionKey>,
}

/// A live (target, endpoint) pair, as scorers see it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Target name, a NUL byte, endpoint name: the same on every replica of the gateway.
    pub key: &'a [u8],
    /// Requests in flight at the endpoint, before this one.
    pub inflight: u32,
    /// Ramp penalty, in requests.
    pub penalty: f64,
}

/// What is wrong with a policy's weight.
fn check_weight(weight: f64) -> Result<(), String> {
    if weight.is_finite() && weight > 0.0 {
        Ok(())
    } else {
        Err(format!(
            "weight: {weight} is not above 0; leave the policy out to switch it off"
        ))
    }
}
