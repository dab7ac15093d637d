//! A million sessions pass through the scheduler and leave nothing behind. In a binary of its own, since it measures
//! the memory of its process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

#[allow(dead_code, reason = "made for the tests of the scheduler")]
#[path = "scheduler/world.rs"]
mod world;

use std::time::Duration;
use weighbridge_core::event::{Arrival, Ended, Outcome};
use weighbridge_core::policies::session_affinity::SessionKey;
use weighbridge_core::policies::{Policies, session_affinity};
use weighbridge_core::spec::{FleetSpec, Protocols};
use weighbridge_core::{Action, Event, RequestId, RouteId, Scheduler, Time};

/// Resident memory of this process, KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn lb3_a_million_sessions_do_not_grow_memory() {
    let mut route = world::route("r", &[0]);
    route.policies = Policies {
        session_affinity: Some(session_affinity::Config::default()),
        ..Policies::default()
    };
    let fleet = FleetSpec {
        pools: vec![world::pool("p", 4)],
        routes: vec![route],
        seed: 1,
        ..FleetSpec::default()
    };
    let mut scheduler = Scheduler::new(0);
    let mut actions = Vec::new();
    scheduler.step(Time::ZERO, Event::Configure(fleet.into()), &mut actions);
    let Some(Action::Configured(bindings)) = actions.pop() else {
        panic!("the fleet is configured");
    };
    let mut served = [0_u32; 4];
    let mut early = 0;
    for id in 1..=1_000_000_u64 {
        let now = Time::from_origin(Duration::from_micros(50 * id));
        actions.clear();
        let arrival = Arrival {
            request: RequestId(id),
            route: bindings.routes[0],
            protocols: Protocols::OPENAI,
            session: Some(SessionKey::new(format!("session-{id}").as_bytes())),
            only: None,
            explain: false,
            ..Arrival::new(RequestId(0), RouteId(0))
        };
        scheduler.step(now, Event::Arrive(arrival), &mut actions);
        let dispatch = actions.iter().find_map(|action| match action {
            Action::Dispatch(dispatch) => Some(dispatch),
            _ => None,
        });
        let dispatch = dispatch.expect("it is sent");
        served[dispatch.endpoint.slot as usize] += 1;
        let ended = Ended {
            request: RequestId(id),
            attempt: dispatch.attempt,
            outcome: Outcome::Complete,
            committed: true,
            too_long: false,
            ..Ended::new(RequestId(0), 0, Outcome::Complete)
        };
        scheduler.step(now, Event::Ended(ended), &mut actions);
        if id == 20_000 {
            early = resident_kib();
        }
    }
    let grown = resident_kib().saturating_sub(early);
    assert!(grown < 1024, "{grown} KiB more after a million sessions");
    assert!(
        served.iter().all(|count| count.abs_diff(250_000) < 5_000),
        "{served:?}"
    );
}
