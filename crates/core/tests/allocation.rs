//! A decision allocates its record and nothing that grows with the candidates. In a binary of its own, since it counts
//! what is allocated.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

use allocation_counter::measure;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::event::{Arrival, Ended, Only, Outcome};
use weighbridge_core::policies::{Policies, session_affinity::SessionKey};
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::signals::Reading;
use weighbridge_core::spec::{EndpointSpec, FleetSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_core::work::Work;
use weighbridge_core::{Action, EndpointId, Event, RequestId, RouteId, Scheduler, Time};

/// Within the second of the first decision, so that none of those measured is the one per second that is told in full.
const NOW: Time = Time::ZERO;
const BLOCKS: u64 = 32;

/// The policies of these names, at their defaults.
fn policies(names: &[&str]) -> Policies {
    let named = |name: &&str| ((*name).to_owned(), Value::Object(Map::new()));
    serde_json::from_value(Value::Object(names.iter().map(named).collect())).unwrap()
}

fn arrival(turn: u64) -> Arrival {
    Arrival {
        session: Some(SessionKey::new(&(turn % 7).to_le_bytes())),
        work: Some(Arc::new(Work {
            prompt_tokens: 2_000,
            max_tokens: Some(100),
            blocks: (0..BLOCKS).map(|block| BlockHash(block * 7_919 + 1)).collect(),
            block_tokens: 64,
            ..Work::default()
        })),
        ..Arrival::new(RequestId(turn), RouteId(0))
    }
}

fn fleet(policies: Policies, candidates: usize) -> (Scheduler, Vec<EndpointId>) {
    let endpoint = |place| EndpointSpec::new(format!("e{place}"), format!("http://e{place}"));
    let pool = PoolSpec {
        ramp: Duration::ZERO,
        ..PoolSpec::new("p", (0..candidates).map(endpoint).collect())
    };
    let route = RouteSpec {
        policies,
        ..RouteSpec::new("r", vec![TargetSpec::new("t", 0)])
    };
    let spec = FleetSpec {
        pools: vec![pool],
        routes: vec![route],
        ..FleetSpec::default()
    };
    let (mut scheduler, mut actions) = (Scheduler::new(1), Vec::new());
    scheduler.step(NOW, Event::Configure(Arc::new(spec)), &mut actions);
    let Some(Action::Configured(bindings)) = actions.pop() else {
        panic!("not configured");
    };
    let endpoints = bindings.endpoints.concat();
    for endpoint in endpoints.iter().copied() {
        let reading = Box::new(Reading {
            waiting: Some(1),
            running: Some(2),
            kv_usage: Some(0.5),
            cache_tokens: Some(100_000),
            ..Reading::default()
        });
        scheduler.step(NOW, Event::Scraped { endpoint, reading }, &mut actions);
    }
    (scheduler, endpoints)
}

/// Most blocks of memory that one decision asks for, once the prompt has been everywhere.
fn allocations(policies: &Policies, candidates: usize) -> u64 {
    let (mut scheduler, endpoints) = fleet(policies.clone(), candidates);
    let mut actions = Vec::new();
    let mut most = 0;
    for turn in 1..=candidates + 200 {
        let mut arrival = arrival(turn as u64);
        let warms = endpoints.get(turn - 1);
        arrival.only = warms.map(|endpoint| Only {
            endpoint: *endpoint,
            key: None,
        });
        actions.clear();
        let asked = measure(|| scheduler.step(NOW, Event::Arrive(arrival), &mut actions)).count_total;
        if turn > candidates + 100 {
            most = most.max(asked);
        }
        let Some(Action::Dispatch(dispatch)) = actions.last() else {
            panic!("not sent: {actions:?}");
        };
        let (request, attempt) = (dispatch.request, dispatch.attempt);
        scheduler.step(NOW, Event::FirstToken { request, attempt }, &mut actions);
        let ended = Ended::new(request, attempt, Outcome::Complete);
        scheduler.step(NOW, Event::Ended(ended), &mut actions);
    }
    most
}

#[test]
fn a_decision_allocates_nothing_that_grows_with_the_candidates() {
    for name in Policies::NAMES {
        let policies = policies(&[name]);
        for candidates in [4, 32, 300] {
            // The dispatch itself.
            assert_eq!(
                allocations(&policies, candidates),
                1,
                "{name}, {candidates} candidates"
            );
        }
    }
}

#[test]
fn the_whole_catalogue_at_once_allocates_the_record_alone() {
    let policies = policies(Policies::NAMES);
    for candidates in [4, 32, 300] {
        // The dispatch, the parts of the winner and the runner-up, and who abstained.
        let asked = allocations(&policies, candidates);
        assert!(asked <= 4, "{asked} blocks for {candidates} candidates");
    }
}
