//! Fleets and workloads of the tests.

use std::time::Duration;
use weighbridge_core::policies::{Policies, least_inflight, session_affinity};
use weighbridge_core::spec::{CooldownSpec, EndpointSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_sim::drive::{Chooser, DriveError, EngineSpec, Fault, FaultKind, Setup, run};
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::{Fate, Run};
use weighbridge_sim::workload::{Request, Workload};

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(crate) fn pool(name: &str, endpoints: usize) -> PoolSpec {
    let endpoint = |number| EndpointSpec::new(format!("e{number}"), format!("{name}{number}"));
    PoolSpec {
        breaker: None,
        cooldown: CooldownSpec {
            default: seconds(10.0),
            max: seconds(60.0),
        },
        ramp: Duration::ZERO,
        ..PoolSpec::new(name, (1..=endpoints).map(endpoint).collect())
    }
}

pub(crate) fn route(policies: Policies) -> RouteSpec {
    RouteSpec {
        policies,
        ..RouteSpec::new("r", vec![TargetSpec::new("p", 0)])
    }
}

pub(crate) fn least_inflight() -> Policies {
    Policies {
        least_inflight: Some(least_inflight::Config::default()),
        ..Policies::default()
    }
}

pub(crate) fn affinity() -> Policies {
    Policies {
        session_affinity: Some(session_affinity::Config::default()),
        ..Policies::default()
    }
}

pub(crate) fn engine() -> EngineSpec {
    EngineSpec {
        gpu_hour: 2.0,
        start: seconds(20.0),
        ..EngineSpec::new("test", Settings::default())
    }
}

pub(crate) fn setup(pool: PoolSpec, route: RouteSpec) -> Setup {
    Setup {
        seed: 7,
        ..Setup::new(vec![(pool, engine())], route)
    }
}

pub(crate) fn fault(at: f64, endpoint: &str, kind: FaultKind) -> Fault {
    Fault {
        at: seconds(at),
        endpoint: ("p".into(), endpoint.into()),
        kind,
    }
}

pub(crate) fn request(at: f64, prompt: u32, output: u32) -> Request {
    Request {
        at: seconds(at),
        after: None,
        prompt_tokens: prompt,
        output_tokens: output,
        blocks: [].into(),
        session: None,
        tenant: 0,
        class: 0,
    }
}

/// `many` requests, `gap` seconds apart.
pub(crate) fn steady(many: u32, gap: f64) -> Workload {
    Workload {
        name: "steady".into(),
        requests: (0..many)
            .map(|number| request(f64::from(number) * gap, 300, 40 + number % 50))
            .collect(),
        ..Workload::default()
    }
}

pub(crate) fn driven(setup: &Setup, workload: &Workload) -> Result<Run, DriveError> {
    run(setup, workload, Chooser::Scheduler, &mut |_| {})
}

pub(crate) fn with(run: &Run, fate: Fate) -> usize {
    run.records.iter().filter(|record| record.fate == fate).count()
}
