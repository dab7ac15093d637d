//! What engines tell of their caches is believed, and of those that told all nothing else.

use crate::world::{World, fleet, pool, route};
use std::sync::Arc;
use weighbridge_core::Event;
use weighbridge_core::action::Dispatch;
use weighbridge_core::event::Outcome;
use weighbridge_core::policies::{Policies, prefix_cache};
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::signals::{CacheChange, Reading};
use weighbridge_core::work::Work;

fn chain(seed: u64) -> Vec<BlockHash> {
    (0..10).map(|block| BlockHash(seed * 1000 + block)).collect()
}

/// Two endpoints; the first has told that it is empty.
fn world() -> World {
    let mut route = route("r", &[0]);
    route.policies = Policies {
        prefix_cache: Some(prefix_cache::Config::default()),
        ..Policies::default()
    };
    let mut world = World::new(fleet(vec![pool("p", 2)], vec![route]));
    tell(&mut world, 0, vec![CacheChange::Cleared]);
    world
}

fn tell(world: &mut World, place: usize, changes: Vec<CacheChange>) {
    let endpoint = world.endpoint(0, place);
    world.step(Event::Cache { endpoint, changes });
}

fn stored(seed: u64) -> CacheChange {
    CacheChange::Stored {
        parent: None,
        blocks: chain(seed),
    }
}

/// The believed share of a prompt at each endpoint, as the policy scores it; it abstains where nobody has any.
fn believed(world: &mut World, seed: u64, exact: bool) -> Vec<f64> {
    let mut arrival = world.arrival(0, None);
    arrival.work = Some(work(seed, exact));
    let explained = world.scheduler.explain(world.now, &arrival).unwrap();
    let raw = |parts: &[weighbridge_core::explain::Part]| parts.first().map_or(0.0, |part| part.raw);
    explained
        .candidates
        .iter()
        .map(|candidate| raw(&candidate.parts))
        .collect()
}

/// A prompt of 10 blocks of 16 tokens, learned under other names than told.
fn work(seed: u64, exact: bool) -> Arc<Work> {
    Arc::new(Work {
        prompt_tokens: 161,
        blocks: chain(seed + 500).into(),
        block_tokens: 16,
        exact: if exact { chain(seed).into() } else { Box::default() },
        exact_tokens: 16,
        ..Work::default()
    })
}

/// A prompt goes to the endpoint at the place that is given with it.
fn start(world: &mut World, seed: u64, exact: bool) -> (Box<Dispatch>, usize) {
    let mut arrival = world.arrival(0, None);
    arrival.work = Some(work(seed, exact));
    let dispatch = world.send(arrival).sent();
    let place = usize::from(dispatch.endpoint == world.endpoint(0, 1));
    (dispatch, place)
}

/// A prompt goes to the endpoint at `place`, and is over.
fn send(world: &mut World, seed: u64, exact: bool) -> usize {
    let (dispatch, place) = start(world, seed, exact);
    world.end(&dispatch, Outcome::Complete);
    place
}

/// A burst with one new beginning: engines tell of it only once they compute it.
#[test]
fn what_is_under_way_is_believed_until_it_is_over() {
    let mut world = world();
    tell(&mut world, 1, vec![CacheChange::Cleared]);
    let (first, place) = start(&mut world, 1, true);
    let mut expected = vec![0.0; 2];
    expected[place] = 1.0;
    assert_eq!(
        believed(&mut world, 1, true),
        expected,
        "it is being computed there"
    );
    let (second, _) = start(&mut world, 1, true);
    assert_eq!(second.endpoint, first.endpoint);
    world.end(&first, Outcome::Complete);
    world.end(&second, Outcome::Complete);
    assert_eq!(
        believed(&mut world, 1, true),
        [0.0, 0.0],
        "it was not kept, or it would have been told"
    );
}

#[test]
fn what_was_under_way_is_gone_with_the_cache() {
    for change in [CacheChange::Cleared, CacheChange::Lost] {
        let mut world = world();
        tell(&mut world, 1, vec![CacheChange::Cleared]);
        let (sent, place) = start(&mut world, 1, true);
        tell(&mut world, place, vec![change]);
        assert_eq!(believed(&mut world, 1, true), [0.0, 0.0]);
        world.end(&sent, Outcome::Complete);
    }
}

#[test]
fn what_is_told_is_believed() {
    let mut world = world();
    tell(&mut world, 0, vec![stored(1)]);
    assert_eq!(believed(&mut world, 1, true), [1.0, 0.0]);
    assert_eq!(send(&mut world, 1, true), 0);
    let rest = chain(1).split_off(4);
    tell(&mut world, 0, vec![CacheChange::Removed { blocks: rest }]);
    assert_eq!(believed(&mut world, 1, true), [0.4, 0.0]);
    tell(&mut world, 0, vec![CacheChange::Cleared]);
    assert_eq!(believed(&mut world, 1, true), [0.0, 0.0]);
}

#[test]
fn of_who_told_all_nothing_else_is_believed() {
    let mut world = world();
    // Of the second nothing is known but what was sent there.
    let place = send(&mut world, 1, false);
    assert_eq!(believed(&mut world, 1, false)[place], 1.0);
    let seen = believed(&mut world, 1, true);
    assert_eq!(seen[0], 0.0, "it told that it is empty");
    assert_eq!(seen[1], if place == 1 { 1.0 } else { 0.0 });
    // Once something was not told, what was sent there counts again.
    tell(&mut world, 0, vec![CacheChange::Lost]);
    let mut at_first = false;
    for seed in 2..12 {
        let place = send(&mut world, seed, true);
        let seen = believed(&mut world, seed, true);
        assert_eq!(seen[place], 1.0, "{seed}");
        at_first |= place == 0;
    }
    assert!(at_first);
}

#[test]
fn an_empty_cache_has_nothing_of_what_was_sent_there() {
    let mut world = world();
    tell(&mut world, 1, vec![CacheChange::Lost]);
    let place = send(&mut world, 1, false);
    assert_eq!(believed(&mut world, 1, false)[place], 1.0);
    tell(&mut world, place, vec![CacheChange::Cleared]);
    assert_eq!(believed(&mut world, 1, false), [0.0, 0.0]);
}

/// The scrape that notices a restart may come behind the events of the new process.
#[test]
fn counters_that_start_again_take_nothing_that_was_told() {
    let mut world = world();
    let endpoint = world.endpoint(0, 0);
    let reading = |tokens| Event::Scraped {
        endpoint,
        reading: Box::new(Reading {
            prompt_tokens: Some(tokens),
            ..Reading::default()
        }),
    };
    world.step(reading(1000));
    tell(&mut world, 0, vec![CacheChange::Cleared, stored(1)]);
    world.step(reading(10));
    assert_eq!(believed(&mut world, 1, true), [1.0, 0.0]);
}
