//! An extrapolated engine against a measured fleet: Llama-3.1-70B on four pods of four H100, llm-d's experiment 37. The
//! efficiencies come from Llama-3-8B on one H100; nothing here was fitted.
//!
//! Each shared prefix keeps to one pod, as precise routing achieves, so that the engine is what is tested.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this file holds tests only"
)]

mod measured;

use measured::read;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_sim::catalogue::{self, Basis};
use weighbridge_sim::engine::{BatchingEngine, Engine, Settings, Work, WorkId};

const PODS: usize = 4;
const PREFIXES: u64 = 83;
const BLOCK: u32 = 64;

/// Output tokens a second of precise routing in the report's section of this rate.
fn reported(rate: u32) -> f64 {
    let text = read("llm-d/37-capacity.md");
    let section = text.split(&format!("### QPS = {rate}.0\n")).nth(1).unwrap();
    let row = section
        .lines()
        .find(|line| line.starts_with("| precise-scheduling |"))
        .unwrap();
    row.split('|').nth(2).unwrap().trim().parse().unwrap()
}

/// Random arrivals that fill a stage.
fn arrivals(count: usize, seconds: f64) -> Vec<Duration> {
    let (mut state, mut now) = (count as u64, 0.0);
    let times: Vec<f64> = (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            now -= (((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64).ln();
            now
        })
        .collect();
    times
        .iter()
        .map(|time| Duration::from_secs_f64(time / now * seconds))
        .collect()
}

/// Output tokens a second from the stage's first arrival to its last token. The prefixes are in the caches already.
fn simulate(rate: u32, seconds: u32, engines: &mut [BatchingEngine], start: Duration) -> (f64, Duration) {
    let due = arrivals((rate * seconds) as usize, f64::from(seconds));
    let mut events = Vec::new();
    for (index, at) in due.iter().enumerate() {
        let prefix = index as u64 % PREFIXES;
        let blocks: Arc<[u64]> = (0..u64::from(8000 / BLOCK))
            .map(|block| (prefix << 32) + block)
            .collect();
        let engine = &mut engines[prefix as usize % PODS];
        engine.advance(start + *at, &mut events);
        let work = Work {
            id: WorkId(index as u64),
            blocks,
            prompt_tokens: 9000,
            output_tokens: 1000,
        };
        engine.submit(start + *at, work).unwrap();
    }
    for engine in engines {
        while let Some(next) = engine.next_event_time() {
            engine.advance(next, &mut events);
        }
    }
    let end = events.iter().map(|event| event.at).max().unwrap();
    (due.len() as f64 * 1000.0 / (end - start).as_secs_f64(), end)
}

#[test]
fn a_fleet_of_large_models_generates_what_was_reported() {
    let found = catalogue::engine("llama-3.1-70b@h100x4").unwrap();
    assert_eq!(found.basis, Basis::Extrapolated);
    // The report's cache.
    let settings = Settings {
        block_size: BLOCK,
        kv_blocks: 461_376 / BLOCK,
        ..found.spec.settings
    };
    let mut engines: Vec<_> = (0..PODS)
        .map(|_| BatchingEngine::quiet(settings.clone()))
        .collect();
    // The report's warm-up, then its stages.
    let (_, mut now) = simulate(9, 30, &mut engines, Duration::ZERO);
    for (rate, seconds) in [
        (3, 210),
        (4, 180),
        (5, 120),
        (6, 120),
        (8, 90),
        (10, 70),
        (12, 60),
        (15, 50),
    ] {
        let (ours, end) = simulate(rate, seconds, &mut engines, now);
        let error = ours / reported(rate) - 1.0;
        println!(
            "{rate}/s: {ours:.0} tokens/s, reported {:.0} ({:+.1}%)",
            reported(rate),
            error * 1e2
        );
        assert!(error.abs() < 0.12, "{rate}/s: {ours} {}", reported(rate));
        now = end;
    }
}
