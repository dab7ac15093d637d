use super::*;
use crate::Event;
use crate::event::{Outcome, Spent};
use crate::policies::stage::{Stage, near, prompt, work};
use crate::prefix::BlockHash;
use crate::signals::{CacheChange, Reading};
use crate::work::Work;
use std::sync::Arc;

/// Endpoints that compute 1,000 prompt tokens a second, and 50 of an answer; nothing has come of late.
fn stage(count: usize, config: Config) -> Stage {
    let mut stage = Stage::new(count, |policies| policies.added_delay = Some(config.clone()));
    for place in 0..count {
        stage.served(place, (1000, 51), (1000, 20));
    }
    stage.pass(3_600_000);
    stage
}

/// Of all that is added, what computing a prompt costs.
fn computing() -> Config {
    Config {
        arrivals: 0.0,
        answers: 0.0,
        ..Config::default()
    }
}

fn seconds(stage: &Stage) -> Vec<f64> {
    let scores = stage.scores("added_delay");
    scores.into_iter().map(|score| 1.0 / score - 0.001).collect()
}

/// So many own requests run there, each of which took its second to compute.
fn run(stage: &mut Stage, counts: &[u32]) {
    for (place, count) in counts.iter().enumerate() {
        for _ in 0..*count {
            stage.work = work(1000, 1);
            let sent = stage.busy(place, 1);
            stage.pass(1000);
            stage.first_token(sent[0]);
        }
    }
}

/// Each engine says that eight requests run there, and so many wait.
fn told(stage: &mut Stage, waiting: &[u32]) {
    for (place, waiting) in waiting.iter().enumerate() {
        let reading = Reading {
            running: Some(8),
            waiting: Some(*waiting),
            ..Reading::default()
        };
        stage.read(place, reading);
    }
}

/// Each engine tells of its cache from here on, which is empty.
fn told_empty(stage: &mut Stage) {
    for endpoint in stage.ids.clone() {
        let changes = vec![CacheChange::Cleared];
        stage.step(Event::Cache { endpoint, changes });
    }
}

#[test]
fn computing_costs_the_request_itself_and_those_being_answered() {
    let mut stage = stage(2, computing());
    stage.work = work(1000, 1);
    assert!(
        near(&seconds(&stage), &[1.0, 1.0]),
        "nobody is there to be delayed"
    );
    run(&mut stage, &[3, 1]);
    // 1 s of its own; 3 / 2 and 1 / 2 as many run as usual.
    assert!(near(&seconds(&stage), &[2.5, 1.5]), "{:?}", seconds(&stage));
    assert_eq!(stage.winner(), 1);
}

#[test]
fn a_cached_prompt_costs_nobody_anything() {
    let mut stage = stage(2, computing());
    run(&mut stage, &[3, 1]);
    stage.holds(0, &prompt(5, 1000));
    let mut asked = (*prompt(5, 1000)).clone();
    asked.prompt_tokens = 1100;
    let held = f64::from(asked.block_tokens) * 5.0;
    stage.work = Some(asked.into());
    let left = (1100.0 - held.min(1099.0)) / 1000.0;
    assert!(
        near(&seconds(&stage), &[left * 2.5, 1.1 * 1.5]),
        "{:?}",
        seconds(&stage)
    );
    assert_eq!(stage.winner(), 0, "though it is the busier one");
}

#[test]
fn those_who_come_wait_for_what_is_computed_again() {
    let mut stage = stage(
        2,
        Config {
            answers: 0.0,
            ..Config::default()
        },
    );
    stage.work = work(1000, 1);
    stage.busy(0, 1);
    // One was sent of late, so with a half-life of 30 s ln 2 / 30 a second, half of it to each.
    let arrivals = std::f64::consts::LN_2 / 30.0 / 2.0;
    // 1,000 tokens are ahead at the first, none at the second.
    let expected = [2.0 + 2.0 * arrivals, 1.0 + arrivals];
    assert!(near(&seconds(&stage), &expected), "{:?}", seconds(&stage));
    assert_eq!(stage.winner(), 1);
}

#[test]
fn answers_under_way_cost_token_times() {
    let mut stage = stage(
        2,
        Config {
            recompute: 0.0,
            arrivals: 0.0,
            ..Config::default()
        },
    );
    run(&mut stage, &[6, 2]);
    stage.work = work(1000, 1);
    // A quarter of 20 ms for each that runs.
    assert!(near(&seconds(&stage), &[1.03, 1.01]), "{:?}", seconds(&stage));
    assert_eq!(stage.winner(), 1);
}

/// The first engine answers the request `millis` ms later, and says that it found so many of 1,000 tokens cached.
fn found_cached(stage: &mut Stage, cached: u32, millis: u64) {
    let request = stage.busy(0, 1)[0];
    stage.pass(millis);
    stage.first_token(request);
    let spent = Spent {
        prompt: 1000,
        cached: Some(cached),
        output: 1,
    };
    stage.end(request, Outcome::Complete, Some(spent));
}

/// An engine that found half of what was believed cached is taken to have half of it the next time.
#[test]
fn beliefs_are_corrected_by_what_engines_say() {
    let mut stage = stage(2, computing());
    let asked = prompt(5, 200);
    stage.holds(0, &asked);
    stage.work = Some(asked);
    let before = seconds(&stage);
    found_cached(&mut stage, 500, 100);
    let after = seconds(&stage);
    // Half of what it is elsewhere, and what a prompt takes besides.
    assert!(
        before[0] < 0.01 && after[0] > 0.5 * after[1],
        "{before:?} {after:?}"
    );
}

/// The gateway estimates tokens, and the engine counts them: a quarter too many do not make a fifth of what is cached uncached.
#[test]
fn beliefs_hold_where_tokens_are_counted_otherwise() {
    let mut stage = stage(2, computing());
    let asked = prompt(5, 250);
    stage.holds(0, &asked);
    stage.work = Some(asked);
    found_cached(&mut stage, 999, 10);
    let seconds = seconds(&stage);
    // A prompt takes 10 ms besides; 250 tokens take as much again.
    assert!((0.01..0.0101).contains(&seconds[0]), "{seconds:?}");
}

/// Prompts that are believed cached have next to no tokens, and yet each takes its time.
#[test]
fn prompts_that_wait_cost_what_each_takes() {
    let mut stage = Stage::new(2, |policies| policies.added_delay = Some(computing()));
    for place in 0..2 {
        // 200 ms each, and 1,000 tokens a second.
        for prompt in [100, 300, 500, 700] {
            stage.served(place, (prompt, 2), (200 + u64::from(prompt), 20));
        }
    }
    stage.work = work(10, 1);
    assert!(near(&seconds(&stage), &[0.21, 0.21]), "{:?}", seconds(&stage));
    stage.busy(0, 3);
    // Three more of 200 ms, and 30 tokens ahead.
    assert!(near(&seconds(&stage), &[0.84, 0.21]), "{:?}", seconds(&stage));
}

/// Two engines with caches of four prompts, of which the first is the faster one and has lost over and over what it was asked
/// for; and a new prompt.
fn thrashing() -> Stage {
    let mut stage = Stage::new(2, |policies| policies.added_delay = Some(computing()));
    stage.served(0, (1000, 51), (900, 20));
    stage.served(1, (1000, 51), (1000, 20));
    for place in 0..2 {
        let reading = Reading {
            cache_tokens: Some(16 * 40),
            ..Reading::default()
        };
        stage.read(place, reading);
    }
    stage.pass(3_600_000);
    let new = |name: u64| {
        let mut work = (*prompt(10, 16)).clone();
        work.blocks = (0..10).map(|at| BlockHash(name << 32 | at)).collect();
        Arc::new(work)
    };
    stage.work = Some(new(99));
    assert_eq!(stage.winner(), 0, "it is the faster one");
    // Ten prompts take turns in a cache that holds four.
    for round in 0..60 {
        stage.holds(0, &new(round % 10));
    }
    stage.pass(3_600_000);
    stage.work = Some(new(99));
    stage
}

/// New prompts go where caches have room for them, though it takes longer there.
#[test]
fn what_is_displaced_and_asked_for_again_costs() {
    let stage = thrashing();
    assert_eq!(stage.winner(), 1, "{:?}", seconds(&stage));
}

/// One that starts again has lost nothing yet.
#[test]
fn an_engine_that_starts_again_displaces_nothing() {
    let mut stage = thrashing();
    let before = seconds(&stage)[0];
    let request = stage.busy(0, 1)[0];
    stage.end(request, Outcome::Refused, None);
    stage.pass(3_600_000);
    assert!(
        seconds(&stage)[0] < 0.5 * before,
        "{before} {:?}",
        seconds(&stage)
    );
    assert_eq!(stage.winner(), 0);
}

/// Where engines say that others send there too, whoever owns the prompt's head is taken to have it.
#[test]
fn what_others_sent_is_at_home() {
    let mut stage = stage(2, computing());
    stage.work = Some(prompt(10, 1000));
    told(&mut stage, &[0; 2]);
    let seconds = seconds(&stage);
    let (least, most) = (seconds[0].min(seconds[1]), seconds[0].max(seconds[1]));
    // 1 − 0.5 / 16.5 is unseen, of which a quarter may be chance.
    let seen = 1.0 - (1.0 - 0.5 / 16.5 - 0.25) / 0.75;
    assert!((least / most - seen * seen).abs() < 1e-9, "{seconds:?}");
}

/// A queue at the home of a prompt counts for what it makes wait, and no more.
#[test]
fn a_short_wait_at_home_is_cheaper_than_computing_elsewhere() {
    let mut stage = stage(2, computing());
    // Ten seconds; a prompt of others is one.
    stage.work = Some(prompt(10, 1000));
    told(&mut stage, &[0, 0]);
    let home = stage.winner();
    let mut waiting = [0; 2];
    waiting[home] = 5;
    told(&mut stage, &waiting);
    assert_eq!(stage.winner(), home, "5 s of others against 10");
    waiting[home] = 50;
    told(&mut stage, &waiting);
    assert_ne!(stage.winner(), home, "50 s of others");
}

/// Of what others have under way no engine has told; it is at the home of its head. What is told to be somewhere is there.
#[test]
fn what_nobody_is_told_to_have_may_be_under_way_at_home() {
    let mut stage = stage(3, computing());
    let whole = prompt(10, 1000);
    let exact: Box<[BlockHash]> = whole
        .blocks
        .iter()
        .map(|block| BlockHash(block.0 + 1000))
        .collect();
    stage.work = Some(Arc::new(Work {
        exact: exact.clone(),
        exact_tokens: 1000,
        ..(*whole).clone()
    }));
    told(&mut stage, &[0; 3]);
    told_empty(&mut stage);
    // 1 − 0.5 / 24.5 is others', of which a quarter may be chance.
    let seen = 1.0 - (1.0 - 0.5 / 24.5 - 0.25) / 0.75;
    let home = stage.winner();
    let mut expected = [20.0; 3];
    expected[home] = 20.0 * seen * seen;
    assert!(near(&seconds(&stage), &expected), "{:?}", seconds(&stage));
    // Another has told that it has nine of the ten blocks: only the last may be at home beside.
    let other = (home + 1) % 3;
    stage.step(Event::Cache {
        endpoint: stage.ids[other],
        changes: vec![CacheChange::Stored {
            parent: None,
            blocks: exact[..9].into(),
        }],
    });
    expected[other] = 2.0;
    expected[home] = 18.0 + 2.0 * seen * seen;
    assert!(near(&seconds(&stage), &expected), "{:?}", seconds(&stage));
}

/// What others send arrives, whether or not engines tell what it leaves in their caches.
#[test]
fn those_whom_others_send_come_too() {
    let config = Config {
        recompute: 0.0,
        answers: 0.0,
        ..Config::default()
    };
    let coming = |follows: bool| {
        let mut stage = stage(2, config.clone());
        stage.work = work(1000, 1);
        stage.busy(0, 1);
        told(&mut stage, &[0; 2]);
        if follows {
            told_empty(&mut stage);
        }
        seconds(&stage)
    };
    // One own request is known when the engines say that there are 16: 1 − 1.5 / 16.5 is others', of which a quarter may be chance.
    let seen = 1.0 - (1.0 - 1.5 / 16.5 - 0.25) / 0.75;
    let arrivals = std::f64::consts::LN_2 / 30.0 / 2.0 / seen;
    let expected = [2.0 + 2.0 * arrivals, 1.0 + arrivals];
    for told in [false, true] {
        assert!(
            near(&coming(told), &expected),
            "{told}: {:?} {expected:?}",
            coming(told)
        );
    }
}

#[test]
fn where_nothing_is_known_it_spreads_evenly() {
    let mut stage = Stage::new(4, |policies| policies.added_delay = Some(Config::default()));
    let mut sent = [0; 4];
    (0..40).for_each(|_| sent[stage.send().1] += 1);
    assert_eq!(sent, [10; 4]);
}

#[test]
fn factors_out_of_range_are_named() {
    let config = Config {
        arrivals: -1.0,
        ..Config::default()
    };
    assert_eq!(
        config.check(),
        Err("arrivals: -1 is not from 0 to 100".to_owned())
    );
    assert_eq!(Config::default().check(), Ok(()));
}

#[test]
fn what_engines_no_longer_tell_of_others_does_not_count() {
    let mut stage = stage(2, computing());
    stage.work = Some(prompt(10, 1000));
    let alone = seconds(&stage);
    told(&mut stage, &[0; 2]);
    assert_ne!(seconds(&stage), alone, "one of them is its home");
    stage.pass(60_000);
    assert_eq!(seconds(&stage), alone);
}

/// Of answers in one piece no first token is told, so that nothing says how long prompts and answers take.
#[test]
fn where_answers_come_in_one_piece_it_is_least_work() {
    let mut stage = Stage::new(4, |policies| policies.added_delay = Some(Config::default()));
    stage.work = Some(prompt(10, 1000));
    let (mut sent, mut under_way) = ([0; 4], std::collections::VecDeque::new());
    for number in 0..2000 {
        let (request, place) = stage.send();
        under_way.push_back(request);
        if number >= 200 {
            sent[place] += 1;
        }
        stage.pass(50);
        if under_way.len() > 100 {
            let spent = Spent {
                prompt: 10_000,
                cached: None,
                output: 100,
            };
            stage.end(under_way.pop_front().unwrap(), Outcome::Complete, Some(spent));
        }
    }
    // All have the one prompt that there is.
    assert!(sent.iter().all(|count| (440..=460).contains(count)), "{sent:?}");
}
