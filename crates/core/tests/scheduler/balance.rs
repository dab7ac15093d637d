//! The weighted sum: bursts, ties, sessions.

use crate::world::{World, at, fleet, policies, pool, route, singles, wait};
use std::collections::BTreeMap;
use weighbridge_core::event::Outcome;
use weighbridge_core::ids::EndpointId;
use weighbridge_core::spec::{EndpointSpec, Weight};

fn one_pool(count: usize, affinity: f64, least: f64, seed: u64) -> World {
    let mut route = route("r", &[0]);
    route.policies = policies(affinity, least);
    World::seeded(fleet(vec![pool("p", count)], vec![route]), seed)
}

/// LB-5.
#[test]
fn sixteen_at_once_on_four_are_four_each() {
    for seed in 0..20 {
        let mut world = one_pool(4, 0.0, 1.0, seed);
        (0..16).for_each(|_| drop(world.get(0)));
        assert!((0..4).all(|i| world.view(0, i).inflight == 4));
    }
}

/// LB-5.
#[test]
fn idle_endpoints_take_turns() {
    let mut world = one_pool(4, 0.0, 1.0, 3);
    for _ in 0..80 {
        world.serve(Outcome::Complete);
    }
    let each: Vec<_> = (0..4).map(|i| world.view(0, i).dispatched).collect();
    assert!(each.iter().all(|n| *n >= 6), "{each:?}");
}

/// χ² over 10,000 draws from 8 equals: p > .001 means below 24.32 with 7 degrees of freedom.
#[test]
fn ties_are_uniform() {
    let mut world = one_pool(8, 0.0, 1.0, 42);
    for _ in 0..10_000 {
        let dispatch = world.get(0);
        assert!(dispatch.decision.tie);
        world.end(&dispatch, Outcome::Complete);
    }
    let expect = 10_000.0 / 8.0;
    let chi2: f64 = (0..8)
        .map(|i| world.view(0, i).dispatched as f64 - expect)
        .map(|off| off * off / expect)
        .sum();
    assert!(chi2 < 24.32, "{chi2}");
}

/// Where each session goes, with nothing in flight.
fn homes(world: &mut World, sessions: usize) -> Vec<EndpointId> {
    (0..sessions)
        .map(|i| {
            let dispatch = world.get_session(&format!("session-{i}"));
            world.end(&dispatch, Outcome::Complete);
            dispatch.endpoint
        })
        .collect()
}

/// LB-3.
#[test]
fn sessions_stick_and_spread() {
    let mut world = one_pool(3, 1.0, 1.0, 1);
    let first = homes(&mut world, 60);
    assert_eq!(first, homes(&mut world, 60));
    let mut other = one_pool(3, 1.0, 1.0, 99);
    assert_eq!(first, homes(&mut other, 60), "the same on every replica");
    let mut counts: BTreeMap<EndpointId, u32> = BTreeMap::new();
    first.iter().for_each(|id| *counts.entry(*id).or_default() += 1);
    assert!(
        counts.len() == 3 && counts.values().all(|n| *n >= 8),
        "{counts:?}"
    );
}

#[test]
fn removal_moves_only_its_own_sessions_each_to_its_second() {
    let mut world = one_pool(5, 1.0, 0.0, 1);
    let before = homes(&mut world, 300);
    let ranked: Vec<Vec<EndpointId>> = (0..300)
        .map(|i| {
            let arrival = world.arrival(0, Some(&format!("session-{i}")));
            let mut all = world.scheduler.explain(world.now, &arrival).unwrap().candidates;
            all.sort_by(|a, b| b.total.total_cmp(&a.total));
            all.iter().map(|c| c.endpoint).collect()
        })
        .collect();
    let gone = world.endpoint(0, 2);
    let mut spec = world.spec.clone();
    spec.pools[0].endpoints.remove(2);
    world.configure(spec);
    let after = homes(&mut world, 300);
    assert!(before.contains(&gone));
    for i in 0..300 {
        let expect = if before[i] == gone {
            ranked[i][1]
        } else {
            before[i]
        };
        assert_eq!(after[i], expect, "session {i}");
    }
}

#[test]
fn adding_moves_about_a_fair_share_and_only_to_the_newcomer() {
    let mut world = one_pool(3, 1.0, 0.0, 1);
    let before = homes(&mut world, 400);
    let mut spec = world.spec.clone();
    spec.pools[0].endpoints.push(EndpointSpec {
        name: "new".into(),
        address: "http://new".into(),
        weight: Weight::ONE,
        ..EndpointSpec::new("", "")
    });
    world.configure(spec);
    let after = homes(&mut world, 400);
    let new = world.endpoint(0, 3);
    let moved = (0..400).filter(|i| before[*i] != after[*i]).count();
    assert!((0..400).all(|i| before[i] == after[i] || after[i] == new));
    assert!((60..=160).contains(&moved), "{moved} of 400; fair is 100");
}

/// LB-3: its sessions move within the same request and stay; others do not; they come home afterwards.
#[test]
fn sessions_leave_a_dead_owner_and_come_home() {
    for outcome in [Outcome::Refused, wait(429, 30)] {
        let mut world = singles(3, |pool, route| {
            route.policies = policies(1.0, 1.0);
            route.retry.budget.floor_per_second = 1000.0;
            pool.ramp = std::time::Duration::ZERO;
        });
        let before = homes(&mut world, 60);
        let dead = world.endpoint(1, 0);
        let mut second = BTreeMap::new();
        for (i, home) in before.iter().enumerate() {
            let mut dispatch = world.get_session(&format!("session-{i}"));
            if dispatch.endpoint == dead {
                dispatch = world.end(&dispatch, outcome).sent();
                assert!(dispatch.decision.session_moved);
            }
            if *home == dead {
                second.insert(i, dispatch.endpoint);
            } else {
                assert_eq!(dispatch.endpoint, *home);
                assert!(!dispatch.decision.session_moved);
            }
            world.end(&dispatch, Outcome::Complete);
        }
        assert!(!second.is_empty());
        for (i, home) in homes(&mut world, 60).iter().enumerate() {
            assert_eq!(*home, second.get(&i).copied().unwrap_or(before[i]));
        }
        world.now = at(40_000);
        assert_eq!(homes(&mut world, 60), before);
    }
}

#[test]
fn orders_serve_one_after_the_other() {
    let mut world = singles(3, |_, route| {
        route.policies = policies(0.0, 1.0);
        route.targets[1].order = 2;
        route.targets[2].order = 2;
    });
    assert!((0..10).all(|_| world.serve(Outcome::Complete) == 0));
    let first = world.get(0);
    assert_eq!(
        (
            first.decision.order,
            first.decision.live,
            first.decision.candidates
        ),
        (1, 1, 3)
    );
    let second = world.end(&first, Outcome::Refused).sent();
    assert_eq!(second.decision.order, 2);
    let third = world.end(&second, Outcome::Refused).sent();
    assert_eq!(third.decision.order, 2);
    assert_ne!(world.pool_of(&second), world.pool_of(&third));
}

/// LB-5: a newcomer under load gets at most twice its fair share at first.
#[test]
fn a_newcomer_is_not_flooded() {
    let mut world = one_pool(4, 0.0, 1.0, 5);
    (0..40).for_each(|_| drop(world.get(0)));
    let mut spec = world.spec.clone();
    spec.pools[0].endpoints.push(EndpointSpec {
        name: "new".into(),
        address: "http://new".into(),
        weight: Weight::ONE,
        ..EndpointSpec::new("", "")
    });
    world.configure(spec);
    for step in 0..100 {
        world.now = at(step * 10);
        drop(world.get(0));
    }
    let got = world.view(0, 4).dispatched;
    assert!((1..=40).contains(&got), "{got} of 100");
    assert!(world.view(0, 4).penalty > 1.0);
    world.now = at(10_000);
    assert!(world.view(0, 4).penalty.abs() < 1e-9);
}

#[test]
fn all_abstaining_is_round_robin() {
    let mut world = singles(3, |_, route| route.policies = policies(1.0, 0.0));
    let first: Vec<_> = (0..3).map(|_| world.serve(Outcome::Complete)).collect();
    assert_eq!(first, [0, 1, 2]);
    let dispatch = world.get(0);
    assert_eq!(dispatch.decision.abstained.len(), 1);
    assert!(dispatch.decision.parts.is_empty() && !dispatch.decision.session_moved);
}
