//! `weight` and `round_robin`: counts of targets and inside them.

use crate::world::{World, fleet, pool, route, singles, weighted};
use proptest::prelude::*;
use weighbridge_core::action::Verdict;
use weighbridge_core::event::{Control, Outcome};
use weighbridge_core::spec::{EndpointSpec, Protocols, RouteBy, Weight};

/// Targets of `n` requests that end at once.
fn counts(world: &mut World, n: usize) -> Vec<usize> {
    let mut counts = vec![0; world.spec.routes[0].targets.len()];
    for _ in 0..n {
        let dispatch = world.get(0);
        counts[usize::from(dispatch.target)] += 1;
        world.end(&dispatch, Outcome::Complete);
    }
    counts
}

#[test]
fn a_quarter_is_a_quarter_however_many_instances() {
    for sizes in [(1, 1), (1, 7), (9, 2)] {
        let pools = vec![pool("a", sizes.0), pool("b", sizes.1)];
        let mut world = World::new(fleet(pools, vec![weighted("r", &[(0, 25.0), (1, 75.0)])]));
        assert_eq!(world.spec.routes[0].route_by(), RouteBy::Weight);
        for _ in 0..5 {
            assert_eq!(counts(&mut world, 100), [25, 75], "{sizes:?}");
            counts(&mut world, 4);
        }
    }
}

/// LB-4.
#[test]
fn tiny_weights_and_zero() {
    let pools = vec![pool("a", 1), pool("b", 1), pool("c", 1)];
    let mut world = World::new(fleet(
        pools,
        vec![weighted("r", &[(0, 0.0), (1, 1.0), (2, 0.005)])],
    ));
    assert_eq!(counts(&mut world, 4020), [0, 4000, 20]);
    let first = world.get(0);
    let second = world.end(&first, Outcome::Refused).sent();
    assert!(first.target != 0 && second.target != 0);
    let end = world.end(&second, Outcome::Refused);
    assert!(
        matches!(end.verdict(), Verdict::Relay { .. }),
        "never the one of weight 0"
    );
}

#[test]
fn round_robin_splits_by_targets_not_endpoints() {
    let mut world = World::new(fleet(vec![pool("a", 1), pool("b", 3)], vec![route("r", &[0, 1])]));
    assert_eq!(counts(&mut world, 100), [50, 50]);
    let each: Vec<_> = (0..3).map(|i| world.view(1, i).dispatched).collect();
    assert!(
        each.iter().all(|n| (16..=17).contains(n)),
        "ties rotate: {each:?}"
    );
}

/// A12: the neighbours of a dead target share its turns.
#[test]
fn a_dead_target_is_made_up_for_by_all() {
    let mut world = singles(3, |pool, _| pool.ramp = std::time::Duration::ZERO);
    counts(&mut world, 7);
    world.control(1, 0, Control::Drain);
    assert_eq!(counts(&mut world, 100), [50, 0, 50]);
    world.control(1, 0, Control::Resume);
    assert_eq!(counts(&mut world, 99), [33, 33, 33], "it is owed nothing");
}

#[test]
fn a_full_target_spills_or_keeps_its_share() {
    for spill in [true, false] {
        let mut small = pool("a", 1);
        small.max_inflight = Some(1);
        let mut route = weighted("r", &[(0, 1.0), (1, 1.0)]);
        route.spill = spill;
        let mut world = World::new(fleet(vec![small, pool("b", 1)], vec![route]));
        let (mut served, mut busy) = ([0, 0], 0);
        for _ in 0..20 {
            match world.ask(0) {
                crate::world::Answer::Sent(dispatch) => served[usize::from(dispatch.target)] += 1,
                crate::world::Answer::Finished(Verdict::Busy { retry_after }) => {
                    assert_eq!(retry_after, std::time::Duration::from_secs(1));
                    busy += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        let expect = if spill { ([1, 19], 0) } else { ([1, 10], 9) };
        assert_eq!((served, busy), expect, "spill {spill}");
    }
}

#[test]
fn inside_a_target_by_endpoint_weight() {
    let mut one = pool("a", 3);
    one.endpoints[0].weight = Weight(4_000_000);
    one.endpoints[1].weight = Weight(3_000_000);
    one.endpoints[2].weight = Weight::ZERO;
    let mut world = World::new(fleet(vec![one], vec![route("r", &[0])]));
    counts(&mut world, 70);
    let each: Vec<_> = (0..3).map(|i| world.view(0, i).dispatched).collect();
    assert_eq!(each, [40, 30, 0]);
    let weight = Control::Weight {
        weight: Some(Weight(3_000_000)),
        until: None,
    };
    world.control(0, 2, weight);
    counts(&mut world, 100);
    let each: Vec<_> = (0..3).map(|i| world.view(0, i).dispatched).collect();
    assert_eq!(each, [80, 60, 30]);
}

#[test]
fn inside_a_target_the_least_busy() {
    let mut world = World::new(fleet(vec![pool("a", 4)], vec![route("r", &[0])]));
    let held: Vec<_> = (0..16).map(|_| world.get(0)).collect();
    assert!((0..4).all(|i| world.view(0, i).inflight == 4));
    let third: Vec<_> = held
        .iter()
        .filter(|d| d.endpoint == world.endpoint(0, 2))
        .collect();
    for one in &third {
        world.end(one, Outcome::Complete);
    }
    for _ in 0..4 {
        assert_eq!(world.get(0).endpoint, world.endpoint(0, 2));
    }
}

/// Retries and requests that a filter kept from a target do not shift the shares, though they choose among the very
/// targets that are live.
#[test]
fn outside_the_count() {
    let mut pools: Vec<_> = (0..4).map(|i| pool(&format!("p{i}"), 1)).collect();
    pools.iter_mut().for_each(|pool| pool.breaker = None);
    pools[0].protocols = Protocols::OPENAI;
    let mut route = weighted("r", &[(0, 1.0), (1, 1.0), (2, 2.0), (3, 3.0)]);
    route.retry.budget.ratio = 1.0;
    let mut world = World::new(fleet(pools, vec![route]));
    for drained in [None, Some(0)] {
        if let Some(pool) = drained {
            world.control(pool, 0, Control::Drain);
        }
        let mut counts = [0; 4];
        for turn in 0..420 {
            if turn % 7 == 3 {
                let mut arrival = world.arrival(0, None);
                arrival.protocols = Protocols::ANTHROPIC;
                let dispatch = world.send(arrival).sent();
                assert_ne!(dispatch.target, 0);
                world.end(&dispatch, Outcome::Complete);
            }
            let dispatch = world.get(0);
            counts[usize::from(dispatch.target)] += 1;
            if turn % 5 == 0 {
                let retry = world.end(&dispatch, crate::world::status(503)).sent();
                assert_ne!(retry.target, dispatch.target);
                world.end(&retry, Outcome::Complete);
            } else {
                world.end(&dispatch, Outcome::Complete);
            }
        }
        let expect = if drained.is_some() {
            [0, 70, 140, 210]
        } else {
            [60, 60, 120, 180]
        };
        assert_eq!(counts, expect);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// |count − n · share| < 3 over any window with an unchanged live set, though endpoints die and come back between
    /// the windows; exact over a period.
    #[test]
    fn any_window(
        targets in prop::collection::vec((1u64..30, 1usize..4), 2..8),
        rounds in prop::collection::vec((any::<prop::sample::Index>(), 0usize..60), 1..6),
    ) {
        let pools: Vec<_> = targets.iter().enumerate().map(|(i, (_, n))| pool(&format!("p{i}"), *n)).collect();
        let weights: Vec<_> = targets.iter().enumerate().map(|(i, (w, _))| (i, *w as f64)).collect();
        let mut world = World::new(fleet(pools, vec![weighted("r", &weights)]));
        let total: u64 = targets.iter().map(|(w, _)| w).sum();
        for (away, n) in rounds {
            let away = away.index(targets.len());
            let near = |counts: &[usize], n: usize, live: &dyn Fn(usize) -> bool| {
                let sum: u64 = targets.iter().enumerate().filter(|(i, _)| live(*i)).map(|(_, (w, _))| w).sum();
                counts.iter().enumerate().all(|(i, count)| {
                    let share = if live(i) { targets[i].0 as f64 / sum as f64 } else { 0.0 };
                    (*count as f64 - n as f64 * share).abs() < 3.0
                })
            };
            let all = counts(&mut world, n);
            prop_assert!(near(&all, n, &|_| true), "{all:?}");
            let period = counts(&mut world, total as usize);
            let exact: Vec<_> = targets.iter().map(|(w, _)| *w as usize).collect();
            prop_assert_eq!(period, exact);
            (0..targets[away].1).for_each(|i| drop(world.control(away, i, Control::Drain)));
            let some = counts(&mut world, n);
            prop_assert!(near(&some, n, &|i| i != away), "{some:?}");
            (0..targets[away].1).for_each(|i| drop(world.control(away, i, Control::Resume)));
        }
    }
}

#[test]
fn a_new_weight_counts_at_once() {
    let mut world = World::new(fleet(
        vec![pool("a", 1), pool("b", 1)],
        vec![weighted("r", &[(0, 3.0), (1, 1.0)])],
    ));
    assert_eq!(counts(&mut world, 400), [300, 100]);
    let spec = fleet(
        vec![pool("a", 1), pool("b", 1)],
        vec![weighted("r", &[(0, 1.0), (1, 1.0)])],
    );
    world.configure(spec);
    assert_eq!(counts(&mut world, 40), [20, 20]);
    let mut third = world.spec.clone();
    third.pools[0].endpoints.push(EndpointSpec {
        name: "new".into(),
        address: "http://new".into(),
        weight: Weight::ONE,
        ..EndpointSpec::new("", "")
    });
    world.configure(third);
    assert_eq!(counts(&mut world, 40), [20, 20]);
}
