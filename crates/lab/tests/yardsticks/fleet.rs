//! Fleets that the yardsticks choose from, and what became of a run.

use std::time::Duration;
use weighbridge_core::spec::{CooldownSpec, EndpointSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_sim::drive::{Baseline, Chooser, EngineSpec, Setup, run};
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::{Fate, Run};
use weighbridge_sim::workload::Workload;

/// One pool of so many like engines; metrics are read every `scrape`.
pub(crate) fn fleet(engines: usize, settings: &Settings, scrape: Duration) -> Setup {
    let endpoint = |number| EndpointSpec::new(format!("e{number}"), format!("e{number}"));
    let pool = PoolSpec {
        breaker: None,
        cooldown: CooldownSpec {
            default: Duration::from_secs(10),
            max: Duration::from_secs(60),
        },
        ramp: Duration::ZERO,
        ..PoolSpec::new("p", (0..engines).map(endpoint).collect())
    };
    let route = RouteSpec::new("r", vec![TargetSpec::new("p", 0)]);
    Setup {
        scrape,
        ..Setup::new(vec![(pool, EngineSpec::new("engine", settings.clone()))], route)
    }
}

/// Runs it under a yardstick; all requests are answered.
pub(crate) fn under(baseline: Box<dyn Baseline>, setup: &Setup, workload: &Workload) -> Run {
    let chooser = Chooser::Baseline(vec![baseline]);
    let run = run(setup, workload, chooser, &mut |_| {}).unwrap();
    assert!(run.records.iter().all(|record| record.fate == Fate::Answered));
    run
}

/// Requests of the fullest endpoint, as a multiple of an even share.
pub(crate) fn largest_share(run: &Run) -> f64 {
    let attempts = || run.endpoints.iter().map(|endpoint| endpoint.attempts);
    let most = attempts().max().unwrap_or(0) as f64;
    most * run.endpoints.len() as f64 / attempts().sum::<u64>() as f64
}

/// Times to the first token in seconds, in order.
pub(crate) fn first_tokens(run: &Run) -> Vec<f64> {
    let waited = |record: &weighbridge_sim::outcome::Record| record.first.map(|first| first - record.arrived);
    let mut seconds: Vec<f64> = run
        .records
        .iter()
        .filter_map(waited)
        .map(|t| t.as_secs_f64())
        .collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

/// Mean of some values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
