//! Data-parallel ranks of one URL: candidates of their own, of one process.

use crate::world::{World, fleet, pool, probe, route};
use weighbridge_core::event::{Control, Outcome};
use weighbridge_core::spec::{EndpointSpec, PoolSpec};
use weighbridge_core::view::StateKind;
use weighbridge_core::{Action, Event};

/// A URL of two ranks `a#0` and `a#1`, and one of its own, `b`.
fn spec() -> PoolSpec {
    let mut pool = pool("p", 3);
    for (place, rank) in [(0, 0), (1, 1)] {
        pool.endpoints[place] = EndpointSpec {
            rank: Some(rank),
            ..EndpointSpec::new(format!("a#{rank}"), format!("http://a#{rank}"))
        };
    }
    pool
}

fn world(change: impl FnOnce(&mut PoolSpec)) -> World {
    let mut pool = spec();
    change(&mut pool);
    World::new(fleet(vec![pool], vec![route("r", &[0])]))
}

fn states(world: &World) -> [StateKind; 3] {
    [0, 1, 2].map(|place| world.view(0, place).state.kind)
}

#[test]
fn each_rank_has_counts_of_its_own() {
    let mut world = world(|_| ());
    for _ in 0..6 {
        world.get(0);
    }
    assert_eq!([0, 1, 2].map(|place| world.view(0, place).inflight), [2, 2, 2]);
    world.control(0, 1, Control::Drain);
    assert_eq!(
        states(&world),
        [StateKind::Live, StateKind::Draining, StateKind::Live]
    );
}

#[test]
fn a_refused_connection_is_that_of_all_ranks() {
    let mut world = world(|_| ());
    let first = world.get(0);
    assert_eq!(first.endpoint, world.endpoint(0, 0));
    let second = world.end(&first, Outcome::Refused).sent();
    assert_eq!(
        second.endpoint,
        world.endpoint(0, 2),
        "no attempt is lost to another rank"
    );
    assert_eq!(
        states(&world),
        [StateKind::Ejected, StateKind::Ejected, StateKind::Live]
    );
    world.end(&second, Outcome::Complete);
    // One request tries whether the process is back; what it finds holds for both.
    world.until(1_000);
    let mut tried = world.get(0);
    while tried.endpoint == world.endpoint(0, 2) {
        tried = world.get(0);
    }
    world.end(&tried, Outcome::Complete);
    assert_eq!(states(&world), [StateKind::Live; 3]);
}

#[test]
fn what_a_rank_answers_is_its_own() {
    let mut world = world(|_| ());
    let first = world.get(0);
    world.end(&first, crate::world::wait(429, 9));
    assert_eq!(
        states(&world),
        [StateKind::Cooling, StateKind::Live, StateKind::Live]
    );
}

#[test]
fn one_rank_is_probed_for_all() {
    let mut world = world(|pool| pool.probe = Some(probe()));
    let mut probed = Vec::new();
    for round in 1..=3 {
        for action in world.until(round * 5_000) {
            let Action::Probe(endpoint) = action else { continue };
            probed.push(endpoint);
            let healthy = endpoint == world.endpoint(0, 2);
            world.step(Event::Probed { endpoint, healthy });
        }
    }
    assert!(probed.iter().all(|endpoint| *endpoint != world.endpoint(0, 1)));
    assert_eq!(
        probed
            .iter()
            .filter(|endpoint| **endpoint == world.endpoint(0, 0))
            .count(),
        3
    );
    assert_eq!(
        states(&world),
        [StateKind::Unhealthy, StateKind::Unhealthy, StateKind::Live]
    );
    for round in 4..=5 {
        for action in world.until(round * 5_000) {
            let Action::Probe(endpoint) = action else { continue };
            world.step(Event::Probed {
                endpoint,
                healthy: true,
            });
        }
    }
    assert_eq!(states(&world), [StateKind::Live; 3]);
}

#[test]
fn ranks_that_have_gone_are_told_of_nothing() {
    let mut world = world(|_| ());
    let running = world.get(0);
    let mut pool = spec();
    pool.endpoints.remove(0);
    let mut more = world.spec.clone();
    more.pools[0] = pool;
    world.configure(more);
    world.end(&running, Outcome::Refused);
    assert_eq!(
        world.view(0, 0).state.kind,
        StateKind::Live,
        "a#1 has heard nothing of a#0, which left"
    );
}
