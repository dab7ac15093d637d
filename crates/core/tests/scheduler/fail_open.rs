//! The last column of section 5's table: endpoints that are tried although they are out of service.

use crate::world::{Answer, ms, probe, singles, status};
use weighbridge_core::Action;
use weighbridge_core::action::Verdict;
use weighbridge_core::event::Outcome;
use weighbridge_core::view::StateKind;

fn unavailable(millis: u64) -> Verdict {
    Verdict::Unavailable {
        retry_after: ms(millis),
    }
}

#[test]
fn success_after_failing_open_clears_what_probes_found() {
    let mut world = singles(1, |pool, _| pool.probe = Some(probe()));
    let id = world.endpoint(0, 0);
    for _ in 0..3 {
        while !world
            .until(world.now.nanos() / 1_000_000 + 1)
            .contains(&Action::Probe(id))
        {}
        world.probed(0, false);
    }
    assert_eq!(world.state(0), StateKind::Unhealthy);
    let dispatch = world.get(0);
    assert!(dispatch.decision.failed_open);
    world.end(&dispatch, Outcome::Complete).relays(None);
    assert_eq!(
        (world.state(0), world.view(0, 0).probe_failures),
        (StateKind::Live, 0)
    );
}

/// FAIL-3 (ii): the only endpoint is never closed by its own breaker.
#[test]
fn a_pool_of_one_fails_open() {
    let mut world = singles(1, |_, _| ());
    for turn in 0..20 {
        let dispatch = world.get(0);
        assert_eq!(dispatch.decision.failed_open, turn >= 5);
        world.end(&dispatch, status(500)).relays(None);
    }
    world.serve(Outcome::Complete);
    assert_eq!(world.state(0), StateKind::Live, "the first success closes all");
    world.serve(Outcome::Refused);
    let dispatch = world.get(0);
    assert!(dispatch.decision.failed_open);
    world.end(&dispatch, Outcome::Complete).relays(None);
    assert_eq!(world.state(0), StateKind::Live);
}

#[test]
fn failing_open_takes_the_soonest_back_first() {
    let mut world = singles(3, |pool, route| {
        pool.breaker.as_mut().unwrap().consecutive = 1;
        route.retry.max_attempts = 1;
    });
    assert_eq!(world.serve(status(500)), 0);
    world.until(200);
    assert_eq!(world.serve(Outcome::Refused), 1);
    world.until(500);
    assert_eq!(world.serve(status(500)), 2);
    // Open until 10.0, 10.2 (also ejected until 1.2) and 10.5.
    assert_eq!([world.serve(status(404)), world.serve(status(404))], [0, 0]);
}

#[test]
fn fail_open_tries_are_attempts_and_never_twice() {
    let mut world = singles(4, |_, _| ());
    let first = world.get(0);
    let second = world.end(&first, Outcome::Refused).sent();
    let third = world.end(&second, Outcome::Refused).sent();
    world.end(&third, Outcome::Refused).relays(None);
    let last = world.get(0);
    assert!(!last.decision.failed_open);
    let retry = world.end(&last, Outcome::Refused).sent();
    assert!(retry.decision.failed_open);
    world.end(&retry, Outcome::Abandoned);
    for _ in 0..2 {
        let mut dispatch = world.get(0);
        let mut seen = vec![dispatch.endpoint];
        while let Answer::Sent(next) = world.end(&dispatch, Outcome::Refused) {
            seen.push(next.endpoint);
            dispatch = next;
        }
        assert_eq!(seen.len(), 3);
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 3, "max_attempts, each once");
    }
}

/// Whoever was taken for dead may be back: a request that has reached no engine tries them before it gives up. One that
/// an engine has answered does not.
#[test]
fn a_retry_fails_open_only_for_what_was_never_delivered() {
    for (outcome, retried) in [
        (Outcome::Refused, true),
        (Outcome::ConnectTimeout, true),
        (status(503), false),
    ] {
        let mut world = singles(2, |_, _| ());
        let first = world.get(0);
        let second = world.end(&first, Outcome::Refused).sent();
        world.end(&second, Outcome::Complete).relays(None);
        let next = world.get(0);
        assert_eq!(
            (next.endpoint, next.decision.failed_open),
            (second.endpoint, false)
        );
        match world.end(&next, outcome) {
            Answer::Sent(last) => {
                assert_eq!((last.endpoint, last.decision.failed_open), (first.endpoint, true))
            }
            other => assert!(!retried, "{outcome:?}: {other:?}"),
        }
        assert_eq!(
            world.view(0, 0).inflight + world.view(1, 0).inflight,
            u32::from(retried),
            "{outcome:?}"
        );
    }
}

#[test]
fn without_fail_open_the_soonest_return_is_told() {
    let mut world = singles(2, |pool, _| pool.fail_open = false);
    let first = world.get(0);
    world.until(300);
    let second = world.end(&first, Outcome::Refused).sent();
    world.until(500);
    world.end(&second, Outcome::Refused).relays(Some(ms(800)));
    assert_eq!(world.ask(0).verdict(), unavailable(800));
    world.until(1_300);
    let trial = world.get(0);
    assert_eq!(trial.endpoint, first.endpoint);
    assert_eq!(world.ask(0).verdict(), unavailable(200));
}
