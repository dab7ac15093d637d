//! Requests that one endpoint alone can serve.

use crate::world::{Answer, World, fallback, fleet, policies, pool, route, singles, wait, weighted};
use weighbridge_core::action::Verdict;
use weighbridge_core::event::{Arrival, Control, Ended, Event, Only, Outcome};
use weighbridge_core::explain::Dropped;
use weighbridge_core::replay::replay;

fn pinned(world: &mut World, pool: usize) -> Arrival {
    let endpoint = world.endpoint(pool, 0);
    Arrival {
        only: Some(Only { endpoint, key: None }),
        ..world.arrival(0, None)
    }
}

fn sent_to(world: &mut World, pool: usize) -> Option<usize> {
    let arrival = pinned(world, pool);
    match world.send(arrival) {
        Answer::Sent(dispatch) => Some(world.pool_of(&dispatch)),
        _ => None,
    }
}

#[test]
fn it_goes_home_however_the_route_chooses() {
    let routes = [
        route("r", &[0, 1, 2]),
        weighted("r", &[(0, 1.0), (1, 1.0), (2, 8.0)]),
        weighbridge_core::spec::RouteSpec {
            policies: policies(1.0, 2.0),
            ..route("r", &[0, 1, 2])
        },
    ];
    for route in routes {
        let pools = (0..3).map(|i| pool(&format!("p{i}"), 1)).collect();
        let mut world = World::new(fleet(pools, vec![route]));
        for home in [1, 1, 2, 0, 1] {
            assert_eq!(sent_to(&mut world, home), Some(home));
        }
        assert_eq!(world.view(1, 0).inflight, 3, "it counts like any other");
        assert_eq!(replay(world.log.clone().into_iter(), world.seed), Ok(()));
    }
}

#[test]
fn it_takes_nobodys_turn() {
    let mut world = singles(2, |_, _| {});
    let mut order = Vec::new();
    for _ in 0..4 {
        let dispatch = world.get(0);
        order.push(world.pool_of(&dispatch));
        assert_eq!(sent_to(&mut world, 1), Some(1));
    }
    assert_eq!(order, [0, 1, 0, 1]);
}

#[test]
fn a_home_out_of_service_is_not_replaced() {
    let pools = (0..2).map(|i| pool(&format!("p{i}"), 1)).collect();
    let mut first = route("r", &[0]);
    first.fallback = vec![fallback("other")];
    let mut world = World::new(fleet(pools, vec![first, route("other", &[1])]));
    world.control(0, 0, Control::Drain);
    let arrival = pinned(&mut world, 0);
    let answer = world.send(arrival);
    assert!(
        matches!(answer, Answer::Finished(Verdict::Unavailable { .. })),
        "{answer:?}"
    );
}

#[test]
fn it_is_not_tried_elsewhere_when_home_fails() {
    let mut world = singles(2, |_, _| {});
    let arrival = pinned(&mut world, 1);
    let request = arrival.request;
    assert!(matches!(world.send(arrival), Answer::Sent(_)));
    let actions = world.step(Event::Ended(Ended {
        request,
        attempt: 1,
        outcome: Outcome::Refused,
        committed: false,
        too_long: false,
        spent: None,
    }));
    let finished = actions.iter().any(|action| {
        matches!(action, weighbridge_core::Action::Finish { request: of, verdict: Verdict::Relay { .. } } if *of == request)
    });
    assert!(finished, "{actions:?}");
}

#[test]
fn a_home_that_cools_is_waited_for() {
    let mut world = singles(2, |_, _| {});
    let arrival = pinned(&mut world, 1);
    let request = arrival.request;
    assert!(matches!(world.send(arrival), Answer::Sent(_)));
    world.step(Event::Ended(Ended {
        request,
        attempt: 1,
        outcome: wait(429, 30),
        committed: true,
        too_long: false,
        spent: None,
    }));
    let arrival = pinned(&mut world, 1);
    let answer = world.send(arrival);
    let Answer::Finished(Verdict::Busy { retry_after }) = answer else {
        panic!("{answer:?}")
    };
    assert!(retry_after.as_secs() >= 29, "{retry_after:?}");
}

#[test]
fn the_reason_is_told() {
    let mut world = singles(2, |_, _| {});
    let arrival = pinned(&mut world, 1);
    let said = world.scheduler.explain(world.now, &arrival).unwrap();
    let reasons: Vec<_> = said.candidates.iter().map(|c| c.dropped).collect();
    assert_eq!(reasons, [Some(Dropped::Elsewhere), None]);
    assert_eq!(said.winner, Some(1));
}
