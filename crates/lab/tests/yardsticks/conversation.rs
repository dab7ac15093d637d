//! The first half of Mooncake's conversation trace on eight engines: Llama-3.1-8B on one RTX PRO 6000 each, whose
//! coefficients are measured. Gauges are read every second.

use crate::field::named;
use crate::fleet::{first_tokens, fleet, largest_share, mean, under};
use crate::hit_ratios::mooncake;
use std::time::Duration;
use weighbridge_lab::yardsticks::Make;
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::Run;
use weighbridge_sim::workload::{Workload, transform};

/// So many requests of the trace, at `speed` times its rate.
pub(crate) fn workload(requests: usize, speed: f64) -> Workload {
    let mut workload = mooncake();
    transform::first(&mut workload, requests);
    transform::speed_up(&mut workload, speed);
    transform::jitter(&mut workload, 1);
    workload
}

/// What the table says of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// Share of prompt tokens from caches.
    pub(crate) hits: f64,
    /// Mean seconds to the first token.
    pub(crate) first_token: f64,
    /// Seconds that one in ten waits longer than.
    pub(crate) p90: f64,
    /// Requests of the fullest engine, as a multiple of an even share.
    pub(crate) share: f64,
}

/// The trace under a yardstick.
pub(crate) fn run(workload: &Workload, make: &Make) -> Row {
    let setup = fleet(8, &Settings::default(), Duration::from_secs(1));
    let run: Run = under(make(workload.block_tokens, 1), &setup, workload);
    let waits = first_tokens(&run);
    Row {
        hits: run.hit_ratio(),
        first_token: mean(&waits),
        p90: waits[waits.len() * 9 / 10],
        share: largest_share(&run),
    }
}

/// The paper: a mean time to the first token 52 % below that of a tuned linear scorer.
#[test]
fn lmetric_beats_linear_scorers() {
    let workload = workload(2000, 1.0);
    let wait = |name: &str| run(&workload, &named(name)).first_token;
    let product = wait("LMetric");
    for linear in ["llm-d, approximate", "llm-d, precise"] {
        let sum = wait(linear);
        assert!(product < 0.7 * sum, "{product} s against {sum} s of {linear}");
    }
}
