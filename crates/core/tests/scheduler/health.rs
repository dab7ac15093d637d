//! The state table of section 5, row by row, with exact times.

use crate::world::{World, at, fleet, ms, pool, probe, route, singles, status, wait};
use std::time::Duration;
use weighbridge_core::action::Verdict;
use weighbridge_core::event::{Control, Outcome};
use weighbridge_core::spec::Weight;
use weighbridge_core::view::StateKind;
use weighbridge_core::{Action, Event, Time};

fn busy(seconds: u64) -> Verdict {
    Verdict::Busy {
        retry_after: Duration::from_secs(seconds),
    }
}

fn unavailable(millis: u64) -> Verdict {
    Verdict::Unavailable {
        retry_after: ms(millis),
    }
}

/// Two pools; requests that reach the second are failed over, so the first one's state shows.
fn pair() -> World {
    singles(2, |_, route| {
        route.targets[1].order = 2;
        route.retry.max_attempts = 1;
    })
}

#[test]
fn draining_ends_with_resume() {
    let mut world = pair();
    let running = world.get(0);
    let told = world.control(0, 0, Control::Drain);
    assert!(matches!(&told[..], [Action::Changed { state, .. }] if state.kind == StateKind::Draining));
    assert_eq!(world.view(0, 0).state.reason, "drained by hand");
    assert_eq!(world.serve(Outcome::Complete), 1);
    world.end(&running, Outcome::Complete).relays(None);
    assert_eq!(world.view(0, 0).inflight, 0);
    world.control(0, 0, Control::Resume);
    assert_eq!(world.serve(Outcome::Complete), 0);
}

#[test]
fn weight_by_hand_ends_in_time() {
    let mut world = pair();
    let zero = Control::Weight {
        weight: Some(Weight::ZERO),
        until: Some(at(3_000)),
    };
    world.control(0, 0, zero);
    let view = world.view(0, 0);
    assert_eq!(
        (view.state.kind, view.state.until),
        (StateKind::Draining, Some(at(3_000)))
    );
    assert_eq!(
        (view.weight, view.weight_override),
        (Weight::ZERO, Some(Some(at(3_000))))
    );
    world.until(2_999);
    assert_eq!(world.serve(Outcome::Complete), 1);
    let told = world.until(3_000);
    assert!(matches!(&told[..], [Action::Changed { state, .. }] if state.kind == StateKind::Live));
    assert_eq!(world.serve(Outcome::Complete), 0);
    assert_eq!(world.view(0, 0).weight_override, None);
}

#[test]
fn a_measured_weight_yields_to_a_hand_and_outlives_a_reload() {
    let mut world = pair();
    let weight = |millionths: u64| Some(Weight(millionths));
    let calibrated = |until| Control::Calibrated {
        weight: weight(1_333_333),
        until,
    };
    world.control(0, 0, calibrated(None));
    assert_eq!(world.view(0, 0).weight, Weight(1_333_333));
    assert_eq!(world.view(0, 0).weight_calibrated, Some(None));
    let by_hand = Control::Weight {
        weight: weight(2_000_000),
        until: Some(at(3_000)),
    };
    world.control(0, 0, by_hand);
    assert_eq!(world.view(0, 0).weight, Weight(2_000_000), "a hand wins");
    world.control(0, 0, calibrated(Some(at(5_000))));
    assert_eq!(
        world.view(0, 0).weight,
        Weight(2_000_000),
        "over a later measurement too"
    );
    world.until(3_000);
    assert_eq!(
        world.view(0, 0).weight,
        Weight(1_333_333),
        "and gives way to it at its end"
    );
    let spec = world.spec.clone();
    world.configure(spec);
    assert_eq!(world.view(0, 0).weight, Weight(1_333_333));
    world.until(5_000);
    assert_eq!(world.view(0, 0).weight, Weight::ONE);
    assert_eq!(world.view(0, 0).weight_calibrated, None);
}

#[test]
fn a_measured_weight_brings_nobody_back() {
    let mut world = pair();
    let mut spec = world.spec.clone();
    spec.pools[0].endpoints[0].weight = Weight::ZERO;
    world.configure(spec);
    world.control(
        0,
        0,
        Control::Calibrated {
            weight: Some(Weight::ONE),
            until: None,
        },
    );
    assert_eq!(world.view(0, 0).state.kind, StateKind::Draining);
}

#[test]
fn only_draining_is_unavailable() {
    let mut world = singles(1, |_, _| ());
    world.control(0, 0, Control::Drain);
    assert_eq!(world.ask(0).verdict(), unavailable(1000));
}

/// FAIL-1.
#[test]
fn cooling_lasts_as_long_as_was_asked() {
    let mut world = singles(2, |_, route| route.targets[1].order = 2);
    let first = world.get(0);
    let second = world.end(&first, wait(429, 3)).sent();
    world.end(&second, Outcome::Complete);
    assert_eq!(world.view(0, 0).state.reason, "429 with Retry-After 3 s");
    assert_eq!(world.view(0, 0).keys_cooling, [(0, at(3_000))]);
    for now in [200, 1_000, 2_999] {
        world.until(now);
        assert_eq!(world.serve(Outcome::Complete), 1);
    }
    world.until(3_000);
    assert_eq!(world.serve(Outcome::Complete), 0);
}

/// FAIL-1: two at once, 1 s then 4 s.
#[test]
fn the_longer_wait_counts() {
    for waits in [[1, 4], [4, 1]] {
        let mut world = pair();
        let both = [world.get(0), world.get(0)];
        world.end(&both[0], wait(429, waits[0]));
        world.end(&both[1], wait(503, waits[1]));
        world.until(3_999);
        assert_eq!(world.state(0), StateKind::Cooling);
        world.until(4_000);
        assert_eq!(world.state(0), StateKind::Live);
    }
}

#[test]
fn cooling_default_cap_and_503() {
    let check = |outcome, until: Option<u64>| {
        let mut world = pair();
        world.serve(outcome);
        let state = world.view(0, 0).state;
        assert_eq!(state.until, until.map(at), "{outcome:?}");
    };
    check(status(429), Some(5_000));
    check(status(529), Some(5_000));
    check(status(503), None);
    check(wait(503, 7), Some(7_000));
    check(wait(429, 86_400), Some(60_000));
    check(wait(500, 7), None);
}

/// FAIL-3 (i): the soonest, falling, and no upstream request.
#[test]
fn all_cooling_is_busy() {
    let mut world = singles(2, |_, _| ());
    let first = world.get(0);
    let second = world.end(&first, wait(429, 7)).sent();
    world
        .end(&second, wait(429, 3))
        .relays(Some(Duration::from_secs(3)));
    assert_eq!(world.ask(0).verdict(), busy(3));
    world.until(2_000);
    assert_eq!(world.ask(0).verdict(), busy(1));
    assert_eq!(world.view(0, 0).dispatched + world.view(1, 0).dispatched, 2);
    world.until(3_000);
    assert_eq!(world.serve(Outcome::Complete), world.pool_of(&second));
}

#[test]
fn keys_cool_on_their_own() {
    let mut world = singles(1, |pool, _| pool.keys = 3);
    let first = world.get(0);
    let second = world.end(&first, wait(429, 9)).sent();
    let third = world.end(&second, wait(429, 4)).sent();
    assert_eq!([first.key, second.key, third.key], [0, 1, 2]);
    assert_eq!(world.state(0), StateKind::Live);
    world
        .end(&third, wait(429, 6))
        .relays(Some(Duration::from_secs(4)));
    assert_eq!(world.state(0), StateKind::Cooling);
    world.until(4_000);
    assert_eq!(world.get(0).key, 1);
    let other = world.get(0);
    assert_eq!(other.key, 1, "the only one that does not cool");
    world
        .end(&other, Outcome::Refused)
        .relays(Some(Duration::from_secs(1)));
}

#[test]
fn full_until_a_slot_is_free() {
    let mut world = singles(2, |pool, _| pool.max_inflight = Some(2));
    let held: Vec<_> = (0..4).map(|_| world.get(0)).collect();
    assert_eq!(world.state(0), StateKind::Full);
    assert_eq!(world.ask(0).verdict(), busy(1));
    world.end(&held[1], Outcome::Complete);
    assert_eq!(world.get(0).endpoint, held[1].endpoint);
}

#[test]
fn full_or_cooling_with_fail_open_candidates_tries_those() {
    let mut world = singles(3, |pool, route| {
        pool.max_inflight = Some(1);
        route.retry.max_attempts = 1;
    });
    world.serve(Outcome::Refused);
    world.serve(wait(429, 9));
    let held = world.get(0);
    assert_eq!(world.pool_of(&held), 2);
    let open = world.get(0);
    assert!(open.decision.failed_open);
    assert_eq!(world.pool_of(&open), 0);
    assert_eq!(world.ask(0).verdict(), busy(1), "now that one is full too");
}

/// FAIL-2 (a).
#[test]
fn one_refusal_ejects_and_one_trial_brings_it_back() {
    let mut world = pair();
    assert_eq!(world.serve(Outcome::Refused), 0);
    let state = world.view(0, 0).state;
    assert_eq!((state.kind, state.until), (StateKind::Ejected, Some(at(1_000))));
    world.until(999);
    assert_eq!(world.serve(Outcome::Complete), 1);
    world.until(1_000);
    let trial = world.get(0);
    assert_eq!(world.pool_of(&trial), 0);
    assert_eq!(
        world.serve(Outcome::Complete),
        1,
        "others see it as ejected meanwhile"
    );
    world.end(&trial, Outcome::ConnectTimeout);
    world.until(2_999);
    assert_eq!(world.serve(Outcome::Complete), 1);
    world.until(3_000);
    let trial = world.get(0);
    assert_eq!(world.pool_of(&trial), 0);
    world.end(&trial, Outcome::Complete);
    assert_eq!(world.state(0), StateKind::Live);
    assert!((world.view(0, 0).penalty - 1.0).abs() < 1e-9, "the ramp begins");
    world.until(8_000);
    assert!((world.view(0, 0).penalty - 0.5).abs() < 1e-9);
}

#[test]
fn three_unanswered_connections_in_a_row_eject() {
    let mut world = pair();
    for outcome in [Outcome::ConnectTimeout, Outcome::Reset] {
        world.serve(outcome);
        assert_eq!(world.state(0), StateKind::Live);
    }
    world.serve(Outcome::ConnectFailed);
    assert_eq!(world.state(0), StateKind::Ejected);
}

#[test]
fn a_trial_slot_comes_back_whatever_the_end() {
    for outcome in [status(404), Outcome::Abandoned, status(429)] {
        let mut world = pair();
        world.serve(Outcome::Refused);
        world.until(1_000);
        assert_eq!(world.serve(outcome), 0);
        world.until(7_000);
        assert_eq!(
            world.state(0),
            StateKind::Ejected,
            "{outcome:?} does not bring it back"
        );
        assert_eq!(world.serve(Outcome::Complete), 0);
        assert_eq!(world.state(0), StateKind::Live);
    }
    let mut world = pair();
    world.serve(Outcome::Refused);
    world.until(1_000);
    let trial = world.get(0);
    assert!(world.step(Event::Withdraw(trial.request)).is_empty());
    assert_eq!(world.serve(Outcome::Complete), 0);
}

#[test]
fn a_probe_ends_an_ejection() {
    let mut world = singles(2, |pool, route| {
        route.targets[1].order = 2;
        pool.probe = Some(probe());
    });
    let first = world.get(0);
    let second = world.end(&first, Outcome::Refused).sent();
    world.end(&second, Outcome::Complete);
    let ejected = world.state(0);
    while !world
        .until(world.now.nanos() / 1_000_000 + 100)
        .contains(&Action::Probe(first.endpoint))
    {}
    let told = world.probed(0, true);
    assert_eq!((ejected, world.state(0)), (StateKind::Ejected, StateKind::Live));
    assert_eq!(told.len(), 1);
}

/// BRK-1.
#[test]
fn the_breaker_counts_failures_in_a_row() {
    let mut world = singles(1, |pool, _| {
        pool.breaker.as_mut().unwrap().consecutive = 3;
    });
    for code in [400; 10].into_iter().chain([404; 5]).chain([422; 5]) {
        world.serve(status(code));
    }
    assert_eq!(world.state(0), StateKind::Live);
    world.serve(Outcome::Complete);
    for code in [500, 400, 500, 400] {
        world.serve(status(code));
        assert_eq!(world.state(0), StateKind::Live);
    }
    world.serve(status(500));
    assert_eq!(world.state(0), StateKind::Open);
    assert_eq!(world.view(0, 0).state.reason, "3 failures in a row");
    world.until(10_000);
    assert!(!world.get(0).decision.failed_open, "the half-open request");
}

#[test]
fn half_open_lets_one_request_try() {
    let mut world = pair();
    (0..5).for_each(|_| assert_eq!(world.serve(status(500)), 0));
    assert_eq!(world.view(0, 0).state.until, Some(at(10_000)));
    world.until(9_999);
    assert_eq!(world.serve(Outcome::Complete), 1);
    world.until(10_000);
    assert_eq!(world.serve(status(400)), 0, "a 400 does not close it");
    assert_eq!(world.state(0), StateKind::Open);
    let trial = world.get(0);
    assert_eq!(world.pool_of(&trial), 0);
    assert_eq!(world.serve(Outcome::Complete), 1);
    world.end(&trial, Outcome::TimedOut);
    world.until(19_999);
    assert_eq!(world.serve(Outcome::Complete), 1);
    world.until(20_000);
    assert_eq!(world.serve(Outcome::Complete), 0);
    assert_eq!(world.state(0), StateKind::Live);
}

#[test]
fn the_breaker_counts_a_rate_strictly_above() {
    let mut world = pair();
    for turn in 0..20 {
        world.serve(if turn % 10 == 9 {
            status(500)
        } else {
            Outcome::Complete
        });
    }
    assert_eq!(world.state(0), StateKind::Live, "2 of 20 is not above a tenth");
    world.serve(status(500));
    assert_eq!(world.state(0), StateKind::Open);
    assert_eq!(
        world.view(0, 0).state.reason,
        "3 of 21 requests failed within 30 s"
    );
}

/// ACC-1 asks for it.
#[test]
fn no_breaker_no_opening() {
    let mut world = singles(1, |pool, _| pool.breaker = None);
    (0..30).for_each(|_| assert_eq!(world.serve(status(500)), 0));
    assert_eq!(world.state(0), StateKind::Live);
}

#[test]
fn three_failed_probes_and_two_good_ones() {
    let mut world = singles(2, |pool, route| {
        route.targets[1].order = 2;
        pool.probe = Some(probe());
    });
    let id = world.endpoint(0, 0);
    let mut sent = Vec::new();
    let mut run = |world: &mut World, healthy: bool| {
        while !world
            .until(world.now.nanos() / 1_000_000 + 1)
            .contains(&Action::Probe(id))
        {}
        sent.push(world.now.nanos() / 1_000_000);
        world.probed(0, healthy);
        world.state(0)
    };
    let states = [false, false, false, true, true].map(|healthy| run(&mut world, healthy));
    use StateKind::{Live, Unhealthy};
    assert_eq!(states, [Live, Live, Unhealthy, Unhealthy, Live]);
    assert!(
        sent[0] <= 5_000 && sent.windows(2).all(|pair| pair[1] - pair[0] == 5_000),
        "{sent:?}"
    );
}

#[test]
fn traffic_keeps_an_endpoint_healthy() {
    let mut world = singles(1, |pool, _| pool.probe = Some(probe()));
    let id = world.endpoint(0, 0);
    for _ in 0..10 {
        while !world
            .until(world.now.nanos() / 1_000_000 + 1)
            .contains(&Action::Probe(id))
        {}
        world.serve(Outcome::Complete);
        world.probed(0, false);
        assert_eq!(world.view(0, 0).probe_failures, 0);
    }
    assert_eq!(world.state(0), StateKind::Live);
}

#[test]
fn a_stream_that_flows_keeps_an_endpoint_healthy() {
    let mut world = singles(1, |pool, _| pool.probe = Some(probe()));
    let id = world.get(0).endpoint;
    let probe_fails = |world: &mut World, flows: bool| {
        while !world
            .until(world.now.nanos() / 1_000_000 + 1)
            .contains(&Action::Probe(id))
        {}
        if flows {
            let at = world.now;
            world.step(Event::Progress { endpoint: id, at });
        }
        world.until(world.now.nanos() / 1_000_000 + 100);
        world.probed(0, false);
        (world.state(0), world.view(0, 0).probe_failures)
    };
    for _ in 0..10 {
        assert_eq!(probe_fails(&mut world, true), (StateKind::Live, 0));
    }
    assert_eq!(probe_fails(&mut world, false), (StateKind::Live, 1));
    assert_eq!(probe_fails(&mut world, false), (StateKind::Live, 2));
    assert_eq!(probe_fails(&mut world, false).0, StateKind::Unhealthy);
}

#[test]
fn silence_stalls_and_a_byte_ends_it() {
    let mut world = singles(2, |pool, route| {
        route.targets[1].order = 2;
        pool.stall_after = Some(ms(4_000));
    });
    let progress = |world: &mut World, at: Time| {
        let endpoint = world.endpoint(0, 0);
        world.step(Event::Progress { endpoint, at })
    };
    world.until(1_000);
    let stream = world.get(0);
    world.until(3_000);
    progress(&mut world, at(2_500));
    world.until(6_499);
    assert_eq!(world.state(0), StateKind::Live);
    let told = world.until(6_500);
    assert!(matches!(&told[..], [Action::Changed { state, .. }] if state.kind == StateKind::Stalled));
    assert_eq!(world.serve(Outcome::Complete), 1);
    progress(&mut world, at(6_500));
    assert_eq!(world.serve(Outcome::Complete), 0);
    world.until(20_000);
    assert_eq!(world.state(0), StateKind::Stalled);
    world.step(Event::Withdraw(stream.request));
    assert_eq!(world.state(0), StateKind::Live, "nothing is running");
}

#[test]
fn a_probe_ends_a_stall() {
    let mut world = singles(1, |pool, _| {
        pool.stall_after = Some(ms(1_000));
        pool.probe = Some(probe());
    });
    let id = world.get(0).endpoint;
    let mut probed = world.until(1_000).contains(&Action::Probe(id));
    assert_eq!(world.state(0), StateKind::Stalled);
    while !probed {
        probed = world
            .until(world.now.nanos() / 1_000_000 + 1)
            .contains(&Action::Probe(id));
    }
    world.probed(0, true);
    assert_eq!(world.state(0), StateKind::Live);
}

#[test]
fn nobody_speaks_the_protocol() {
    let mut one = pool("a", 1);
    one.protocols = weighbridge_core::spec::Protocols::ANTHROPIC;
    let mut world = World::new(fleet(vec![one], vec![route("r", &[0])]));
    assert_eq!(world.ask(0).verdict(), Verdict::Unserved);
}

#[test]
fn states_are_told_once_each() {
    let mut world = singles(1, |_, _| ());
    let mut told = Vec::new();
    let dispatch = world.get(0);
    world.end(&dispatch, wait(429, 2));
    world.until(5_000);
    let dispatch = world.get(0);
    world.end(&dispatch, Outcome::Refused);
    let dispatch = world.get(0);
    world.end(&dispatch, Outcome::Complete);
    for (time, _, actions) in &world.log {
        for action in actions {
            if let Action::Changed { state, .. } = action {
                told.push((time.nanos() / 1_000_000, state.kind));
            }
        }
    }
    use StateKind::{Cooling, Ejected, Live};
    assert_eq!(
        told,
        [(0, Cooling), (2_000, Live), (5_000, Ejected), (5_000, Live)]
    );
}
