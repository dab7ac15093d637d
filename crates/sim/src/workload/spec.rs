//! What a generated workload is made of, as a file says it.

mod check;
mod span;
mod spread;

pub use check::{Problem, SpecError};
pub use span::Span;
pub use spread::{LogNormal, Quantity, Spread};

use serde::Deserialize;

/// A generated workload: components that arrive together or each in its own way.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spec {
    /// For reports.
    #[serde(default = "unnamed")]
    pub name: String,
    /// Tokens of a block that can be shared; engines use blocks of this size.
    #[serde(default = "block_tokens")]
    pub block_tokens: u32,
    /// Ends with this many requests. Conversations that are under way then are cut.
    pub requests: Option<u32>,
    /// Nothing and nobody new arrives after this; conversations that are under way then go on.
    pub duration: Option<Span>,
    /// Common arrivals: each goes to one of the components without arrivals of their own, by weight.
    pub arrivals: Option<Arrivals>,
    /// Whom requests belong to.
    pub tenants: Option<Tenants>,
    /// Most requests that the clients have under way at once; those beyond wait at the client.
    pub max_concurrency: Option<u32>,
    /// Kinds of requests.
    pub components: Vec<Component>,
}

/// One kind of requests; a class of the workload.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// Its name, unlike that of the others.
    pub name: String,
    /// Share of the common arrivals, next to the other components' weights.
    pub weight: Option<f64>,
    /// Arrivals of its own instead of a share of the common ones.
    pub arrivals: Option<Arrivals>,
    /// Users who wait for their answer before they ask again, instead of arrivals.
    pub closed_loop: Option<ClosedLoop>,
    /// What counts as served in time.
    #[serde(default)]
    pub slo: Bounds,
    /// Beginnings of the prompt that requests share, one after the other: a system prompt, then a document.
    #[serde(default)]
    pub shared: Vec<Shared>,
    /// Tokens of the prompt that are new, after what is shared or was said before.
    pub question: Spread<u32>,
    /// Tokens of the answer.
    pub output: Spread<u32>,
    /// Conversations of several turns; none: each request stands alone.
    pub sessions: Option<Sessions>,
}

/// Bounds of an answer that counts as served in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Time to first token.
    pub ttft: Option<Span>,
    /// Time per token after the first, the mean of one answer.
    pub tpot: Option<Span>,
    /// From the request to the last token.
    pub e2e: Option<Span>,
}

/// When requests, or first turns of conversations, arrive.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// How the gaps between them spread.
    #[serde(default)]
    pub process: Process,
    /// Coefficient of variation of the gaps, for `gamma`: above 1 in bunches, below 1 more even than chance.
    pub cv: Option<f64>,
    /// Arrivals per second, before bursts and the time of day.
    pub rate: Option<f64>,
    /// Rates one after the other, instead of one `rate`; the last one's end is the end.
    #[serde(default)]
    pub stages: Vec<Stage>,
    /// Times in which the rate is multiplied.
    #[serde(default)]
    pub bursts: Vec<Burst>,
    /// A rate that swings with the time of day.
    pub diurnal: Option<Diurnal>,
}

/// How gaps between arrivals spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Process {
    /// Many independent clients: exponential gaps.
    #[default]
    Poisson,
    /// Gamma gaps, burstier or more even by `cv`.
    Gamma,
    /// Equal gaps.
    Constant,
}

/// A rate for a time.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Arrivals per second; 0 is a pause.
    pub rate: f64,
    /// How long.
    pub duration: Span,
}

/// A time in which the rate is multiplied; overlapping ones multiply each other.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// When it begins first.
    pub from: Span,
    /// How long it lasts.
    pub lasts: Span,
    /// What the rate is multiplied with: 4 is +300 %, 0 is silence.
    pub factor: f64,
    /// It comes again this long after it began; none: once.
    pub every: Option<Span>,
}

/// A sinusoid around the rate, lowest at the start, highest half a period later.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diurnal {
    /// From trough to trough.
    #[serde(default = "day")]
    pub period: Span,
    /// Highest rate ÷ lowest rate, at least 1. Their mean is the rate.
    pub peak_ratio: f64,
}

/// Users of a closed loop.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosedLoop {
    /// How many.
    pub users: u32,
    /// Requests that each of them makes.
    pub requests: u32,
    /// From an answer's end to the next request; in conversations only between two of them.
    #[serde(default = "Spread::zero")]
    pub think: Spread<Span>,
    /// First requests are spread evenly over this time; none: all at once.
    pub ramp: Option<Span>,
}

/// A beginning that requests share.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shared {
    /// Its length; drawn once for each group.
    pub tokens: Spread<u32>,
    /// How many different ones there are.
    #[serde(default = "one")]
    pub groups: u32,
    /// Who gets which.
    #[serde(default)]
    pub choice: Choice,
    /// For `zipf`: group k is chosen in proportion to 1/k^skew.
    pub skew: Option<f64>,
    /// Different questions per group; with this, equal questions come again, and share all of their prompt. None: each
    /// question is asked once. For the last of the shared beginnings.
    pub prompts: Option<u32>,
}

/// Who gets which group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// All alike.
    #[default]
    Uniform,
    /// Some far more often than others.
    Zipf,
    /// All in turn, in an order that is shuffled once; with `prompts`, all their prompts.
    Cycle,
    /// Each tenant has its own; with fewer groups than tenants some share.
    Tenant,
}

/// Conversations: each turn's prompt is what was said before, with its answers, and a new question.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// Turns of one conversation.
    pub turns: Spread<u32>,
    /// From an answer's end to the next turn.
    pub think: Spread<Span>,
    /// Tokens of the first question; none: as all questions.
    pub opening: Option<Spread<u32>>,
    /// A conversation ends before a prompt and its answer would exceed this many tokens.
    pub context_max: Option<u32>,
}

/// Whom requests belong to. A conversation or a closed loop's user belongs to one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenants {
    /// How many.
    pub count: u16,
    /// Tenant k sends in proportion to 1/k^skew; 0: all alike.
    #[serde(default = "zipf_skew")]
    pub skew: f64,
}

impl Spec {
    /// A spec of nothing but these components.
    #[must_use]
    pub fn new(name: &str, components: Vec<Component>) -> Self {
        Self {
            name: name.to_owned(),
            block_tokens: block_tokens(),
            requests: None,
            duration: None,
            arrivals: None,
            tenants: None,
            max_concurrency: None,
            components,
        }
    }
}

impl Component {
    /// Requests that stand alone and share nothing.
    #[must_use]
    pub fn new(name: &str, question: Spread<u32>, output: Spread<u32>) -> Self {
        Self {
            name: name.to_owned(),
            weight: None,
            arrivals: None,
            closed_loop: None,
            slo: Bounds::default(),
            shared: Vec::new(),
            question,
            output,
            sessions: None,
        }
    }
}

fn unnamed() -> String {
    "generated".to_owned()
}

const fn block_tokens() -> u32 {
    16
}

const fn one() -> u32 {
    1
}

const fn zipf_skew() -> f64 {
    1.0
}

const fn day() -> Span {
    Span::seconds(86_400)
}
