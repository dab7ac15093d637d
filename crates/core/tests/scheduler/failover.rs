//! Retries, their budget, moving on, and fallback routes.

use crate::world::{Answer, World, answer, fallback, fleet, ms, pool, route, singles, status, wait};
use std::time::Duration;
use weighbridge_core::action::Verdict;
use weighbridge_core::event::{Control, Outcome};
use weighbridge_core::ids::RequestId;
use weighbridge_core::spec::Protocols;
use weighbridge_core::{Action, Event};

/// FAIL-2: what is sent again by default, and what is not.
#[test]
fn refused_is_retried_and_delivered_is_not() {
    let check = |outcome: Outcome, retried: bool| {
        let mut world = singles(2, |_, _| ());
        let dispatch = world.get(0);
        let answer = world.end(&dispatch, outcome);
        assert_eq!(matches!(answer, Answer::Sent(_)), retried, "{outcome:?}");
    };
    for outcome in [Outcome::Refused, Outcome::ConnectTimeout, Outcome::ConnectFailed] {
        check(outcome, true);
    }
    for outcome in [status(429), status(503), status(529), wait(503, 1)] {
        check(outcome, true);
    }
    for outcome in [
        Outcome::Reset,
        Outcome::TimedOut,
        Outcome::Broken,
        Outcome::Abandoned,
    ] {
        check(outcome, false);
    }
    for code in [400, 401, 404, 422, 500, 502, 504] {
        check(status(code), false);
    }
}

#[test]
fn opting_in() {
    let mut world = singles(2, |_, route| {
        route.retry.on_reset = true;
        route.retry.on_timeout = true;
        route.retry.on_status.push(500);
    });
    for outcome in [Outcome::Reset, Outcome::TimedOut, status(500)] {
        let dispatch = world.get(0);
        let retry = world.end(&dispatch, outcome).sent();
        assert_ne!(retry.endpoint, dispatch.endpoint);
        assert_eq!(retry.attempt, 2);
        world.end(&retry, Outcome::Complete).relays(None);
    }
}

#[test]
fn never_after_the_first_byte_and_never_beyond_max_attempts() {
    let mut world = singles(5, |_, _| ());
    let dispatch = world.get(0);
    world.finish(&dispatch, status(503), true).relays(None);
    let first = world.get(0);
    let second = world.end(&first, Outcome::Refused).sent();
    let third = world.end(&second, Outcome::Refused).sent();
    world.end(&third, Outcome::Refused).relays(None);
}

/// A 429 on one key leaves the endpoint's others; a failed connection does not.
#[test]
fn tried_is_the_key_or_the_endpoint() {
    for (outcome, same) in [(wait(429, 1), true), (Outcome::ConnectTimeout, false)] {
        let mut world = singles(2, |pool, route| {
            pool.keys = 2;
            route.targets[1].order = 2;
        });
        let first = world.get(0);
        let second = world.end(&first, outcome).sent();
        assert_eq!(second.endpoint == first.endpoint, same, "{outcome:?}");
    }
}

#[test]
fn the_budget_bounds_retries() {
    let mut world = singles(2, |pool, route| {
        pool.breaker = None;
        route.retry.budget.floor_per_second = 0.0;
        route.retry.budget.ratio = 0.2;
    });
    let mut retries = 0;
    for _ in 0..100 {
        let dispatch = world.get(0);
        if let Answer::Sent(retry) = world.end(&dispatch, status(503)) {
            retries += 1;
            world.end(&retry, Outcome::Complete);
        }
    }
    assert_eq!(retries, 20);
    assert_eq!(world.scheduler.view(world.now).routes[0].retries, (20, 20));
    world.until(20_000);
    assert_eq!(world.scheduler.view(world.now).routes[0].retries, (0, 0));
}

fn move_on(world: &mut World, request: RequestId, attempt: u32) -> Vec<Action> {
    world.step(Event::MoveOn { request, attempt })
}

/// A10: the last attempt gets the full time.
#[test]
fn moves_on_only_while_another_remains() {
    let mut world = singles(2, |_, route| route.retry.on_timeout = true);
    let first = world.get(0);
    let actions = move_on(&mut world, first.request, 1);
    let second = answer(&actions, first.request).sent();
    assert_eq!(
        actions[0],
        Action::Abort {
            request: first.request,
            attempt: 1
        }
    );
    assert_ne!(first.endpoint, second.endpoint);
    assert_eq!(world.view(0, 0).inflight + world.view(1, 0).inflight, 1);
    assert_eq!(world.view(0, 0).failed, 1);
    assert!(move_on(&mut world, first.request, 2).is_empty());
    assert!(move_on(&mut world, first.request, 1).is_empty(), "an old attempt");
    world.end(&second, Outcome::Complete).relays(None);
}

#[test]
fn does_not_move_on_unasked() {
    let mut world = singles(2, |_, _| ());
    let first = world.get(0);
    assert!(move_on(&mut world, first.request, 1).is_empty());
    world.end(&first, Outcome::Complete).relays(None);
}

/// Two routes over one pool each; the first falls back to the second, and that one to the first.
fn chain() -> World {
    let mut first = route("first", &[0]);
    first.fallback = vec![fallback("second"), fallback("third")];
    let mut second = route("second", &[1]);
    second.fallback = vec![fallback("first"), fallback("second")];
    let third = route("third", &[2]);
    let pools = vec![pool("a", 1), pool("b", 1), pool("c", 1)];
    World::new(fleet(pools, vec![first, second, third]))
}

fn follow(world: &mut World, request: RequestId, fallback: Answer) -> Answer {
    let Answer::Fallback(route) = fallback else {
        panic!("no fallback: {fallback:?}");
    };
    let mut arrival = world.arrival(0, None);
    arrival.request = request;
    arrival.route = weighbridge_core::RouteId(route);
    world.send(arrival)
}

#[test]
fn falls_back_when_no_engine_answered_and_never_in_a_loop() {
    let mut world = chain();
    let first = world.get(0);
    let step = world.end(&first, Outcome::Refused);
    assert_eq!(
        world.scheduler.view(world.now).routes[0].retries.0,
        1,
        "fallbacks count"
    );
    let second = follow(&mut world, first.request, step).sent();
    assert_eq!((second.attempt, world.pool_of(&second)), (2, 1));
    let step = world.end(&second, Outcome::Refused);
    let third = follow(&mut world, first.request, step).sent();
    assert_eq!((third.attempt, world.pool_of(&third)), (3, 2));
    world
        .end(&third, Outcome::Refused)
        .relays(Some(Duration::from_secs(1)));
    assert!(
        (world.scheduler.view(world.now).routes)
            .iter()
            .all(|route| route.requests == 0)
    );
}

/// Failing open is the last resort: a fallback with a live endpoint comes first, and since it is no second attempt it
/// costs nothing of the budget, however long the pool is away.
#[test]
fn what_is_sick_is_left_alone_while_a_fallback_lives() {
    let mut world = chain();
    let first = world.get(0);
    let step = world.end(&first, Outcome::Refused);
    let second = follow(&mut world, first.request, step).sent();
    world.end(&second, Outcome::Complete).relays(None);
    for _ in 0..500 {
        let arrival = world.arrival(0, None);
        let request = arrival.request;
        let step = world.send(arrival);
        let dispatch = follow(&mut world, request, step).sent();
        assert_eq!((dispatch.attempt, world.pool_of(&dispatch)), (1, 1));
        world.end(&dispatch, Outcome::Complete).relays(None);
    }
    assert_eq!(world.scheduler.view(world.now).routes[0].retries.0, 1);
    world.until(1_000);
    let trial = world.get(0);
    assert_eq!(world.pool_of(&trial), 0, "its time is over");
    world.end(&trial, Outcome::Complete).relays(None);
}

/// A route that was left untried because it was sick is come back to, once, when the fallback refuses.
#[test]
fn comes_back_to_what_was_left_untried() {
    let mut one = route("first", &[0]);
    one.fallback = vec![fallback("second")];
    let spec = fleet(vec![pool("a", 1), pool("b", 1)], vec![one, route("second", &[1])]);
    let mut world = World::new(spec);
    let first = world.get(0);
    let step = world.end(&first, Outcome::Refused);
    let second = follow(&mut world, first.request, step).sent();
    world.end(&second, Outcome::Complete).relays(None);

    let arrival = world.arrival(0, None);
    let request = arrival.request;
    let step = world.send(arrival);
    let second = follow(&mut world, request, step).sent();
    assert_eq!((second.attempt, world.pool_of(&second)), (1, 1));
    let step = world.end(&second, Outcome::Refused);
    let back = follow(&mut world, request, step).sent();
    assert_eq!(
        (back.attempt, world.pool_of(&back), back.decision.failed_open),
        (2, 0, true)
    );
    world.end(&back, Outcome::Refused).relays(Some(ms(1_000)));

    // Straight to it: it is tried at once, since nothing lives anywhere, and not come back to.
    let open = world.get(0);
    let step = world.end(&open, Outcome::Refused);
    let second = follow(&mut world, open.request, step).sent();
    world.end(&second, Outcome::Refused).relays(Some(ms(1_000)));
}

/// A route that was left untried and is gone from the config is not come back to: not for ever, and not once.
#[test]
fn does_not_come_back_to_a_route_that_went() {
    // Whether the route goes before the request would come back, or while it does.
    for late in [false, true] {
        let mut one = route("first", &[0]);
        one.fallback = vec![fallback("second")];
        let spec = fleet(vec![pool("a", 1), pool("b", 1)], vec![one, route("second", &[1])]);
        let mut world = World::new(spec.clone());
        let first = world.get(0);
        let step = world.end(&first, Outcome::Refused);
        let second = follow(&mut world, first.request, step).sent();
        world.end(&second, Outcome::Complete).relays(None);

        let mut smaller = spec;
        smaller.routes.remove(0);
        let arrival = world.arrival(0, None);
        let request = arrival.request;
        let step = world.send(arrival);
        let second = follow(&mut world, request, step).sent();
        if !late {
            world.configure(smaller.clone());
        }
        let mut step = world.end(&second, Outcome::Refused);
        if let (true, Answer::Fallback(gone)) = (late, &step) {
            let gone = weighbridge_core::RouteId(*gone);
            world.configure(smaller);
            let mut arrival = world.arrival(0, None);
            arrival.request = request;
            arrival.route = gone;
            step = world.send(arrival);
        }
        assert!(matches!(step, Answer::Finished(_)), "late: {late}, {step:?}");
        let view = world.scheduler.view(world.now);
        assert!(view.endpoints.iter().all(|endpoint| endpoint.inflight == 0));
    }
}

/// The same where an attempt was made before: whoever of the first pool is taken for dead may be back by now.
#[test]
fn comes_back_to_the_rest_of_a_pool() {
    let mut one = route("first", &[0]);
    one.fallback = vec![fallback("second")];
    one.retry.max_attempts = 4;
    let spec = fleet(vec![pool("a", 2), pool("b", 1)], vec![one, route("second", &[1])]);
    let mut world = World::new(spec);
    let first = world.get(0);
    let second = world.end(&first, Outcome::Refused).sent();
    world.end(&second, Outcome::Complete).relays(None);
    let request = world.get(0);
    assert_eq!(request.endpoint, second.endpoint, "the other one is away");
    let step = world.end(&request, Outcome::Refused);
    let fallen = follow(&mut world, request.request, step).sent();
    assert_eq!(world.pool_of(&fallen), 1);
    let step = world.end(&fallen, Outcome::Refused);
    let back = follow(&mut world, request.request, step).sent();
    assert_eq!((back.endpoint, back.decision.failed_open), (first.endpoint, true));
    world.end(&back, Outcome::Refused).relays(Some(ms(1_000)));
}

/// A fallback that is as sick as the route itself is passed over for one that lives.
#[test]
fn falls_back_to_what_lives_and_fails_open_where_nothing_does() {
    let mut world = chain();
    for sick in [0, 1] {
        let dispatch = world.get(sick);
        let mut step = world.end(&dispatch, Outcome::Refused);
        while matches!(step, Answer::Fallback(_)) {
            step = follow(&mut world, dispatch.request, step);
        }
        let last = step.sent();
        assert!(!last.decision.failed_open);
        world.end(&last, Outcome::Complete).relays(None);
    }
    let arrival = world.arrival(0, None);
    let request = arrival.request;
    let step = world.send(arrival);
    let dispatch = follow(&mut world, request, step).sent();
    assert_eq!((dispatch.attempt, world.pool_of(&dispatch)), (1, 2));
    let step = world.end(&dispatch, Outcome::Refused);
    let last = follow(&mut world, request, step).sent();
    assert_eq!((world.pool_of(&last), last.decision.failed_open), (1, true));
    let step = world.end(&last, Outcome::Refused);
    let back = follow(&mut world, request, step).sent();
    assert_eq!((world.pool_of(&back), back.decision.failed_open), (0, true));
    world.end(&back, Outcome::Refused).relays(Some(ms(1_000)));
    let open = world.get(0);
    assert_eq!((world.pool_of(&open), open.decision.failed_open), (0, true));
    let step = world.end(&open, Outcome::Refused);
    let next = follow(&mut world, open.request, step).sent();
    assert_eq!((world.pool_of(&next), next.decision.failed_open), (1, true));
}

#[test]
fn an_answer_is_no_reason_to_fall_back() {
    for outcome in [
        status(500),
        wait(429, 3),
        Outcome::TimedOut,
        Outcome::Reset,
        status(503),
    ] {
        let mut world = chain();
        let first = world.get(0);
        assert!(
            matches!(world.end(&first, outcome), Answer::Finished(_)),
            "{outcome:?}"
        );
    }
    let mut world = chain();
    world.serve(wait(429, 3));
    let busy = Verdict::Busy {
        retry_after: Duration::from_secs(3),
    };
    assert_eq!(world.ask(0).verdict(), busy, "that is the condition 429");
}

#[test]
fn falls_back_before_any_attempt_and_the_last_refusal_is_told() {
    let mut world = chain();
    world.control(0, 0, Control::Drain);
    for _ in 0..500 {
        let arrival = world.arrival(0, None);
        let request = arrival.request;
        let step = world.send(arrival);
        let dispatch = follow(&mut world, request, step).sent();
        assert_eq!(dispatch.attempt, 1);
        world.end(&dispatch, Outcome::Complete);
    }
    world.control(1, 0, Control::Drain);
    world.control(2, 0, Control::Drain);
    let arrival = world.arrival(0, None);
    let request = arrival.request;
    let mut step = world.send(arrival);
    for _ in 0..2 {
        step = follow(&mut world, request, step);
    }
    assert_eq!(
        step.verdict(),
        Verdict::Unavailable {
            retry_after: ms(1000)
        }
    );
}

#[test]
fn a_fallback_route_that_went_or_speaks_otherwise_is_passed_over() {
    let mut world = chain();
    let mut spec = world.spec.clone();
    spec.pools[1].protocols = Protocols::ANTHROPIC;
    world.configure(spec.clone());
    let first = world.get(0);
    let step = world.end(&first, Outcome::Refused);
    let third = follow(&mut world, first.request, step).sent();
    assert_eq!(world.pool_of(&third), 2);
    world.end(&third, Outcome::Complete);

    spec.pools[1].protocols = Protocols::ANY;
    world.configure(spec.clone());
    spec.routes[0].fallback.remove(0);
    world.until(1_000);
    let first = world.get(0);
    let step = world.end(&first, Outcome::Refused);
    let Answer::Fallback(gone) = step else {
        panic!("{step:?}");
    };
    spec.routes.remove(1);
    world.configure(spec);
    let mut arrival = world.arrival(0, None);
    arrival.request = first.request;
    arrival.route = weighbridge_core::RouteId(gone);
    let step = world.send(arrival);
    let third = follow(&mut world, first.request, step).sent();
    assert_eq!(world.pool_of(&third), 2);
}

/// A request that was to fall back before any attempt, and whose fallback route went meanwhile, is told why.
#[test]
fn what_nothing_could_take_is_unavailable() {
    let mut world = chain();
    let first = world.get(0);
    let step = world.end(&first, Outcome::Refused);
    let second = follow(&mut world, first.request, step).sent();
    world.end(&second, Outcome::Complete);
    let mut arrival = world.arrival(0, None);
    let Answer::Fallback(gone) = world.send(arrival.clone()) else {
        panic!("the second route lives");
    };
    let mut spec = world.spec.clone();
    spec.routes.truncate(1);
    spec.routes[0].fallback.clear();
    world.configure(spec);
    arrival.route = weighbridge_core::RouteId(gone);
    let unavailable = Verdict::Unavailable {
        retry_after: ms(1_000),
    };
    assert_eq!(world.send(arrival).verdict(), unavailable);
}

#[test]
fn withdrawing_gives_everything_back_in_silence() {
    let mut world = chain();
    let first = world.get(0);
    assert!(world.step(Event::Withdraw(first.request)).is_empty());
    assert!(world.step(Event::Withdraw(first.request)).is_empty());
    assert_eq!(world.view(0, 0).inflight, 0);
    assert_eq!((world.view(0, 0).failed, world.view(0, 0).succeeded), (0, 0));
    let second = world.get(0);
    world.end(&second, Outcome::Refused);
    assert!(
        world.step(Event::Withdraw(second.request)).is_empty(),
        "between two routes"
    );
    assert_eq!(world.scheduler.view(world.now).routes[0].requests, 0);
}

/// ACC-1, for the scheduler's part.
#[test]
fn counts_return_to_zero_after_every_kind_of_ending() {
    let mut world = singles(2, |pool, route| {
        pool.breaker = None;
        route.policies = crate::world::policies(0.0, 1.0);
    });
    let outcomes = [
        Outcome::Complete,
        status(500),
        status(400),
        Outcome::Broken,
        Outcome::Abandoned,
        Outcome::TimedOut,
        Outcome::Reset,
    ];
    for _ in 0..20 {
        for outcome in outcomes {
            let dispatch = world.get(0);
            world.finish(&dispatch, outcome, true);
            world.finish_again(&dispatch, outcome);
        }
        let dispatch = world.get(0);
        world.step(Event::Withdraw(dispatch.request));
        let first = world.get(0);
        if let Answer::Sent(retry) = world.end(&first, status(503)) {
            world.end(&retry, Outcome::Complete);
        }
    }
    assert_eq!((world.view(0, 0).inflight, world.view(1, 0).inflight), (0, 0));
    world.until(60_000);
    let before = world.view(0, 0).dispatched;
    for _ in 0..100 {
        world.serve(Outcome::Complete);
    }
    let first = world.view(0, 0).dispatched - before;
    assert!((30..=70).contains(&first), "{first}");
}

impl World {
    /// The end of an attempt is told twice: the second changes nothing.
    fn finish_again(&mut self, dispatch: &weighbridge_core::action::Dispatch, outcome: Outcome) {
        let before = self.view(0, 0).inflight + self.view(1, 0).inflight;
        let actions = self.step(Event::Ended(weighbridge_core::event::Ended {
            request: dispatch.request,
            attempt: dispatch.attempt,
            outcome,
            committed: false,
            too_long: false,
            spent: None,
        }));
        assert!(actions.is_empty());
        assert_eq!(before, self.view(0, 0).inflight + self.view(1, 0).inflight);
    }
}
