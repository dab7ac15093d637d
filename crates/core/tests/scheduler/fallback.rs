//! Which end of an attempt, or of a choice, is a reason for which fallback.

use crate::world::{Answer, World, fallback_on, fleet, ms, pool, route, status, wait};
use weighbridge_core::action::Verdict;
use weighbridge_core::event::Outcome;
use weighbridge_core::spec::FallbackOn;
use weighbridge_core::{RequestId, RouteId};

const ALL: [FallbackOn; 5] = [
    FallbackOn::UNAVAILABLE,
    FallbackOn::SERVER_ERROR,
    FallbackOn::RATE_LIMIT,
    FallbackOn::TIMEOUT,
    FallbackOn::CONTEXT_LENGTH,
];

/// A route `r` over one endpoint that falls back to `s` on `on`.
fn world(on: FallbackOn) -> World {
    let mut first = route("r", &[0]);
    first.fallback = vec![fallback_on("s", on)];
    World::new(fleet(
        vec![pool("a", 1), pool("b", 1)],
        vec![first, route("s", &[1])],
    ))
}

fn go_on(world: &mut World, request: RequestId, step: Answer) -> Answer {
    let Answer::Fallback(route) = step else {
        panic!("no fallback: {step:?}");
    };
    let mut arrival = world.arrival(0, None);
    arrival.request = request;
    arrival.route = RouteId(route);
    world.send(arrival)
}

#[test]
fn each_end_of_an_attempt_is_a_reason_for_its_own_fallbacks_only() {
    let unavailable = &[FallbackOn::UNAVAILABLE][..];
    let server = &[FallbackOn::SERVER_ERROR][..];
    let cases = [
        (Outcome::Refused, unavailable),
        (Outcome::ConnectTimeout, unavailable),
        (Outcome::ConnectFailed, unavailable),
        (Outcome::Reset, server),
        (Outcome::Broken, server),
        (status(500), server),
        (status(502), server),
        (status(503), server),
        (status(504), &[FallbackOn::SERVER_ERROR, FallbackOn::TIMEOUT]),
        (status(529), &[FallbackOn::SERVER_ERROR, FallbackOn::RATE_LIMIT]),
        (status(429), &[FallbackOn::RATE_LIMIT]),
        (Outcome::TimedOut, &[FallbackOn::TIMEOUT]),
        (status(400), &[]),
        (status(404), &[]),
        (Outcome::Complete, &[]),
        (Outcome::Abandoned, &[]),
    ];
    for (outcome, reasons) in cases {
        for on in ALL {
            let mut world = world(on);
            let first = world.get(0);
            match world.end(&first, outcome) {
                Answer::Fallback(_) => assert!(reasons.contains(&on), "{outcome:?} on {on:?}"),
                Answer::Finished(_) => assert!(!reasons.contains(&on), "{outcome:?} on {on:?}"),
                Answer::Sent(_) => panic!("{outcome:?} on {on:?}: there is nobody else"),
            }
        }
    }
}

#[test]
fn a_prompt_that_is_too_long_goes_where_it_fits() {
    for on in ALL {
        let mut world = world(on);
        let first = world.get(0);
        let falls = matches!(world.too_long(&first), Answer::Fallback(_));
        assert_eq!(falls, on == FallbackOn::CONTEXT_LENGTH, "{on:?}");
    }
}

#[test]
fn nothing_follows_once_bytes_have_reached_the_client() {
    for on in ALL {
        let mut world = world(on);
        let first = world.get(0);
        let end = world.finish(&first, status(503), true);
        assert!(matches!(end, Answer::Finished(_)), "{on:?}: {end:?}");
    }
}

#[test]
fn a_route_whose_engines_are_all_cooling_falls_back_on_429_alone() {
    for on in ALL {
        let mut world = world(on);
        let first = world.get(0);
        let step = world.end(&first, wait(429, 30));
        if on == FallbackOn::RATE_LIMIT {
            let second = go_on(&mut world, first.request, step).sent();
            assert_eq!(world.pool_of(&second), 1);
            world.end(&second, Outcome::Complete).relays(None);
        }
        let arrival = world.arrival(0, None);
        let request = arrival.request;
        match world.send(arrival) {
            step @ Answer::Fallback(_) => {
                assert_eq!(on, FallbackOn::RATE_LIMIT);
                let second = go_on(&mut world, request, step).sent();
                assert_eq!((second.attempt, world.pool_of(&second)), (1, 1));
            }
            Answer::Finished(Verdict::Busy { retry_after }) => {
                assert_ne!(on, FallbackOn::RATE_LIMIT);
                assert_eq!(retry_after, ms(30_000));
            }
            other => panic!("{on:?}: {other:?}"),
        }
    }
}

/// Retries come first, and the reason is that of the last attempt.
#[test]
fn the_last_attempt_says_why() {
    let mut first = route("r", &[0, 1]);
    first.fallback = vec![
        fallback_on("s", FallbackOn::TIMEOUT),
        fallback_on("t", FallbackOn::SERVER_ERROR),
    ];
    let pools = vec![pool("a", 1), pool("b", 1), pool("c", 1), pool("d", 1)];
    let routes = vec![first, route("s", &[2]), route("t", &[3])];
    let mut world = World::new(fleet(pools, routes));
    let one = world.get(0);
    let two = world.end(&one, wait(503, 1)).sent();
    assert_ne!(world.pool_of(&one), world.pool_of(&two));
    let step = world.end(&two, status(500));
    let three = go_on(&mut world, one.request, step).sent();
    assert_eq!((three.attempt, world.pool_of(&three)), (3, 3));
    assert!(
        matches!(world.end(&three, status(500)), Answer::Finished(_)),
        "three attempts are all"
    );
}

/// A route that cannot take the request says nothing of what came of it, and the reasons stay what they were.
#[test]
fn a_fallback_that_cannot_take_it_leaves_the_failure_as_it_was() {
    let mut first = route("r", &[0]);
    let any = ALL.into_iter().fold(FallbackOn::NONE, FallbackOn::and);
    first.fallback = vec![fallback_on("s", any), fallback_on("t", FallbackOn::SERVER_ERROR)];
    let pools = || vec![pool("a", 1), pool("b", 1), pool("c", 1)];
    for (outcome, told) in [
        (status(500), None),
        (status(400), None),
        (Outcome::TimedOut, None),
        (wait(429, 30), Some(ms(30_000))),
    ] {
        let routes = vec![first.clone(), route("s", &[1]), route("t", &[2])];
        let mut world = World::new(fleet(pools(), routes));
        for cooling in [1, 2] {
            let attempt = world.get(cooling);
            world.end(&attempt, wait(429, 60)).relays(Some(ms(60_000)));
        }
        let sent = world.get(0);
        let mut step = match outcome {
            Outcome::Status { code: 400, .. } => world.too_long(&sent),
            _ => world.end(&sent, outcome),
        };
        let mut been = 0;
        while matches!(step, Answer::Fallback(_)) {
            been += 1;
            step = go_on(&mut world, sent.request, step);
        }
        assert_eq!(been, if outcome == status(500) { 2 } else { 1 }, "{outcome:?}");
        step.relays(told);
    }
}

/// Where nothing was sent, the client hears of the route that is back first.
#[test]
fn of_routes_that_cannot_take_it_the_one_that_is_back_first_is_told() {
    for (waits, told) in [([30, 9], 9), ([9, 30], 9)] {
        let mut world = world(FallbackOn::RATE_LIMIT);
        for (place, seconds) in [(1, waits[1]), (0, waits[0])] {
            let attempt = world.get(place);
            let step = world.end(&attempt, wait(429, seconds));
            if matches!(step, Answer::Fallback(_)) {
                go_on(&mut world, attempt.request, step).relays(Some(ms(seconds * 1000)));
            }
        }
        let arrival = world.arrival(0, None);
        let request = arrival.request;
        let step = world.send(arrival);
        let verdict = go_on(&mut world, request, step).verdict();
        let retry_after = ms(told * 1000);
        assert_eq!(verdict, Verdict::Busy { retry_after });
    }
}

/// A chain: each route's list, then those of the routes before it, each route once.
#[test]
fn a_chain_ends() {
    let mut first = route("r", &[0]);
    first.fallback = vec![
        fallback_on("s", FallbackOn::SERVER_ERROR),
        fallback_on("t", FallbackOn::SERVER_ERROR),
    ];
    first.retry.max_attempts = 9;
    let mut second = route("s", &[1]);
    second.fallback = vec![fallback_on("r", FallbackOn::SERVER_ERROR)];
    let pools = vec![pool("a", 1), pool("b", 1), pool("c", 1)];
    let mut world = World::new(fleet(pools, vec![first, second, route("t", &[2])]));
    let mut attempt = world.get(0);
    let request = attempt.request;
    let mut seen = vec![world.pool_of(&attempt)];
    loop {
        let step = world.end(&attempt, status(500));
        if matches!(step, Answer::Finished(_)) {
            break;
        }
        attempt = go_on(&mut world, request, step).sent();
        seen.push(world.pool_of(&attempt));
    }
    assert_eq!(seen, [0, 1, 2]);
}

/// A fallback after an attempt is an attempt: it counts against both limits. One before any attempt is free.
#[test]
fn attempts_and_the_budget_bound_it() {
    let mut first = route("r", &[0]);
    first.fallback = vec![fallback_on(
        "s",
        FallbackOn::SERVER_ERROR.and(FallbackOn::RATE_LIMIT),
    )];
    first.retry.max_attempts = 1;
    let mut world = World::new(fleet(
        vec![pool("a", 1), pool("b", 1)],
        vec![first, route("s", &[1])],
    ));
    let one = world.get(0);
    assert!(matches!(world.end(&one, wait(503, 30)), Answer::Finished(_)));
    assert!(
        matches!(world.ask(0), Answer::Fallback(_)),
        "nothing was sent yet"
    );
    assert_eq!(world.scheduler.view(world.now).routes[0].retries.0, 0);

    let mut first = route("r", &[0]);
    first.fallback = vec![fallback_on("s", FallbackOn::SERVER_ERROR)];
    (first.retry.budget.ratio, first.retry.budget.floor_per_second) = (0.0, 0.0);
    let mut world = World::new(fleet(
        vec![pool("a", 1), pool("b", 1)],
        vec![first, route("s", &[1])],
    ));
    let one = world.get(0);
    assert!(matches!(world.end(&one, status(500)), Answer::Finished(_)));
}
