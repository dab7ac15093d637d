//! Fleets that the yardsticks choose from, and what became of a run.

use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::policies::Policies;
use weighbridge_core::spec::{
    CooldownSpec, EndpointSpec, FleetSpec, PoolSpec, Protocols, RetrySpec, RouteSpec, TargetSpec, Weight,
};
use weighbridge_sim::drive::{Baseline, Chooser, EngineSpec, Fleet, Setup, run};
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::{Fate, Run};
use weighbridge_sim::workload::Workload;

/// One pool of so many like engines; metrics are read every `scrape`.
pub(crate) fn fleet(engines: usize, settings: &Settings, scrape: Duration) -> Setup {
    let endpoint = |number| EndpointSpec {
        name: format!("e{number}").into(),
        address: format!("e{number}").into(),
        weight: Weight::ONE,
        ..EndpointSpec::new("", "")
    };
    let pool = PoolSpec {
        name: "p".into(),
        endpoints: (0..engines).map(endpoint).collect(),
        keys: 1,
        protocols: Protocols::ANY,
        max_inflight: None,
        breaker: None,
        cooldown: CooldownSpec {
            default: Duration::from_secs(10),
            max: Duration::from_secs(60),
        },
        fail_open: true,
        ramp: Duration::ZERO,
        probe: None,
        stall_after: None,
        ..PoolSpec::new("", Vec::new())
    };
    let route = RouteSpec {
        name: "r".into(),
        targets: vec![TargetSpec {
            name: "p".into(),
            pool: 0,
            weight: None,
            order: 1,
            ..TargetSpec::new("", 0)
        }],
        policies: Policies::default(),
        spill: true,
        retry: RetrySpec::default(),
        fallback: vec![],
        ..RouteSpec::new("", Vec::new())
    };
    let engine = EngineSpec {
        label: "engine".into(),
        settings: settings.clone(),
        gpus: 1,
        gpu_hour: 1.0,
        first_byte: None,
        start: Duration::ZERO,
    };
    Setup {
        fleet: Fleet {
            spec: Arc::new(FleetSpec {
                pools: vec![pool],
                routes: vec![route],
                seed: 1,
                ..FleetSpec::default()
            }),
            engines: vec![engine],
        },
        route: "r".into(),
        faults: vec![],
        replicas: 1,
        scrape,
        seed: 1,
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

/// Share of prompt tokens that came out of a cache.
pub(crate) fn hit_ratio(run: &Run) -> f64 {
    let sum = |of: fn(&weighbridge_sim::outcome::EndpointRun) -> u64| {
        run.endpoints.iter().map(of).sum::<u64>() as f64
    };
    let cached = sum(|endpoint| endpoint.cached_tokens);
    cached / (cached + sum(|endpoint| endpoint.uncached_tokens))
}
