//! The engine on the virtual clock: what the issue promises, and invariants under random work.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn work(id: u64, prompt_tokens: u32, output_tokens: u32) -> Work {
    Work {
        id: WorkId(id),
        blocks: chain(id, prompt_tokens + output_tokens),
        prompt_tokens,
        output_tokens,
    }
}

fn chain(content: u64, tokens: u32) -> std::sync::Arc<[u64]> {
    (0..u64::from(tokens / 16))
        .map(|block| (content << 32) + block)
        .collect()
}

fn drain(engine: &mut BatchingEngine) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(next) = engine.next_event_time() {
        engine.advance(next, &mut events);
    }
    events
}

fn first_token_s(engine: &mut BatchingEngine, work: Work) -> f64 {
    let (start, id) = (engine.now, work.id);
    engine.submit(start, work).unwrap();
    let events = drain(engine);
    let first = events
        .iter()
        .find(|e| e.id == id && matches!(e.kind, EventKind::FirstToken { .. }))
        .unwrap();
    (first.at - start).as_secs_f64()
}

#[test]
fn time_to_first_token_grows_with_uncached_tokens() {
    let times: Vec<_> = [64, 512, 2048, 8192, 32_768]
        .map(|tokens| first_token_s(&mut BatchingEngine::new(Settings::default()), work(1, tokens, 1)))
        .to_vec();
    assert!(times.is_sorted_by(|a, b| a * 1.5 < *b), "{times:?}");
}

#[test]
fn time_per_token_grows_with_the_batch() {
    let per_token = |batch: u64| {
        let mut engine = BatchingEngine::new(Settings::default());
        for id in 0..batch {
            engine.submit(Time::ZERO, work(id, 1000, 200)).unwrap();
        }
        let events = drain(&mut engine);
        let mine: Vec<_> = events.iter().filter(|e| e.id == WorkId(batch - 1)).collect();
        (mine[mine.len() - 1].at - mine[0].at).as_secs_f64() / 199.0
    };
    let times: Vec<_> = [1, 8, 32, 128].map(per_token).to_vec();
    assert!(times.is_sorted_by(|a, b| a * 1.03 < *b), "{times:?}");
    assert!(times[3] > 1.5 * times[0], "{times:?}");
}

#[test]
fn a_repeated_prefix_of_8k_cuts_time_to_first_token_fivefold() {
    let mut engine = BatchingEngine::new(Settings::default());
    let shared = chain(7, 8192);
    let request = |id| Work {
        id: WorkId(id),
        blocks: shared.clone(),
        prompt_tokens: 8192 + 20,
        output_tokens: 10,
    };
    let cold = first_token_s(&mut engine, request(1));
    let warm = first_token_s(&mut engine, request(2));
    assert!(cold > 5.0 * warm, "cold {cold}, warm {warm}");
    assert_eq!(engine.stats().prefix_hits, 8192);
    assert_eq!(engine.stats().prefix_queries, 2 * 8212);
}

#[test]
fn a_prompt_that_is_cached_whole_still_computes_its_last_token() {
    let mut engine = BatchingEngine::new(Settings::default());
    for id in 1..3 {
        engine
            .submit(
                engine.now,
                Work {
                    blocks: chain(7, 64),
                    ..work(id, 64, 1)
                },
            )
            .unwrap();
        drain(&mut engine);
    }
    assert_eq!(engine.stats().prefix_hits, 48);
}

#[test]
fn the_next_turn_finds_the_answer_of_the_last_one() {
    let mut engine = BatchingEngine::new(Settings::default());
    engine.submit(Time::ZERO, work(1, 160, 161)).unwrap();
    drain(&mut engine);
    engine
        .submit(
            engine.now,
            Work {
                blocks: chain(1, 400),
                ..work(2, 400, 1)
            },
        )
        .unwrap();
    drain(&mut engine);
    assert_eq!(engine.stats().prefix_hits, 320);
}

#[test]
fn running_out_of_blocks_preempts_the_youngest_and_all_still_finish() {
    let mut engine = BatchingEngine::new(Settings {
        kv_blocks: 20,
        ..Settings::default()
    });
    for id in 0..4 {
        engine.submit(Time::ZERO, work(id, 64, 120)).unwrap();
    }
    let events = drain(&mut engine);
    let stats = engine.stats();
    assert!(stats.preemptions > 0);
    assert_eq!(
        (stats.finished, stats.generation_tokens, stats.kv_blocks_used),
        (4, 480, 0)
    );
    let finished: Vec<_> = events
        .iter()
        .filter(|e| e.kind == EventKind::Finished)
        .map(|e| e.id.0)
        .collect();
    assert_eq!(finished, [0, 1, 2, 3], "first come, first served");
    engine.pool.check();
}

#[test]
fn cancel_returns_the_blocks_at_once() {
    let mut engine = BatchingEngine::new(Settings::default());
    engine.submit(Time::ZERO, work(1, 4000, 100)).unwrap();
    engine.submit(Time::ZERO, work(2, 4000, 100)).unwrap();
    engine.advance(Time::from_millis(100), &mut Vec::new());
    assert!(engine.stats().kv_blocks_used > 0);
    assert!(engine.cancel(WorkId(1)) && engine.cancel(WorkId(2)));
    assert!(!engine.cancel(WorkId(2)));
    assert_eq!((engine.stats().kv_blocks_used, engine.pool.holds()), (0, 0));
    let mut rest = drain(&mut engine);
    rest.retain(|event| event.kind != EventKind::Finished);
    assert_eq!(rest, []);
}

#[test]
fn work_that_could_never_finish_is_refused() {
    let mut engine = BatchingEngine::new(Settings {
        kv_blocks: 4,
        ..Settings::default()
    });
    assert_eq!(
        engine.submit(Time::ZERO, work(1, 0, 5)),
        Err(Refusal::EmptyPrompt)
    );
    assert_eq!(
        engine.submit(Time::ZERO, work(1, 60, 5)),
        Err(Refusal::TooLong {
            tokens: 65,
            limit: 64
        })
    );
    assert_eq!(engine.submit(Time::ZERO, work(1, 60, 4)), Ok(()));
    drain(&mut engine);
    assert_eq!(engine.stats().finished, 1);
}

#[test]
fn work_without_output_ends_with_its_prompt() {
    let mut engine = BatchingEngine::new(Settings::default());
    engine.submit(Time::ZERO, work(1, 3000, 0)).unwrap();
    let kinds: Vec<_> = drain(&mut engine).iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Finished]);
    let stats = engine.stats();
    assert_eq!(
        (stats.prompt_tokens, stats.generation_tokens, stats.iterations),
        (3000, 0, 2)
    );
    assert_eq!(stats.kv_blocks_used, 0);
}

#[test]
fn an_idle_engine_has_no_next_event_and_a_late_driver_changes_nothing() {
    let run = |late: bool| {
        let mut engine = BatchingEngine::new(Settings::default());
        assert_eq!(engine.next_event_time(), None);
        let mut events = Vec::new();
        for (id, at_ms) in [(1, 5), (2, 40), (3, 4000)] {
            let at = Time::from_millis(at_ms);
            if !late {
                engine.advance(at, &mut events);
            }
            engine.submit(at, work(id, 900, 30)).unwrap();
        }
        engine.advance(Time::from_secs(60), &mut events);
        assert_eq!(engine.next_event_time(), None);
        events
    };
    assert_eq!(run(true), run(false));
}

#[derive(Clone, Debug)]
enum Step {
    Submit { prompt: u32, output: u32, family: u64 },
    Cancel { index: usize },
    Wait { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1u32..300, 1u32..80, 0u64..3).prop_map(|(prompt, output, family)| Step::Submit { prompt, output, family }),
        1 => (0usize..40).prop_map(|index| Step::Cancel { index }),
        2 => (0u64..400).prop_map(|ms| Step::Wait { ms }),
    ];
    prop::collection::vec(step, 1..60)
}

/// Checks what must hold at any time.
fn check(engine: &BatchingEngine, settings: &Settings) {
    engine.pool.check();
    let held: usize = engine.running.iter().map(|s| s.held.len()).sum();
    assert_eq!(engine.pool.holds(), held as u64, "holds and holders disagree");
    assert!(engine.running.len() <= settings.max_num_seqs as usize);
    assert!(engine.waiting.iter().all(|s| s.held.is_empty()));
    let busy = !engine.running.is_empty() || !engine.waiting.is_empty();
    assert!(
        !busy || engine.next_event_time().is_some(),
        "work waits and nothing will happen"
    );
    let tokens: u32 = engine.running.iter().map(|s| s.step).sum();
    assert!(tokens <= settings.max_num_batched_tokens);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn nothing_is_lost_and_nothing_leaks(steps in steps(), kv_blocks in 24u32..80, seqs in 1u32..6, budget in 1u32..200) {
        let settings = Settings { kv_blocks, max_num_seqs: seqs, max_num_batched_tokens: budget, ..Settings::default() };
        let mut engine = BatchingEngine::new(settings.clone());
        let (mut now, mut events) = (Time::ZERO, Vec::new());
        let (mut accepted, mut cancelled) = (BTreeMap::new(), BTreeSet::new());
        for (index, step) in steps.into_iter().enumerate() {
            match step {
                Step::Submit { prompt, output, family } => {
                    let id = WorkId(index as u64);
                    let work = Work { id, blocks: chain(family, prompt), prompt_tokens: prompt, output_tokens: output };
                    if engine.submit(now, work).is_ok() {
                        accepted.insert(id, output);
                    }
                }
                Step::Cancel { index } => {
                    let id = WorkId(index as u64);
                    if engine.cancel(id) {
                        cancelled.insert(id);
                    }
                }
                Step::Wait { ms } => {
                    now += Time::from_millis(ms);
                    engine.advance(now, &mut events);
                }
            }
            check(&engine, &settings);
        }
        while let Some(next) = engine.next_event_time() {
            engine.advance(next, &mut events);
            check(&engine, &settings);
            // Work conserving: while something could run, an iteration is in flight.
            let waits = engine.waiting.front().is_some_and(|head| head.arrived <= next);
            prop_assert!(engine.iteration_ends.is_some() || (engine.running.is_empty() && !waits));
        }
        prop_assert_eq!((engine.pool.holds(), engine.pool.free()), (0, kv_blocks));
        prop_assert!(events.is_sorted_by_key(|event| event.at));
        for (id, output) in accepted {
            let mine: Vec<_> = events.iter().filter(|event| event.id == id).map(|event| event.kind).collect();
            let firsts = mine.iter().filter(|kind| matches!(kind, EventKind::FirstToken { .. })).count();
            if cancelled.contains(&id) {
                prop_assert!(!mine.contains(&EventKind::Finished) && firsts <= 1);
            } else {
                prop_assert_eq!((mine.len() as u32, firsts), (output + 1, 1));
                prop_assert_eq!(mine[mine.len() - 1], EventKind::Finished);
            }
        }
    }
}

/// Takes in what an engine told of its cache.
fn follow(known: &mut BTreeSet<u64>, changes: Vec<CacheChange>) {
    for change in changes {
        match change {
            CacheChange::Stored { parent, blocks } => {
                assert!(
                    parent.is_none_or(|parent| known.contains(&parent.0)),
                    "its parent is there"
                );
                known.extend(blocks.iter().map(|block| block.0));
            }
            CacheChange::Removed { blocks } => {
                assert!(blocks.iter().all(|block| known.remove(&block.0)), "it was there");
            }
            CacheChange::Cleared | CacheChange::Lost => panic!("an engine that runs loses nothing"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whoever_is_told_knows_what_is_cached(steps in steps(), kv_blocks in 24u32..80, quiet in any::<bool>()) {
        let settings = Settings { kv_blocks, max_num_seqs: 4, ..Settings::default() };
        let mut engine = if quiet { BatchingEngine::quiet(settings) } else { BatchingEngine::new(settings) };
        engine.tell_cache();
        let (mut now, mut events, mut known, mut asked) = (Time::ZERO, Vec::new(), BTreeSet::new(), Vec::new());
        for (index, step) in steps.into_iter().enumerate() {
            match step {
                Step::Submit { prompt, output, family } => {
                    let blocks = chain(family, prompt);
                    asked.push(Arc::clone(&blocks));
                    let _ = engine.submit(now, Work { id: WorkId(index as u64), blocks, prompt_tokens: prompt, output_tokens: output });
                }
                Step::Cancel { index } => { engine.cancel(WorkId(index as u64)); }
                Step::Wait { ms } => {
                    now += Time::from_millis(ms);
                    engine.advance(now, &mut events);
                }
            }
            follow(&mut known, engine.cache_changes());
            for blocks in &asked {
                let leading = blocks.iter().take_while(|block| known.contains(block)).count();
                prop_assert_eq!(leading, engine.cached(blocks) as usize);
            }
        }
    }
}
