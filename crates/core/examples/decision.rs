//! Decides `--iterations` times among `--candidates` endpoints with both policies and sessions, one request at a time,
//! and prints nothing: for counting instructions (`valgrind --tool=callgrind`). With `--iterations 0` only the set-up
//! runs, so the difference of two runs is the cost of the decisions: arrival, choice, reservation, end.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::event::{Arrival, Ended, Outcome};
use weighbridge_core::ids::RequestId;
use weighbridge_core::policies::{Policies, session_affinity::SessionKey};
use weighbridge_core::spec::{
    BreakerSpec, CooldownSpec, EndpointSpec, FleetSpec, PoolSpec, Protocols, RetrySpec, RouteSpec,
    TargetSpec, Weight,
};
use weighbridge_core::{Action, Event, RouteId, Scheduler, Time};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut iterations, mut candidates) = (1000, 8);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a number"))?;
        match name.as_str() {
            "--iterations" => iterations = value.parse()?,
            "--candidates" => candidates = value.parse()?,
            _ => return Err(format!("{name}: not --iterations or --candidates").into()),
        }
    }
    run(iterations, candidates);
    Ok(())
}

fn run(iterations: u64, candidates: usize) {
    let mut scheduler = Scheduler::new(1);
    let mut actions = Vec::new();
    scheduler.step(
        Time::ZERO,
        Event::Configure(Arc::new(fleet(candidates))),
        &mut actions,
    );
    for turn in 1..=iterations {
        actions.clear();
        let now = Time::from_origin(Duration::from_micros(turn));
        let session = SessionKey::new(&(turn % 1000).to_le_bytes());
        let arrival = Arrival {
            request: RequestId(turn),
            route: RouteId(0),
            protocols: Protocols::OPENAI,
            session: Some(session),
            only: None,
            explain: false,
            ..Arrival::new(RequestId(0), RouteId(0))
        };
        scheduler.step(now, Event::Arrive(arrival), &mut actions);
        if let Some(Action::Dispatch(dispatch)) = actions.last() {
            let ended = Ended {
                request: dispatch.request,
                attempt: dispatch.attempt,
                outcome: Outcome::Complete,
                committed: true,
                too_long: false,
                ..Ended::new(RequestId(0), 0, Outcome::Complete)
            };
            scheduler.step(now, Event::Ended(ended), &mut actions);
        }
        std::hint::black_box(&actions);
    }
}

/// One pool of `candidates` endpoints with names of the usual length.
fn fleet(candidates: usize) -> FleetSpec {
    FleetSpec {
        pools: vec![PoolSpec {
            name: "qwen3-32b".into(),
            endpoints: (0..candidates)
                .map(|i| EndpointSpec {
                    name: format!("gpu{i:03}.example:8000").into(),
                    address: format!("http://gpu{i:03}.example:8000").into(),
                    weight: Weight::ONE,
                    ..EndpointSpec::new("", "")
                })
                .collect(),
            keys: 1,
            protocols: Protocols::ANY,
            max_inflight: Some(256),
            breaker: Some(BreakerSpec {
                window: Duration::from_secs(30),
                min_requests: 10,
                error_rate: 0.1,
                consecutive: 5,
                open_for: Duration::from_secs(10),
            }),
            cooldown: CooldownSpec {
                default: Duration::from_secs(5),
                max: Duration::from_secs(60),
            },
            fail_open: true,
            ramp: Duration::from_secs(10),
            probe: None,
            stall_after: None,
            ..PoolSpec::new("", Vec::new())
        }],
        routes: vec![RouteSpec {
            name: "qwen3".into(),
            targets: vec![TargetSpec {
                name: "qwen3-32b".into(),
                pool: 0,
                weight: None,
                order: 1,
                ..TargetSpec::new("", 0)
            }],
            policies: Policies {
                session_affinity: Some(Default::default()),
                least_inflight: Some(Default::default()),
                ..Policies::default()
            },
            spill: true,
            retry: RetrySpec::default(),
            fallback: Vec::new(),
            ..RouteSpec::new("", Vec::new())
        }],
        seed: 0,
        ..FleetSpec::default()
    }
}
