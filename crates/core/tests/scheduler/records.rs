//! What is told of decisions, and replay.

use crate::world::{World, at, fleet, policies, pool, route, singles, wait, weighted};
use weighbridge_core::Action;
use weighbridge_core::event::{Control, Event, Outcome};
use weighbridge_core::explain::{Abstained, Dropped, Explanation};
use weighbridge_core::replay::replay;
use weighbridge_core::spec::{Protocols, RouteBy};
use weighbridge_core::view::StateKind;

fn explain(world: &mut World, session: Option<&str>) -> Explanation {
    let arrival = world.arrival(0, session);
    world.scheduler.explain(world.now, &arrival).unwrap()
}

#[test]
fn every_reason_is_named() {
    let mut pools: Vec<_> = (0..6).map(|i| pool(&format!("p{i}"), 1)).collect();
    pools[1].protocols = Protocols::ANTHROPIC;
    pools[2].max_inflight = Some(1);
    let mut route = route("r", &[0, 1, 2, 3, 4, 5]);
    route.policies = policies(1.0, 2.0);
    route.targets[5].order = 2;
    let mut world = World::new(fleet(pools, vec![route]));
    world.control(3, 0, Control::Drain);
    let mut cooled = false;
    while !cooled || world.state(2) != StateKind::Full {
        let dispatch = world.get(0);
        if world.pool_of(&dispatch) == 4 {
            world.step(Event::Ended(weighbridge_core::event::Ended {
                request: dispatch.request,
                attempt: 1,
                outcome: wait(429, 30),
                committed: true,
                too_long: false,
                spent: None,
            }));
            cooled = true;
        }
    }
    let said = explain(&mut world, Some("s"));
    let reasons: Vec<_> = said.candidates.iter().map(|c| c.dropped).collect();
    assert_eq!(
        reasons,
        [
            None,
            Some(Dropped::Protocol),
            Some(Dropped::Capacity),
            Some(Dropped::State(StateKind::Draining)),
            Some(Dropped::State(StateKind::Cooling)),
            Some(Dropped::LaterOrder),
        ]
    );
    let decision = said.decision;
    assert_eq!((decision.candidates, decision.live), (6, 1));
    assert_eq!(decision.dropped.len(), 5);
    assert_eq!(decision.route_by, RouteBy::Policy);
    assert!(decision.runner_up.is_none() && said.winner == Some(0));
}

#[test]
fn parts_add_up_and_shares_to_one() {
    let mut route = route("r", &[0]);
    route.policies = policies(1.0, 2.5);
    let mut world = World::new(fleet(vec![pool("p", 7)], vec![route]));
    (0..9).for_each(|i| drop(world.get_session(&format!("s{i}"))));
    let said = explain(&mut world, Some("x"));
    let mut shares = [0.0; 2];
    for candidate in &said.candidates {
        let sum: f64 = candidate.parts.iter().map(|part| part.weighted).sum();
        assert!((sum - candidate.total).abs() < 1e-12);
        for (share, part) in shares.iter_mut().zip(&candidate.parts) {
            *share += part.share;
            assert!(
                (part.weighted
                    - part.share
                        * if part.policy == "session_affinity" {
                            1.0
                        } else {
                            2.5
                        })
                .abs()
                    < 1e-12
            );
        }
    }
    assert!(shares.iter().all(|share| (share - 1.0).abs() < 1e-12));
    let winner = &said.candidates[said.winner.unwrap()];
    let runner_up = said.decision.runner_up.unwrap();
    assert!(said.candidates.iter().all(|c| c.total <= winner.total));
    let second = (said.candidates.iter())
        .filter(|c| c.endpoint != winner.endpoint)
        .map(|c| c.total)
        .fold(0.0, f64::max);
    assert!((runner_up.total - second).abs() < 1e-15 && runner_up.parts.len() == 2);
    assert_eq!(said.decision.parts.as_slice(), winner.parts.as_slice());
}

#[test]
fn a_dry_run_foretells_and_changes_nothing() {
    let specs = [weighted("r", &[(0, 2.0), (1, 3.0)]), route("r", &[0, 1]), {
        let mut route = route("r", &[0, 1]);
        route.policies = policies(1.0, 1.0);
        route
    }];
    for spec in specs {
        let mut world = World::new(fleet(vec![pool("a", 3), pool("b", 2)], vec![spec]));
        for _ in 0..50 {
            let arrival = world.arrival(0, None);
            let said = world.scheduler.explain(world.now, &arrival).unwrap();
            assert_eq!(Some(&said), world.scheduler.explain(world.now, &arrival).as_ref());
            let dispatch = world.send(arrival).sent();
            assert_eq!(said.candidates[said.winner.unwrap()].endpoint, dispatch.endpoint);
            assert_eq!(said.decision, dispatch.decision);
        }
    }
}

#[test]
fn explained_when_asked_and_once_a_second() {
    let mut world = singles(2, |_, _| ());
    let mut explained = 0;
    for turn in 0..300 {
        world.now = at(turn * 10);
        let mut arrival = world.arrival(0, None);
        arrival.explain = turn == 50;
        let dispatch = world.send(arrival).sent();
        if let Some(explanation) = &dispatch.explanation {
            assert_eq!(explanation.decision, dispatch.decision);
            explained += 1;
        }
        assert!(turn != 50 || dispatch.explanation.is_some());
    }
    assert_eq!(explained, 4);
}

#[test]
fn nothing_to_choose_has_no_winner() {
    let mut world = singles(2, |_, _| ());
    world.control(0, 0, Control::Drain);
    world.control(1, 0, Control::Drain);
    let said = explain(&mut world, None);
    assert_eq!(
        (said.winner, said.decision.live, said.decision.failed_open),
        (None, 0, false)
    );
    let mut arrival = world.arrival(0, None);
    arrival.route = weighbridge_core::RouteId(7);
    assert_eq!(world.scheduler.explain(world.now, &arrival), None);
}

#[test]
fn abstaining_is_recorded() {
    let mut world = singles(2, |_, route| route.policies = policies(1.0, 1.0));
    let decision = world.get(0).decision.clone();
    assert_eq!(
        decision.abstained.as_slice(),
        [("session_affinity".into(), Abstained::NoKey)]
    );
    assert_eq!(decision.parts.len(), 1);
    assert!(decision.tie);
}

/// A log in JSON replays to the same actions; with one event changed, it does not.
#[test]
fn a_log_replays() {
    let mut world = singles(3, |pool, route| {
        route.policies = policies(0.0, 1.0);
        pool.probe = Some(crate::world::probe());
    });
    for turn in 0..60u64 {
        world.until(turn * 100);
        let dispatch = world.get(0);
        let outcome = match turn % 7 {
            3 => Outcome::Refused,
            5 => wait(429, 1),
            _ => Outcome::Complete,
        };
        let mut next = world.end(&dispatch, outcome);
        while let crate::world::Answer::Sent(retry) = next {
            next = world.end(&retry, Outcome::Complete);
        }
    }
    let text = serde_json::to_string(&world.log).unwrap();
    let log: Vec<(weighbridge_core::Time, Event, Vec<Action>)> = serde_json::from_str(&text).unwrap();
    assert_eq!(replay(log.clone().into_iter(), world.seed), Ok(()));
    let mut changed = log.clone();
    let place = (0..changed.len())
        .find(|i| matches!(&changed[*i].1, Event::Ended(ended) if ended.outcome == Outcome::Refused))
        .unwrap();
    let Event::Ended(ended) = &mut changed[place].1 else {
        unreachable!("it was just found");
    };
    ended.outcome = Outcome::Complete;
    let divergence = replay(changed.into_iter(), world.seed).unwrap_err();
    assert_eq!(divergence.step, place);
    assert!(divergence.to_string().starts_with(&format!("step {place} at ")));
    assert!(replay(log.into_iter(), world.seed + 1).is_err(), "another seed");
}
