//! What came of a run: one record per request, and how each endpoint fared.

use std::sync::Arc;
use std::time::Duration;

/// Everything that a report is made of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// One per request of the workload, in its order.
    pub records: Vec<Record>,
    /// One per endpoint that took part, in the order of the fleet, those added later at the end.
    pub endpoints: Vec<EndpointRun>,
    /// Time between two points of [`EndpointRun::points`].
    pub step: Duration,
    /// When the last request ended.
    pub ended: Duration,
    /// Attempts that were sent, retries among them.
    pub attempts: u64,
    /// Decisions of the scheduler, or of the baseline in its place.
    pub decisions: u64,
}

impl Run {
    /// Share of the prompt tokens that engines began with which their caches held; NaN: they began with none.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "tokens are far below 2^53")]
    pub fn hit_ratio(&self) -> f64 {
        let cached: u64 = self.endpoints.iter().map(|endpoint| endpoint.cached_tokens).sum();
        let uncached: u64 = self
            .endpoints
            .iter()
            .map(|endpoint| endpoint.uncached_tokens)
            .sum();
        cached as f64 / (cached + uncached) as f64
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// When the client sent it.
    pub arrived: Duration,
    /// When the attempt that was answered, or the last one, went to its engine. None: none was made.
    pub sent: Option<Duration>,
    /// When its engine began with it.
    pub scheduled: Option<Duration>,
    /// First token.
    pub first: Option<Duration>,
    /// Last token, or when it was given up.
    pub ended: Duration,
    /// How it ended.
    pub fate: Fate,
    /// Place in [`Run::endpoints`] of the endpoint that `sent` went to.
    pub endpoint: Option<u32>,
    /// Attempts made.
    pub attempts: u32,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Of those, tokens that the engine had in its cache.
    pub cached_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
    /// Place in [`crate::workload::Workload::tenants`].
    pub tenant: u16,
    /// Place in [`crate::workload::Workload::classes`].
    pub class: u16,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Answered in full.
    Answered,
    /// All candidates were full or cooling: 429.
    Rejected,
    /// Nothing was in service: 503.
    Unavailable,
    /// No engine of the fleet can hold it: longer than its context.
    TooLong,
    /// No first token came in time: 504.
    TimedOut,
    /// Its engine failed, and no other was tried or left.
    Failed,
}

/// One endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointRun {
    /// Its pool.
    pub pool: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// GPUs it takes.
    pub gpus: u32,
    /// What one of them costs an hour; the currency is the user's.
    pub gpu_hour: f64,
    /// What tokens cost there, of prompts and of answers per million; none: not known.
    pub price: Option<(f64, f64)>,
    /// Whether it is in another zone than the gateway; none: not known.
    pub elsewhere: Option<bool>,
    /// Time for which it takes its GPUs: from its start, or its addition, to the end of the run, or after its removal to the end
    /// of what ran there.
    pub in_service: Duration,
    /// Time in which its engine computed.
    pub busy: Duration,
    /// Attempts that it got.
    pub attempts: u64,
    /// Prompt tokens that it had to compute.
    pub uncached_tokens: u64,
    /// Prompt tokens of its cache.
    pub cached_tokens: u64,
    /// Tokens that it generated.
    pub output_tokens: u64,
    /// Times that a running sequence lost its blocks.
    pub preemptions: u64,
    /// Its state over time, every [`Run::step`] from the start on.
    pub points: Vec<Point>,
}

/// An endpoint at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Sequences that compute.
    pub running: u32,
    /// Sequences that wait inside the engine.
    pub waiting: u32,
    /// Share of the cache that running sequences hold, 0 to 1.
    pub kv_usage: f32,
    /// Whether it is in service.
    pub up: bool,
}
