//! Fleets and workloads of the tests.

use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::policies::{Policies, least_inflight, session_affinity};
use weighbridge_core::spec::{
    CooldownSpec, EndpointSpec, FleetSpec, PoolSpec, Protocols, RetrySpec, RouteSpec, TargetSpec, Weight,
};
use weighbridge_sim::drive::{Chooser, DriveError, EngineSpec, Fault, FaultKind, Fleet, Setup, run};
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::{Fate, Run};
use weighbridge_sim::workload::{Request, Workload};

pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(crate) fn pool(name: &str, endpoints: usize) -> PoolSpec {
    let endpoint = |number| EndpointSpec {
        name: format!("e{number}").into(),
        address: format!("{name}{number}").into(),
        weight: Weight::ONE,
        ..EndpointSpec::new("", "")
    };
    PoolSpec {
        name: name.into(),
        endpoints: (1..=endpoints).map(endpoint).collect(),
        keys: 1,
        protocols: Protocols::ANY,
        max_inflight: None,
        breaker: None,
        cooldown: CooldownSpec {
            default: seconds(10.0),
            max: seconds(60.0),
        },
        fail_open: true,
        ramp: Duration::ZERO,
        probe: None,
        stall_after: None,
        ..PoolSpec::new("", Vec::new())
    }
}

pub(crate) fn route(policies: Policies) -> RouteSpec {
    RouteSpec {
        name: "r".into(),
        targets: vec![TargetSpec {
            name: "p".into(),
            pool: 0,
            weight: None,
            order: 1,
            ..TargetSpec::new("", 0)
        }],
        policies,
        spill: true,
        retry: RetrySpec::default(),
        fallback: vec![],
        ..RouteSpec::new("", Vec::new())
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
        label: "test".into(),
        settings: Settings::default(),
        gpus: 1,
        gpu_hour: 2.0,
        first_byte: None,
        start: seconds(20.0),
    }
}

pub(crate) fn setup(pool: PoolSpec, route: RouteSpec) -> Setup {
    Setup {
        fleet: Fleet {
            spec: Arc::new(FleetSpec {
                pools: vec![pool],
                routes: vec![route],
                seed: 1,
                ..FleetSpec::default()
            }),
            engines: vec![engine()],
        },
        route: "r".into(),
        faults: vec![],
        replicas: 1,
        scrape: seconds(1.0),
        seed: 7,
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
