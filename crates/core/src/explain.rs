//! Why a request went where it went.

use crate::action::Verdict;
use crate::ids::EndpointId;
use crate::policies::{added_delay, expected_wait, latency, least_work};
use crate::spec::{Picker, RouteBy};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The compact record of a decision; made for every one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// How the route chooses.
    pub route_by: RouteBy,
    /// Order the winner is of.
    pub order: u16,
    /// Candidates of the route.
    pub candidates: u32,
    /// Left after the filters, within the order that served.
    pub live: u32,
    /// How the winner was picked by the totals.
    #[serde(default)]
    pub picker: Picker,
    /// How many each filter dropped.
    pub dropped: SmallVec<[(Dropped, u32); 4]>,
    /// Whether the winner was drawn from equals.
    pub tie: bool,
    /// The winner's total, 0 where no policy scored.
    pub total: f64,
    /// By what modifiers multiplied the sum of the winner's parts.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub factor: f64,
    /// The winner's parts, one per policy that scored, in the order of the catalogue.
    pub parts: SmallVec<[Part; 2]>,
    /// The best of the others.
    pub runner_up: Option<RunnerUp>,
    /// Policies that abstained.
    pub abstained: SmallVec<[(PolicyName, Abstained); 2]>,
    /// Whether the session was sent elsewhere than its first choice.
    pub session_moved: bool,
    /// Whether nothing was live and the endpoint was tried all the same.
    pub failed_open: bool,
}

fn one() -> f64 {
    1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_one(factor: &f64) -> bool {
    *factor == 1.0
}

/// Name of a policy of the catalogue.
pub type PolicyName = std::borrow::Cow<'static, str>;

/// What one policy gave one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The policy.
    pub policy: PolicyName,
    /// Its score before normalisation, ≥ 0.
    pub raw: f64,
    /// Its score divided by the sum over the live candidates, in [0, 1].
    pub share: f64,
    /// weight · share: what went into the total.
    pub weighted: f64,
}

impl Part {
    /// The seconds that the score stands for, ≥ 0, where the policy compares candidates by seconds: those that it reckoned, with
    /// what it lays on while an endpoint ramps up. None: its score is of another kind.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        let least = match &*self.policy {
            "added_delay" => added_delay::LEAST,
            "expected_wait" => expected_wait::LEAST,
            "latency" => latency::LEAST,
            "least_work" => least_work::LEAST,
            _ => return None,
        };
        (self.raw > 0.0).then(|| (1.0 / self.raw - least).max(0.0))
    }
}

/// What a score was reckoned from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reckoned {
    /// Tokens of the prompt; none: not known.
    pub prompt_tokens: Option<u32>,
    /// Of these, those that are believed cached there.
    pub cached_tokens: u32,
    /// Of these, those that it is taken to compute: where engines say how many were cached, more than are not believed to be.
    pub to_compute: f64,
    /// Prompt tokens that are to be computed before.
    pub ahead: f64,
    /// Requests without a first token there.
    pub waiting: f64,
    /// Requests being answered there.
    pub running: f64,
    /// Where its speed is from; none: the policy does not look at speeds.
    pub pace: Option<Pace>,
    /// Seconds that 1,000 prompt tokens take there; none: nothing was measured, or the policy does not look at it.
    pub seconds_per_thousand: Option<f64>,
}

/// Where the speed of an engine is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pace {
    /// It was measured there.
    Measured,
    /// It was measured in its pool, not yet there.
    OfPool,
    /// Nothing was measured yet.
    NotMeasured,
}

impl Pace {
    /// The word of the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Measured => "here",
            Self::OfPool => "pool",
            Self::NotMeasured => "not_yet",
        }
    }
}

/// The candidate that came second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunnerUp {
    /// Index of its target in the route's spec.
    pub target: u16,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Its total.
    pub total: f64,
    /// By what modifiers multiplied the sum of its parts.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub factor: f64,
    /// Its parts, as of the winner.
    pub parts: SmallVec<[Part; 2]>,
}

/// Why a filter dropped a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dropped {
    /// `state`: see the endpoint's state.
    State(crate::view::StateKind),
    /// `capacity`: at `max_inflight`.
    Capacity,
    /// `protocol`: does not speak the client's protocol.
    Protocol,
    /// Already tried for this request.
    Tried,
    /// Of a later order than the one that served.
    LaterOrder,
    /// `elsewhere`: what the request is about is held by another endpoint.
    Elsewhere,
    /// `modality`: cannot take what the request holds.
    Modality,
    /// `labels`: does not carry those that are asked for.
    Labels,
    /// `context_length`: too small for the prompt and its answer.
    ContextLength,
    /// `kv_fits`: no room in its KV cache, while another has it.
    KvFits,
}

impl Dropped {
    /// The words of explanations.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::State(_) => "state",
            Self::Capacity => "capacity",
            Self::Protocol => "protocol",
            Self::Tried => "tried",
            Self::LaterOrder => "later order",
            Self::Elsewhere => "elsewhere",
            Self::Modality => "modality",
            Self::Labels => "labels",
            Self::ContextLength => "context_length",
            Self::KvFits => "kv_fits",
        }
    }

    /// Whether it cannot serve the request at all, whatever its state.
    #[must_use]
    pub const fn is_unfit(self) -> bool {
        matches!(self, Self::Modality | Self::Labels | Self::ContextLength)
    }
}

/// Declares why policies abstain: each reason with its word, which is the label of the metric.
macro_rules! reasons {
    ($($(#[$doc:meta])+ $reason:ident = $word:literal,)+) => {
        /// Why a policy gave no scores.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Abstained {
            $($(#[$doc])+ $reason,)+
        }

        impl Abstained {
            /// All reasons.
            pub const ALL: &'static [Self] = &[$(Self::$reason),+];

            /// The word of the metric's label.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => $word,)+
                }
            }
        }
    };
}

reasons! {
    /// The request has no session key.
    NoKey = "no_key",
    /// Its scores sum to 0.
    ZeroSum = "zero_sum",
    /// No engine tells what it looks at.
    NoSignal = "no_signal",
    /// Neither request nor config tell what it looks at.
    NoFacts = "no_facts",
    /// No candidate has what it looks for.
    Miss = "miss",
    /// Nothing was measured yet.
    NoSamples = "no_samples",
    /// Its model has not learned enough, or errs no less than a mean would.
    NoModel = "no_model",
}

/// Every candidate of a decision, in full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The compact record.
    pub decision: Decision,
    /// The winner's place in `candidates`; none if nothing could be chosen.
    pub winner: Option<usize>,
    /// What a request would be told that is only asked about, if nothing could be chosen for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Verdict>,
    /// In the order of the route's targets and their pools' endpoints.
    pub candidates: Vec<Explained>,
}

/// One candidate of an explanation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Index of the target in the route's spec.
    pub target: u16,
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Requests in flight there, before this one.
    pub inflight: u32,
    /// Ramp penalty, in requests.
    pub penalty: f64,
    /// Why it was not considered.
    pub dropped: Option<Dropped>,
    /// What each policy gave it.
    pub parts: Vec<Part>,
    /// What those of them went by that can say so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reckoned: Vec<(PolicyName, Reckoned)>,
    /// By what modifiers multiplied the sum of its weighted parts.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub factor: f64,
    /// Sum of its weighted parts, times `factor`.
    pub total: f64,
}
