use super::*;
use crate::event::{Ended, Outcome};
use crate::ids::RequestId;
use crate::policies::stage::Stage;
use crate::prefix::BlockHash;
use crate::signals::{CacheChange, Reading};
use crate::work::Work;
use crate::{Event, Time};
use std::sync::Arc;
use std::time::Duration;

fn stage(count: usize) -> Stage {
    Stage::new(count, |policies| policies.prefix_cache = Some(Config::default()))
}

/// A prompt of blocks of 100 tokens: `shared` that all have, then `own` of its own.
fn prompt(shared: u64, (text, own): (u64, u64)) -> Arc<Work> {
    let hash = |part: u64, at: u64| BlockHash((part << 32 ^ at).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let blocks = (0..shared)
        .map(|at| hash(1, at))
        .chain((0..own).map(|at| hash(2 + text, at)));
    Arc::new(Work {
        prompt_tokens: u32::try_from(100 * (shared + own)).unwrap(),
        blocks: blocks.collect(),
        block_tokens: 100,
        ..Work::default()
    })
}

/// Sends what the stage has to the endpoint at `place`, where it ends at once.
fn served(stage: &mut Stage, place: usize, work: &Arc<Work>) {
    stage.work = Some(Arc::clone(work));
    for request in stage.busy(place, 1) {
        end(stage, request, Outcome::Complete);
    }
}

fn end(stage: &mut Stage, request: RequestId, outcome: Outcome) {
    stage.step(Event::Ended(Ended {
        request,
        attempt: 1,
        outcome,
        committed: outcome == Outcome::Complete,
        too_long: false,
        spent: None,
    }));
}

/// Gives all endpoints the same uncached work, by prompts of `blocks` that nobody sends again.
fn even(stage: &mut Stage, blocks: u64) {
    for place in 0..stage.ids.len() {
        served(stage, place, &prompt(0, (1000 + place as u64, blocks)));
    }
}

fn close(got: &[f64], expected: &[f64]) {
    let same = got
        .iter()
        .zip(expected)
        .all(|(got, expected)| (got - expected).abs() < 1e-9);
    assert!(
        same && got.len() == expected.len(),
        "{got:?}, expected {expected:?}"
    );
}

#[test]
fn the_share_of_the_prompt_that_is_there() {
    let mut stage = stage(3);
    even(&mut stage, 200);
    stage.work = Some(prompt(12, (1, 8)));
    assert_eq!(stage.abstained("prefix_cache"), Some(Abstained::Miss));
    served(&mut stage, 0, &prompt(12, (0, 0)));
    served(&mut stage, 1, &prompt(2, (0, 0)));
    stage.work = Some(prompt(12, (1, 8)));
    close(&stage.scores("prefix_cache"), &[0.6, 0.1, 0.0]);
    assert_eq!(stage.winner(), 0);
    // What all have distinguishes nobody.
    served(&mut stage, 2, &prompt(2, (0, 0)));
    stage.work = Some(prompt(12, (1, 8)));
    close(&stage.scores("prefix_cache"), &[0.5, 0.0, 0.0]);
}

#[test]
fn it_changes_the_winner() {
    let mut with = Stage::new(2, |policies| {
        policies.prefix_cache = Some(Config::default());
        policies.least_inflight = Some(crate::policies::least_inflight::Config::default());
    });
    even(&mut with, 50);
    served(&mut with, 0, &prompt(0, (1, 10)));
    with.work = Some(prompt(0, (1, 10)));
    with.busy(0, 1);
    // By load 2/3 to 1/3 for the second; with the prefix 1/3 + 1 for the first.
    close(&with.scores("least_inflight"), &[0.5, 1.0]);
    assert_eq!(with.winner(), 0);
}

#[test]
fn a_hit_counts_while_it_saves_more_than_it_costs() {
    let mut stage = stage(2);
    // 1,000 tokens are computed on the first, none on the other: 500 · 1.1 + 1,000 saved is above 1,000.
    served(&mut stage, 0, &prompt(10, (0, 0)));
    stage.work = Some(prompt(10, (1, 3)));
    close(&stage.scores("prefix_cache"), &[10.0 / 13.0, 0.0]);
    // 1,000 more that others will not send again: 1,000 · 1.1 + 1,000 is above 2,000, but not above 2,300.
    served(&mut stage, 0, &prompt(0, (2, 10)));
    stage.work = Some(prompt(10, (1, 3)));
    close(&stage.scores("prefix_cache"), &[10.0 / 13.0, 0.0]);
    served(&mut stage, 0, &prompt(0, (3, 3)));
    // 1,150 · 1.1 + 1,000 = 2,265: refused, and the other is sent what has to be computed anyway.
    stage.work = Some(prompt(10, (1, 3)));
    close(&stage.scores("prefix_cache"), &[0.0, 1.0]);
    assert_eq!(stage.winner(), 1);
    // Half of that is forgotten in two minutes: 632.5 + 1,000 is above 1,150.
    stage.pass(120_000);
    close(&stage.scores("prefix_cache"), &[10.0 / 13.0, 0.0]);
}

#[test]
fn a_hit_does_not_count_where_too_many_are_in_flight() {
    let mut stage = stage(2);
    even(&mut stage, 100);
    served(&mut stage, 0, &prompt(10, (0, 0)));
    let mut number = 0;
    let mut score = |stage: &mut Stage, more: u64| {
        for _ in 0..more {
            number += 1;
            stage.work = Some(prompt(0, (2000 + number, 1)));
            stage.busy(0, 1);
        }
        stage.work = Some(prompt(10, (0, 0)));
        stage.scores("prefix_cache")[0]
    };
    // With this one 8 in flight, a mean of 4 and a bound of 4 + 3 · 2.
    assert!(score(&mut stage, 7) > 0.9);
    // 18, a mean of 9 and a bound of 9 + 3 · 3, which is not passed yet; 19: 9.5 + 3 · 3.08 = 18.7.
    assert!(score(&mut stage, 10) > 0.9);
    assert!(
        score(&mut stage, 1) < 0.1,
        "the other is sent what is computed anyway"
    );
}

#[test]
fn what_most_share_counts_only_where_nobody_waits() {
    let mut stage = stage(2);
    even(&mut stage, 100);
    for text in 0..40 {
        served(&mut stage, 0, &prompt(10, (text, 0)));
    }
    stage.work = Some(prompt(10, (1, 0)));
    stage.busy(0, 1);
    assert!(stage.scores("prefix_cache")[0] > 0.9, "one more than the other");
    stage.busy(0, 1);
    assert!(stage.scores("prefix_cache")[0] < 0.1, "two more");
    // What is a prompt's own counts nevertheless.
    stage.work = Some(prompt(10, (50, 90)));
    served(&mut stage, 1, &prompt(0, (60, 100)));
    served(&mut stage, 0, &prompt(10, (50, 90)));
    stage.work = Some(prompt(10, (50, 90)));
    assert!(stage.scores("prefix_cache")[0] > 0.9);
}

#[test]
fn what_all_share_does_not_decide() {
    let mut stage = stage(4);
    let mut sent = [0; 4];
    for text in 0..1000 {
        // A system prompt of 2,000 tokens and 100 of one's own.
        stage.work = Some(prompt(20, (text, 1)));
        let (request, place) = stage.send();
        sent[place] += 1;
        end(&mut stage, request, Outcome::Complete);
    }
    assert!(sent.iter().all(|count| (200..=300).contains(count)), "{sent:?}");
}

#[test]
fn a_conversation_stays_where_it_is() {
    let mut stage = stage(3);
    let mut places = Vec::new();
    for turn in 1..=10 {
        stage.work = Some(prompt(10, (1, 3 * turn)));
        let (request, place) = stage.send();
        places.push(place);
        end(&mut stage, request, Outcome::Complete);
    }
    assert!(places.iter().all(|place| *place == places[0]), "{places:?}");
}

#[test]
fn one_that_joins_is_not_buried() {
    let endpoints = |count: usize| {
        let named = |at: usize| crate::spec::EndpointSpec::new(format!("e{at}"), format!("http://e{at}"));
        let mut route = crate::spec::RouteSpec::new("r", vec![crate::spec::TargetSpec::new("t", 0)]);
        route.policies.prefix_cache = Some(Config::default());
        crate::spec::FleetSpec {
            pools: vec![crate::spec::PoolSpec::new("p", (0..count).map(named).collect())],
            routes: vec![route],
            ..crate::spec::FleetSpec::default()
        }
    };
    let mut stage = Stage::of(endpoints(3));
    even(&mut stage, 100);
    served(&mut stage, 0, &prompt(10, (0, 0)));
    stage.step(Event::Configure(Arc::new(endpoints(4))));
    stage.work = Some(prompt(10, (1, 2)));
    close(&stage.scores("prefix_cache"), &[10.0 / 12.0, 0.0, 0.0, 0.0]);
}

fn reading(cache_tokens: u64, prefix_queries: u64) -> Reading {
    Reading {
        cache_tokens: Some(cache_tokens),
        prefix_queries: Some(prefix_queries),
        ..Reading::default()
    }
}

#[test]
fn the_account_is_as_large_as_the_engine_s_cache() {
    let mut stage = stage(2);
    // Room for ten blocks.
    stage.read(0, reading(1000, 1));
    stage.read(1, reading(1000, 1));
    even(&mut stage, 200);
    served(&mut stage, 0, &prompt(0, (1, 6)));
    served(&mut stage, 0, &prompt(0, (2, 6)));
    stage.work = Some(prompt(0, (1, 6)));
    close(&stage.scores("prefix_cache"), &[4.0 / 6.0, 0.0]);
}

#[test]
fn a_cache_is_lost_with_its_engine() {
    let known = prompt(0, (1, 10));
    let lost = |how: &dyn Fn(&mut Stage)| {
        let mut stage = stage(2);
        stage.read(0, reading(1_000_000, 50));
        even(&mut stage, 100);
        served(&mut stage, 0, &known);
        stage.work = Some(Arc::clone(&known));
        assert!(stage.scores("prefix_cache")[0] > 0.9);
        how(&mut stage);
        stage.work = Some(Arc::clone(&known));
        stage.abstained("prefix_cache") == Some(Abstained::Miss)
    };
    // Its counters go on, or start again.
    assert!(!lost(&|stage| stage.read(0, reading(1_000_000, 60))));
    assert!(lost(&|stage| stage.read(0, reading(1_000_000, 3))));
    // It says so itself.
    assert!(lost(&|stage| {
        let endpoint = stage.ids[0];
        let changes = vec![CacheChange::Cleared];
        stage.step(Event::Cache { endpoint, changes });
    }));
    // Nobody listens there; a reset says nothing of that.
    let ends = |outcome| {
        lost(&|stage: &mut Stage| {
            stage.work = Some(prompt(0, (9, 1)));
            for request in stage.busy(0, 1) {
                end(stage, request, outcome);
            }
            // The ejection is over.
            stage.now = stage.now.after(Duration::from_secs(2));
            stage.step(Event::Tick);
        })
    };
    assert!(ends(Outcome::Refused));
    assert!(!ends(Outcome::Reset));
}

#[test]
fn events_of_the_engine_count_as_well() {
    let mut stage = stage(2);
    even(&mut stage, 100);
    let exact: Vec<BlockHash> = (1..=8).map(|at| BlockHash(at << 40)).collect();
    stage.work = Some(Arc::new(Work {
        exact: exact.clone().into(),
        exact_tokens: 16,
        prompt_tokens: 130,
        ..Work::default()
    }));
    assert_eq!(stage.abstained("prefix_cache"), Some(Abstained::Miss));
    let endpoint = stage.ids[1];
    let parent = None;
    let blocks = exact[..6].to_vec();
    let changes = vec![CacheChange::Stored { parent, blocks }];
    stage.step(Event::Cache { endpoint, changes });
    close(&stage.scores("prefix_cache"), &[0.0, 0.75]);
    let changes = vec![CacheChange::Removed {
        blocks: vec![exact[2]],
    }];
    stage.step(Event::Cache { endpoint, changes });
    close(&stage.scores("prefix_cache"), &[0.0, 0.25]);
}

#[test]
fn what_is_not_used_is_forgotten() {
    let mut stage = Stage::new(2, |policies| {
        policies.prefix_cache = Some(Config {
            idle_max: Span(Duration::from_secs(60)),
            ..Config::default()
        });
    });
    served(&mut stage, 0, &prompt(0, (1, 10)));
    assert!(stage.now == Time::ZERO);
    stage.pass(61_000);
    // Whatever is sent has old blocks looked at.
    served(&mut stage, 1, &prompt(0, (2, 1)));
    stage.work = Some(prompt(0, (1, 10)));
    assert_eq!(stage.abstained("prefix_cache"), Some(Abstained::Miss));
}

#[test]
fn settings_that_mean_nothing_are_refused() {
    let wrong = |change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        config.check().is_err()
    };
    assert!(!wrong(|_| {}));
    assert!(wrong(|config| config.weight = 0.0));
    assert!(wrong(|config| config.memory_max = Size(0)));
    assert!(wrong(|config| config.memory_max = Size(5000 << 20)));
    assert!(wrong(|config| config.idle_max = Span(Duration::ZERO)));
}
