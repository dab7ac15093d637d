//! CFG-1, for the scheduler's part: what a reload keeps, and what it ends.

use crate::world::{Answer, World, at, fleet, ms, pool, route, singles, status, wait, weighted};
use weighbridge_core::action::Verdict;
use weighbridge_core::event::{Control, Outcome};
use weighbridge_core::spec::{EndpointSpec, Weight};
use weighbridge_core::view::StateKind;
use weighbridge_core::{Event, RouteId};

#[test]
fn names_keep_ids_health_counts_and_hands_on() {
    let mut world = singles(3, |_, route| route.retry.max_attempts = 1);
    let held = world.get(0);
    world.serve(wait(429, 30));
    world.control(2, 0, Control::Drain);
    let weight = Control::Weight {
        weight: Some(Weight(2_000_000)),
        until: None,
    };
    world.control(0, 0, weight);
    let (ids, before) = (world.ids.clone(), world.scheduler.view(world.now));
    let mut spec = world.spec.clone();
    spec.pools.reverse();
    spec.routes[0]
        .targets
        .iter_mut()
        .for_each(|target| target.pool = 2 - target.pool);
    spec.routes.insert(0, route("other", &[0]));
    world.configure(spec);
    assert_eq!(world.ids.routes[1], ids.routes[0]);
    assert_eq!(world.ids.endpoints[0], ids.endpoints[2]);
    let mut after = world.scheduler.view(world.now);
    after.endpoints.reverse();
    assert_eq!(after.endpoints, before.endpoints);
    world.end(&held, Outcome::Complete).relays(None);
}

#[test]
fn turns_of_an_unchanged_route_go_on() {
    let pools = || vec![pool("a", 1), pool("b", 1)];
    let mut world = World::new(fleet(pools(), vec![weighted("r", &[(0, 1.0), (1, 3.0)])]));
    let mut counts = [0; 2];
    for turn in 0..40 {
        counts[world.serve(Outcome::Complete)] += 1;
        if turn % 3 == 0 {
            world.configure(world.spec.clone());
        }
    }
    assert_eq!(counts, [10, 30]);
}

#[test]
fn a_removed_endpoint_lingers_until_idle_and_its_place_is_used_again() {
    let mut world = World::new(fleet(vec![pool("p", 2)], vec![route("r", &[0])]));
    let held = [world.get(0), world.get(0)];
    let gone = world.endpoint(0, 1);
    let stream = held.iter().find(|d| d.endpoint == gone).unwrap();
    let mut spec = world.spec.clone();
    let old = spec.pools[0].endpoints.pop().unwrap();
    world.configure(spec.clone());
    let view = world.scheduler.view(world.now);
    let last = view.endpoints.last().unwrap();
    assert!(last.removed && last.id == gone && last.inflight == 1);
    assert_eq!(
        (last.state.kind, last.state.reason.as_str()),
        (StateKind::Draining, "removed")
    );
    assert!((0..5).all(|_| world.get(0).endpoint != gone));
    world.end(stream, Outcome::Complete).relays(None);
    assert_eq!(world.scheduler.view(world.now).endpoints.len(), 1);
    spec.pools[0].endpoints.push(EndpointSpec {
        address: "http://elsewhere".into(),
        ..old
    });
    world.configure(spec);
    let new = world.endpoint(0, 1);
    assert_eq!((new.slot, new.generation), (gone.slot, gone.generation + 1));
    let late = world.step(Event::Control {
        endpoint: gone,
        command: Control::Drain,
    });
    assert!(late.is_empty());
    assert_eq!(
        world.view(0, 1).state.kind,
        StateKind::Live,
        "a late event does not touch it"
    );
}

#[test]
fn another_address_is_another_endpoint() {
    let mut world = singles(1, |_, _| ());
    world.serve(wait(429, 30));
    let before = world.endpoint(0, 0);
    let mut spec = world.spec.clone();
    spec.pools[0].endpoints[0].address = "http://moved".into();
    world.configure(spec);
    assert_ne!(world.endpoint(0, 0), before);
    assert_eq!(world.state(0), StateKind::Live);
}

#[test]
fn only_newcomers_of_a_serving_pool_ramp() {
    let mut world = World::new(fleet(vec![pool("p", 1)], vec![route("r", &[0])]));
    assert!(world.view(0, 0).penalty.abs() < 1e-9, "not at the start");
    world.until(1_000);
    let mut spec = fleet(
        vec![pool("p", 2), pool("q", 1)],
        vec![route("r", &[0]), route("s", &[1])],
    );
    spec.pools[0].ramp = std::time::Duration::from_secs(4);
    world.configure(spec);
    assert!(world.view(0, 0).penalty.abs() < 1e-9);
    assert!((world.view(0, 1).penalty - 1.0).abs() < 1e-9);
    assert!(world.view(1, 0).penalty.abs() < 1e-9, "a pool of its own");
    world.now = at(3_000);
    assert!((world.view(0, 1).penalty - 0.5).abs() < 1e-9);
}

#[test]
fn running_requests_keep_the_route_they_came_to() {
    let mut world = singles(2, |_, _| ());
    let first = world.get(0);
    let mut spec = world.spec.clone();
    spec.routes[0].retry.max_attempts = 1;
    spec.routes[0].targets.reverse();
    world.configure(spec.clone());
    let second = world.end(&first, status(503)).sent();
    assert_ne!(first.endpoint, second.endpoint);
    let old = world.ids.routes[0];
    spec.routes[0].name = "renamed".into();
    world.configure(spec);
    world.end(&second, Outcome::Complete).relays(None);
    assert_ne!(world.ids.routes[0], old);
    let mut arrival = world.arrival(0, None);
    arrival.route = old;
    assert_eq!(world.send(arrival).verdict(), Verdict::NoRoute);
    let mut arrival = world.arrival(0, None);
    arrival.route = RouteId(99);
    assert_eq!(world.send(arrival).verdict(), Verdict::NoRoute);
}

#[test]
fn a8_a_retry_goes_to_endpoints_that_joined_since() {
    let mut world = World::new(fleet(vec![pool("p", 1)], vec![route("r", &[0])]));
    let first = world.get(0);
    let mut spec = world.spec.clone();
    let moved = EndpointSpec {
        address: "http://moved".into(),
        ..spec.pools[0].endpoints[0].clone()
    };
    spec.pools[0].endpoints = vec![moved];
    world.configure(spec);
    let second = world.end(&first, Outcome::Refused).sent();
    assert_eq!(second.endpoint, world.endpoint(0, 0));
    world.end(&second, Outcome::Complete).relays(None);
}

/// A target that keeps its name and leads to another pool is more than other endpoints.
#[test]
fn a_request_keeps_to_the_pool_that_its_route_led_to() {
    let mut world = World::new(fleet(vec![pool("p", 2), pool("q", 2)], vec![route("r", &[0])]));
    let first = world.get(0);
    let mut spec = world.spec.clone();
    spec.routes[0].targets[0].pool = 1;
    world.configure(spec);
    let second = world.end(&first, Outcome::Refused).sent();
    assert_eq!(world.pool_of(&second), 0);
    let new = world.get(0);
    assert_eq!(world.pool_of(&new), 1);
}

#[test]
fn a_route_whose_pool_is_empty_is_unavailable() {
    let mut world = World::new(fleet(vec![pool("p", 1)], vec![route("r", &[0])]));
    let mut spec = world.spec.clone();
    spec.pools[0].endpoints.clear();
    world.configure(spec);
    assert!(matches!(
        world.ask(0),
        Answer::Finished(Verdict::Unavailable { .. })
    ));
}

#[test]
fn rules_change_at_once() {
    let mut world = singles(1, |_, _| ());
    let held = [world.get(0), world.get(0)];
    let mut spec = world.spec.clone();
    spec.pools[0].max_inflight = Some(2);
    spec.pools[0].breaker.as_mut().unwrap().consecutive = 2;
    world.configure(spec.clone());
    assert!(matches!(world.ask(0), Answer::Finished(Verdict::Busy { .. })));
    held.iter().for_each(|one| drop(world.end(one, status(500))));
    assert_eq!(world.state(0), StateKind::Open);
    spec.pools[0].breaker = None;
    world.configure(spec);
    assert_eq!(world.state(0), StateKind::Live);
}

/// Takes the second endpoint of the only pool out, lets `away` milliseconds go by, and has it back.
fn out_and_in(world: &mut World, away: u64, change: impl FnOnce(&mut EndpointSpec)) {
    let mut spec = world.spec.clone();
    let mut endpoint = spec.pools[0].endpoints.pop().unwrap();
    world.configure(spec.clone());
    world.until(world.now.nanos() / 1_000_000 + away);
    change(&mut endpoint);
    spec.pools[0].endpoints.push(endpoint);
    world.configure(spec);
}

fn two() -> World {
    World::new(fleet(vec![pool("p", 2)], vec![route("r", &[0])]))
}

#[test]
fn what_a_hand_has_set_is_still_set_on_an_endpoint_that_comes_back() {
    let mut world = two();
    let weight = |weight, until| Control::Weight {
        weight: Some(Weight(weight)),
        until,
    };
    world.control(0, 1, Control::Drain);
    world.control(0, 1, weight(3_000_000, None));
    let measured = Control::Calibrated {
        weight: Some(Weight(7_000_000)),
        until: None,
    };
    world.control(0, 1, measured);
    for away in [0, 60_000, 3_599_000] {
        out_and_in(&mut world, away, |_| ());
        let view = world.view(0, 1);
        assert_eq!(
            (
                view.state.kind,
                view.weight,
                view.weight_override,
                view.weight_calibrated
            ),
            (StateKind::Draining, Weight(3_000_000), Some(None), Some(None)),
            "{away}"
        );
    }
    // It is taken back as ever, and stays so.
    world.control(0, 1, Control::Resume);
    out_and_in(&mut world, 0, |_| ());
    assert_eq!(world.view(0, 1).state.kind, StateKind::Live);
    // A weight for a time ends with it.
    world.control(0, 1, weight(5_000_000, Some(world.now.after(ms(10_000)))));
    out_and_in(&mut world, 9_000, |_| ());
    assert_eq!(world.view(0, 1).weight, Weight(5_000_000));
    out_and_in(&mut world, 2_000, |_| ());
    assert_eq!(world.view(0, 1).weight, Weight(7_000_000));
}

#[test]
fn what_a_hand_has_set_is_forgotten_after_an_hour_and_of_another_address() {
    let mut world = two();
    world.control(0, 1, Control::Drain);
    out_and_in(&mut world, 3_600_000, |_| ());
    assert_eq!(world.view(0, 1).state.kind, StateKind::Live);
    world.control(0, 1, Control::Drain);
    out_and_in(&mut world, 0, |endpoint| endpoint.address = "http://moved".into());
    assert_eq!(world.view(0, 1).state.kind, StateKind::Live);
}

#[test]
fn what_a_hand_has_set_outlives_the_last_request_of_an_endpoint_that_is_gone() {
    let mut world = two();
    let held = [world.get(0), world.get(0)];
    let there = world.endpoint(0, 1);
    let stream = held.iter().find(|dispatch| dispatch.endpoint == there).unwrap();
    let mut spec = world.spec.clone();
    let mut fewer = spec.clone();
    fewer.pools[0].endpoints.pop();
    world.configure(fewer);
    let drain = Event::Control {
        endpoint: there,
        command: Control::Drain,
    };
    world.step(drain);
    world.end(stream, Outcome::Complete).relays(None);
    spec.seed = world.spec.seed;
    world.configure(spec);
    assert_ne!(world.endpoint(0, 1), there, "it is a new one");
    assert_eq!(world.view(0, 1).state.kind, StateKind::Draining);
}

#[test]
fn no_more_is_remembered_than_there_is_room_for() {
    let mut world = World::new(fleet(vec![pool("p", 1)], vec![route("r", &[0])]));
    let first = world.spec.pools[0].endpoints[0].clone();
    let named = |number: usize| EndpointSpec {
        name: format!("e{number}").into(),
        address: format!("http://e{number}").into(),
        ..first.clone()
    };
    for number in 0..1100 {
        world.until(world.now.nanos() / 1_000_000 + 1);
        let mut spec = world.spec.clone();
        spec.pools[0].endpoints = vec![named(number)];
        world.configure(spec);
        world.control(0, 0, Control::Drain);
    }
    for (number, kind) in [(0, StateKind::Live), (1098, StateKind::Draining)] {
        let mut spec = world.spec.clone();
        spec.pools[0].endpoints = vec![named(number)];
        world.configure(spec);
        assert_eq!(world.view(0, 0).state.kind, kind, "{number}");
    }
}
