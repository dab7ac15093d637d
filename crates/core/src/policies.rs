//! The catalogue of policies: the one list from which config parsing, suggestions, docs and schema derive.
//!
//! Adding a policy is one file with its config struct, docs and tests, and one line in the `catalogue!` call below.

pub mod added_delay;
pub mod batch_packing;
pub mod capability;
pub mod cost;
pub mod expected_wait;
pub mod gpu_load;
pub mod kv_headroom;
pub mod latency;
pub mod least_inflight;
pub mod least_work;
pub mod lora_affinity;
pub mod overload;
mod peers;
pub mod predicted_latency;
pub mod prefill_batch;
pub mod prefix_cache;
pub mod prompt_length;
pub mod queue_depth;
mod reckoned;
pub mod session_affinity;
#[cfg(test)]
pub(crate) mod stage;
mod unknown;
mod unseen;
pub mod zone;

use crate::endpoint::Endpoint;
use crate::engine::Engine;
use crate::explain::Reckoned;
use crate::lately::Lately;
use crate::pool::Pool;
use crate::route::Plan;
use crate::spec::{PoolSpec, TargetSpec};
use crate::time::Time;
use crate::work::{Needs, Work};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::sync::Arc;

/// Declares the modifiers and the scorers: name in the config and module; the module holds `Config`, which implements
/// [`ModifierConfig`] or [`ScorerConfig`], and `GUIDE`.
macro_rules! catalogue {
    (
        modifiers { $($(#[doc = $about:literal])+ $modifier:ident),+ $(,)? }
        $($(#[doc = $doc:literal])+ $name:ident),+ $(,)?
    ) => {
        /// The `policies` of a route: a weight and settings for each that is used.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct Policies {
            $($(#[doc = $doc])+ #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$name::Config>,)+
            $($(#[doc = $about])+ #[serde(skip_serializing_if = "Option::is_none")] pub $modifier: Option<$modifier::Config>,)+
        }

        impl Policies {
            /// The scorers in use, in the order of the catalogue.
            pub fn configs(&self) -> impl Iterator<Item = &dyn ScorerConfig> {
                [$(self.$name.as_ref().map(|config| config as &dyn ScorerConfig)),+].into_iter().flatten()
            }

            /// The modifiers in use, in the order of the catalogue.
            pub fn modifiers(&self) -> impl Iterator<Item = &dyn ModifierConfig> {
                [$(self.$modifier.as_ref().map(|config| config as &dyn ModifierConfig)),+].into_iter().flatten()
            }

            /// Each scorer and modifier in use, and whether its settings are sound.
            pub fn checks(&self) -> impl Iterator<Item = (&'static str, Result<(), String>)> {
                let scorers = self.configs().map(|policy| (policy.name(), policy.check()));
                scorers.chain(self.modifiers().map(|modifier| (modifier.name(), modifier.check())))
            }

            /// What the reference of policies says of each, in the order of [`Self::NAMES`].
            pub const GUIDES: &'static [Guide] = &[$(Guide {
                name: stringify!($name),
                summary: concat!($($doc),+),
                text: $name::GUIDE,
            }),+, $(Guide {
                name: stringify!($modifier),
                summary: concat!($($about),+),
                text: $modifier::GUIDE,
            }),+];

            /// Names of all policies that are built in.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)+ $(stringify!($modifier)),+];
        }
    };
}

catalogue! {
    modifiers {
        /// Halves the total of candidates that are over 85 % KV usage or 90 % GPU utilisation, unless all are.
        overload,
    }
    /// Keeps the requests of one session on one endpoint while it is healthy.
    session_affinity,
    /// Prefers endpoints with fewer requests in flight.
    least_inflight,
    /// Prefers engines with fewer requests waiting.
    queue_depth,
    /// Prefers engines with more of their KV cache free.
    kv_headroom,
    /// Prefers engines by a smoothed weight that falls with their memory, utilisation and queue.
    gpu_load,
    /// Prefers targets that are meant for prompts of this length.
    prompt_length,
    /// Prefers the fullest engine that still has room.
    batch_packing,
    /// Prefers endpoints in the gateway's own zone.
    zone,
    /// Prefers targets where the request costs less.
    cost,
    /// Prefers models that are good at what the request is about.
    capability,
    /// Prefers engines that have the request's adapter loaded.
    lora_affinity,
    /// Prefers engines that have the beginning of the prompt in their cache.
    prefix_cache,
    /// Prefers endpoints with less work outstanding, in seconds at their measured speed.
    least_work,
    /// Prefers endpoints that would give the request its first token sooner.
    expected_wait,
    /// Prefers the smallest product of prompt tokens to compute and requests running.
    prefill_batch,
    /// Prefers endpoints that answered quickly of late.
    latency,
    /// Prefers endpoints with more headroom under the latency objectives, by an online model.
    predicted_latency,
    /// Prefers endpoints where the request adds the least delay, to itself and to all others.
    added_delay,
}

/// Config of a scorer whose only setting is its weight: docs, name, facts that it looks at, scorer.
macro_rules! weight_only {
    ($(#[$docs:meta])+ $name:literal, $needs:expr, $scorer:expr) => {
        $(#[$docs])+
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct Config {
            /// Weight in the sum, above 0 and at most 1000000.
            pub weight: f64,
        }

        impl Default for Config {
            fn default() -> Self {
                Self { weight: 1.0 }
            }
        }

        impl $crate::policies::ScorerConfig for Config {
            fn name(&self) -> &'static str {
                $name
            }

            fn weight(&self) -> f64 {
                self.weight
            }

            fn check(&self) -> Result<(), String> {
                $crate::policies::check_weight(self.weight)
            }

            fn needs(&self) -> $crate::work::Needs {
                $needs
            }

            fn build(&self) -> Box<dyn $crate::policies::Scorer> {
                Box::new($scorer)
            }
        }
    };
}
use weight_only;

/// What teaches a policy: when it is right, when it is wrong, and an example by hand.
#[derive(Clone, Copy, Debug)]
pub struct Guide {
    /// Name in the catalogue.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Markdown.
    pub text: &'static str,
}

/// Names of the catalogue that later versions build; refused by name until then.
pub const NOT_YET: &[&str] = &["decision_service"];

impl Policies {
    /// Whether no scorer is set, so that the policies choose nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.configs().next().is_none()
    }

    /// Facts that any of them looks at.
    #[must_use]
    pub fn needs(&self) -> Needs {
        let scorers = self.configs().map(ScorerConfig::needs);
        let modifiers = self.modifiers().map(ModifierConfig::needs);
        scorers.chain(modifiers).fold(Needs::NONE, Needs::and)
    }
}

/// What every modifier's config can say of itself.
pub trait ModifierConfig {
    /// The name in the catalogue.
    fn name(&self) -> &'static str;
    /// What is wrong with the settings, for a person, naming the key; `Ok` if nothing.
    ///
    /// # Errors
    /// The first problem found.
    fn check(&self) -> Result<(), String>;
    /// Facts that it looks at, beyond those that every request comes with.
    fn needs(&self) -> Needs;
    /// Builds the modifier.
    fn build(&self) -> Box<dyn Modifier>;
}

/// Changes the totals that the scorers have given.
pub trait Modifier: Send + Sync {
    /// Multiplies into `factors`, one for each candidate, by what its total is multiplied: finite and ≥ 0.
    fn modify(&self, candidates: &Candidates<'_>, factors: &mut [f64]);
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
    /// Facts that it looks at, beyond those that every request comes with.
    fn needs(&self) -> Needs {
        Needs::NONE
    }
    /// Whether its choice has chance in it, beyond that between equals: see [`Candidates::draw`].
    fn draws(&self) -> bool {
        false
    }
    /// Whether it has the route's pools learn to predict, see [`crate::engine::Forecast`].
    fn predicts(&self) -> bool {
        false
    }
    /// Builds the scorer.
    fn build(&self) -> Box<dyn Scorer>;
}

/// Gives each live candidate a score.
pub trait Scorer: Send + Sync {
    /// Writes one finite score ≥ 0 per candidate into `scores` (same length), or abstains as a whole. Says where the
    /// request belongs, if the policy has a notion of that. Allocates nothing that grows with the candidates.
    ///
    /// # Errors
    /// Why it abstains.
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, crate::explain::Abstained>;

    /// How strongly the request belongs to the candidate with this key, as in [`Home::strength`].
    fn belongs(&self, request: &Request<'_>, key: &[u8]) -> u64 {
        let _ = (request, key);
        0
    }

    /// What its score of the candidate at `place` was reckoned from, for people. Asked only where a decision is explained in
    /// full, so it may cost what [`Self::score`] may not.
    fn reckoned(&self, request: &Request<'_>, candidates: &Candidates<'_>, place: usize) -> Option<Reckoned> {
        let _ = (request, candidates, place);
        None
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

/// What scorers and filters know of the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Hash state of the session key.
    pub session: Option<session_affinity::SessionKey>,
    /// What it asks of an engine; none: the driver did not say.
    pub work: Option<&'a Work>,
}

/// The live candidates of one decision, in the order of the route's targets and their pools' endpoints.
#[derive(Clone, Copy)]
pub struct Candidates<'a> {
    pub(crate) now: Time,
    pub(crate) plan: &'a Plan,
    /// Places in the plan.
    pub(crate) live: &'a [usize],
    pub(crate) endpoints: &'a [Endpoint],
    /// Per live candidate.
    pub(crate) penalties: &'a [f64],
    /// Per live candidate; empty where nothing looks at it.
    pub(crate) cached: &'a [Cached],
    pub(crate) pools: &'a [Pool],
    /// See [`Self::draw`].
    pub(crate) draw: f64,
    /// Room for a policy that ranks them; taken and put back, so that a decision allocates nothing.
    pub(crate) ranks: Option<&'a Cell<Vec<u128>>>,
    /// The same for one that compares what prompts take at each.
    pub(crate) lines: Option<&'a Cell<Vec<PromptLine>>>,
}

/// Seconds that a prompt takes beside its tokens, and each of these; none: nothing was measured there.
pub(crate) type PromptLine = Option<(f64, f64)>;

/// How much of the prompt is believed to be in a candidate's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// Leading blocks.
    pub blocks: u32,
    /// Blocks that the prompt has, of the same kind.
    pub of: u32,
    /// Tokens of these leading blocks, below the prompt's.
    pub tokens: u32,
    /// Leading blocks that most prompts of the pool have in common.
    pub common: u32,
}

/// A live (target, endpoint) pair, as scorers and filters see it.
#[derive(Clone, Copy)]
pub struct Candidate<'a> {
    /// Target name, a NUL byte, endpoint name: the same on every replica of the gateway.
    pub key: &'a [u8],
    /// Requests in flight at the endpoint, before this one.
    pub inflight: u32,
    /// Ramp penalty, in requests.
    pub penalty: f64,
    /// What is believed to be in its cache.
    pub cached: Cached,
    /// Prompt tokens that were sent there of late and were not believed cached.
    pub uncached: Lately,
    /// Its engine: what it last told, and what was sent there.
    pub engine: &'a Engine,
    /// Its weight, as configured or set by hand.
    pub weight: f64,
    /// Labels of the endpoint, sorted by name.
    pub labels: &'a [(Arc<str>, Arc<str>)],
    /// Rules of its pool.
    pub pool: &'a PoolSpec,
    /// Rules of its target.
    pub target: &'a TargetSpec,
    /// What its pool has learned.
    pub learned: &'a Pool,
}

impl<'a> Candidates<'a> {
    /// When the decision is made.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Zone that the gateway is in; none: not known.
    #[must_use]
    pub fn zone(&self) -> Option<&'a str> {
        self.plan.zone.as_deref()
    }

    /// A number in [0, 1), drawn anew for each decision of a route with a policy that [`ScorerConfig::draws`].
    #[must_use]
    pub fn draw(&self) -> f64 {
        self.draw
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Candidate<'a>> + '_ {
        (0..self.live.len()).map(|place| self.get(place))
    }

    /// Their keys, as in [`Candidate::key`], without the rest of them.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        let Self { plan, live, .. } = *self;
        live.iter().map(|place| &*plan.candidates[*place].key)
    }

    /// Their endpoints, without the rest of them.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &'a Endpoint> {
        let Self {
            plan,
            live,
            endpoints,
            ..
        } = *self;
        let slot = |place: &usize| plan.candidates[*place].endpoint.slot as usize;
        live.iter().map(move |place| &endpoints[slot(place)])
    }

    /// The one at `place`, which must be below [`Self::len`].
    #[must_use]
    #[inline(always)]
    pub fn get(&self, place: usize) -> Candidate<'a> {
        let candidate = &self.plan.candidates[self.live[place]];
        let endpoint = &self.endpoints[candidate.endpoint.slot as usize];
        let target = &self.plan.targets[usize::from(candidate.target)];
        Candidate {
            key: &candidate.key,
            inflight: endpoint.inflight,
            penalty: self.penalties.get(place).copied().unwrap_or(0.0),
            cached: self.cached.get(place).copied().unwrap_or_default(),
            uncached: endpoint.uncached,
            engine: &endpoint.engine,
            weight: endpoint.effective_weight(self.now).as_f64(),
            labels: &endpoint.labels,
            pool: &target.pool,
            target: &target.spec,
            learned: &self.pools[endpoint.pool_at],
        }
    }
}

/// What is wrong with a setting that is a share.
fn check_share(name: &str, share: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&share) {
        Ok(())
    } else {
        Err(format!("{name}: {share} is not between 0 and 1"))
    }
}

/// What policies look at that reckon with the work of requests and the speed of engines.
const WORK_AND_COURSE: Needs = Needs::TOKENS
    .and(Needs::BLOCKS)
    .and(Needs::LIVE)
    .and(Needs::SIGNALS);

/// Largest weight of a policy: beside it a weight of 1 decides nothing any more, and sums of weights stay far from where
/// numbers end.
pub const WEIGHT_MAX: f64 = 1e6;

/// What is wrong with a policy's weight.
fn check_weight(weight: f64) -> Result<(), String> {
    if !weight.is_finite() || weight <= 0.0 {
        return Err(format!(
            "weight: {weight} is not above 0; leave the policy out to switch it off"
        ));
    }
    if weight > WEIGHT_MAX {
        return Err(format!(
            "weight: {weight:e} is above {WEIGHT_MAX}; weights count by their ratios: give the others less"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number among the settings of every policy, set to what no total survives.
    #[test]
    fn no_setting_takes_a_number_that_overflows() {
        for name in Policies::NAMES {
            let usual = Policies::deserialize(serde_json::json!({ *name: {} })).unwrap();
            let mut usual = serde_json::to_value(&usual).unwrap();
            // Left out where it is none.
            if *name == "session_affinity" {
                usual[name]["bound"] = 1.25.into();
            }
            let settings = usual[name].as_object().unwrap();
            for (key, _) in settings.iter().filter(|(_, value)| value.is_f64()) {
                let with = |number: f64| {
                    let mut changed = usual.clone();
                    changed[name][key] = number.into();
                    let policies = Policies::deserialize(changed).unwrap();
                    let checked = policies.checks().find_map(|(_, checked)| checked.err());
                    checked.map_or(Ok(()), Err)
                };
                assert_eq!(with(settings[key].as_f64().unwrap()), Ok(()), "{name}.{key}");
                let wrong = with(1e308).unwrap_err();
                assert!(wrong.starts_with(&format!("{key}: ")), "{name}.{key}: {wrong}");
            }
        }
    }

    #[test]
    fn weights_have_a_largest() {
        assert_eq!(check_weight(WEIGHT_MAX), Ok(()));
        for weight in [WEIGHT_MAX + 1.0, f64::INFINITY, f64::NAN, 0.0, -1.0] {
            assert!(
                check_weight(weight).unwrap_err().starts_with("weight: "),
                "{weight}"
            );
        }
    }
}
