//! One rule on one workload with one seed.

use crate::floor::{Floor, floors};
use crate::workloads::{Bench, Case, CaseError, Slice};
use crate::yardsticks::Yardstick;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::policies::Policies;
use weighbridge_sim::drive::{Chooser, Setup, run};
use weighbridge_sim::outcome::Run;
use weighbridge_sim::report::{Objectives, Summary};
use weighbridge_sim::workload::Workload;

/// How often yardsticks get to see engines' metrics: llm-d reads them this often, and what is good for it does the others no harm.
/// The product reads them every second, as it does by default.
pub const YARDSTICK_SCRAPE: Duration = Duration::from_millis(50);

/// Who chooses.
#[derive(Clone)]
pub enum Rule {
    /// An algorithm of the field.
    Yardstick(Yardstick),
    /// The product's scheduler with these policies.
    Policies {
        /// What they are called in reports.
        name: String,
        /// The policies; empty: round robin.
        policies: Box<Policies>,
        /// Whether engines tell it what their caches hold.
        kv_events: bool,
    },
}

impl Rule {
    /// Its name with its settings.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Yardstick(yardstick) if yardstick.settings.is_empty() => yardstick.family.to_owned(),
            Self::Yardstick(yardstick) => format!("{} ({})", yardstick.family, yardstick.settings),
            Self::Policies { name, .. } => name.clone(),
        }
    }
}

/// What came of it. Times are in seconds, over answered requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Mean time to the first token.
    pub ttft_mean: f64,
    /// Its median.
    pub ttft_p50: f64,
    /// What one in ten waits longer than.
    pub ttft_p90: f64,
    /// What one in a hundred waits longer than.
    pub ttft_p99: f64,
    /// Time per token after the first that one in ten exceeds.
    pub tpot_p90: f64,
    /// Share of all requests that were answered within their bounds.
    pub goodput: f64,
    /// Share of prompt tokens that came out of a cache.
    pub hits: f64,
    /// Share of the time that engines computed.
    pub busy: f64,
    /// Prompt tokens to compute of the busiest engine over those of the mean.
    pub busiest: f64,
    /// Share of requests that were not answered.
    pub lost: f64,
    /// Tokens of answers per second, from the first request to the end of the last.
    pub tokens_per_second: f64,
    /// Tokens of answers per second in which a GPU computed.
    pub tokens_per_busy_second: f64,
}

/// Why a trial failed.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The case cannot be made.
    #[error("{0}")]
    Case(#[from] CaseError),
    /// The run is not possible.
    #[error("{0}")]
    Run(#[from] weighbridge_sim::drive::DriveError),
}

/// A case with its requests, made once for all rules.
pub struct Stage {
    workload: Workload,
    setup: Setup,
}

impl Stage {
    /// Makes the requests and the fleet.
    ///
    /// # Errors
    /// The data is not there.
    pub fn new(case: &Case, bench: &Bench, (slice, seed): (Slice, u64)) -> Result<Self, CaseError> {
        let workload = case.workload(bench, (slice, seed))?;
        let setup = case.setup(&workload, seed)?;
        Ok(Self { workload, setup })
    }

    /// Requests there are.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.workload.requests.len()
    }

    /// Requests per second until the last is due, those of later turns counted too.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "requests are far below 2^53")]
    pub fn rate(&self) -> f64 {
        let first_turns = self
            .workload
            .requests
            .iter()
            .filter(|request| request.after.is_none());
        let end = first_turns.map(|request| request.at).max().unwrap_or_default();
        self.requests() as f64 / end.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Runs it under a rule.
    ///
    /// # Errors
    /// A bug of the lab or the simulator.
    pub fn run(&self, rule: &Rule) -> Result<Outcome, TrialError> {
        let run = self.records(rule)?;
        let summary = Summary::of(&run, &self.workload, &Objectives::default());
        Ok(Outcome::of(&summary))
    }

    /// The least that any rule can reach that answers all requests.
    #[must_use]
    pub fn floor(&self) -> Floor {
        Floor::of(self.floors().into_iter().flatten())
    }

    /// The least time to the first token of each request; none of those that no engine takes.
    #[must_use]
    pub fn floors(&self) -> Vec<Option<Duration>> {
        floors(&self.workload, &self.setup)
    }

    /// Runs it under a rule: what came of each request.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn records(&self, rule: &Rule) -> Result<Run, TrialError> {
        let mut setup = self.setup.clone();
        let chooser = match rule {
            Rule::Yardstick(yardstick) => {
                setup.scrape = YARDSTICK_SCRAPE;
                // A workload without blocks has nothing to match; a block that no prompt fills stands for that.
                let tokens = self.workload.block_tokens.max(1);
                let replicas = (0..setup.replicas).map(|replica| {
                    (yardstick.make)(tokens, setup.seed.wrapping_mul(1000).wrapping_add(replica.into()))
                });
                Chooser::Baseline(replicas.collect())
            }
            Rule::Policies {
                policies, kv_events, ..
            } => {
                for engine in &mut setup.fleet.engines {
                    engine.kv_events = *kv_events;
                }
                let mut spec = (*setup.fleet.spec).clone();
                for route in &mut spec.routes {
                    route.policies.clone_from(policies);
                }
                setup.fleet.spec = Arc::new(spec);
                Chooser::Scheduler
            }
        };
        Ok(run(&setup, &self.workload, chooser, &mut |_| {})?)
    }
}

impl Outcome {
    fn of(summary: &Summary) -> Self {
        let served = &summary.served;
        let ttft = served.ttft.unwrap_or_default();
        Self {
            ttft_mean: ttft.mean,
            ttft_p50: ttft.p50,
            ttft_p90: ttft.p90,
            ttft_p99: ttft.p99,
            tpot_p90: served.tpot.unwrap_or_default().p90,
            goodput: served.goodput_share.unwrap_or_default(),
            hits: served.hit_ratio.unwrap_or_default(),
            busy: summary.fleet.busy_share.unwrap_or_default(),
            busiest: summary.fleet.uncached_busiest_over_mean.unwrap_or_default(),
            lost: share(served.requests - served.answered, served.requests),
            tokens_per_second: served.output_tokens_per_second,
            tokens_per_busy_second: per_busy_second(summary),
        }
    }

    /// The mean of some.
    #[must_use]
    pub fn mean(all: &[Self]) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "seeds are few")]
        let count = all.len().max(1) as f64;
        let mean = |figure: fn(&Self) -> f64| all.iter().map(figure).sum::<f64>() / count;
        Self {
            ttft_mean: mean(|outcome| outcome.ttft_mean),
            ttft_p50: mean(|outcome| outcome.ttft_p50),
            ttft_p90: mean(|outcome| outcome.ttft_p90),
            ttft_p99: mean(|outcome| outcome.ttft_p99),
            tpot_p90: mean(|outcome| outcome.tpot_p90),
            goodput: mean(|outcome| outcome.goodput),
            hits: mean(|outcome| outcome.hits),
            busy: mean(|outcome| outcome.busy),
            busiest: mean(|outcome| outcome.busiest),
            lost: mean(|outcome| outcome.lost),
            tokens_per_second: mean(|outcome| outcome.tokens_per_second),
            tokens_per_busy_second: mean(|outcome| outcome.tokens_per_busy_second),
        }
    }
}

/// Tokens of answers over the seconds in which GPUs computed; 0 where none did.
fn per_busy_second(summary: &Summary) -> f64 {
    let busy = summary.fleet.gpu_seconds * summary.fleet.busy_share.unwrap_or_default();
    match busy > 0.0 {
        true => summary.served.output_tokens_per_second * summary.fleet.duration_seconds / busy,
        false => 0.0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "requests are far below 2^53")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
