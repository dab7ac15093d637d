//! How fast the engine model itself runs: a trace on 8 engines, and a million requests on 1,000, in turn without a
//! scheduler.
//!
//! `cargo run --release -p weighbridge-sim --example engine_speed -- mooncake.jsonl`

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "an example for the command line; it measures and says so"
)]

use serde_json::Value;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};
use weighbridge_sim::engine::{BatchingEngine, Engine, Event, EventKind, Settings, Work, WorkId};

/// Arrival times and work, in order.
type Requests = Vec<(Duration, Work)>;

fn trace(path: &str) -> Requests {
    let text = std::fs::read_to_string(path).unwrap();
    let number = |row: &Value, key: &str| row[key].as_u64().unwrap();
    text.lines()
        .enumerate()
        .map(|(index, line)| {
            let row: Value = serde_json::from_str(line).unwrap();
            let blocks = row["hash_ids"].as_array().unwrap();
            let prompt_tokens = number(&row, "input_length").max(1) as u32;
            let whole = prompt_tokens as usize / 512;
            let work = Work {
                id: WorkId(index as u64),
                blocks: blocks.iter().take(whole).map(|id| id.as_u64().unwrap()).collect(),
                prompt_tokens,
                output_tokens: number(&row, "output_length") as u32,
            };
            (Duration::from_millis(number(&row, "timestamp")), work)
        })
        .collect()
}

fn generated(count: u64, per_second: u64) -> Requests {
    let mut state = 1u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    (0..count)
        .map(|index| {
            let (family, prompt_tokens) = (next(5000), 200 + next(1800) as u32);
            let shared = u64::from(prompt_tokens / 2 / 16);
            let blocks = (0..u64::from(prompt_tokens / 16)).map(|block| {
                let chain = if block < shared { family } else { 1_000_000 + index };
                (chain << 20) + block
            });
            let work = Work {
                id: WorkId(index),
                blocks: blocks.collect(),
                prompt_tokens,
                output_tokens: 50 + next(400) as u32,
            };
            (Duration::from_nanos(index * 1_000_000_000 / per_second), work)
        })
        .collect()
}

/// Time from arrival to first token, in all, and the events handled.
fn drive(requests: &Requests, engines: &mut [BatchingEngine]) -> (Duration, u64) {
    let mut due: BinaryHeap<Reverse<(Duration, usize)>> = BinaryHeap::new();
    let (mut waited, mut calls, mut events) = (Duration::ZERO, 0, Vec::<Event>::new());
    let mut asked: Vec<Option<Duration>> = vec![None; engines.len()];
    let mut arrivals = requests.iter().peekable();
    loop {
        let engine_at = due.peek().map(|Reverse((at, _))| *at);
        let arrives = arrivals.peek().map(|(at, _)| *at);
        let engine = match (engine_at, arrives) {
            (None, None) => return (waited, calls),
            (Some(at), next) if next.is_none_or(|next| at <= next) => {
                let Some(Reverse((at, engine))) = due.pop() else {
                    continue;
                };
                if asked[engine] != Some(at) {
                    continue;
                }
                engines[engine].advance(at, &mut events);
                engine
            }
            _ => {
                let Some((at, work)) = arrivals.next() else {
                    continue;
                };
                let engine = work.id.0 as usize % engines.len();
                engines[engine].advance(*at, &mut events);
                let _ = engines[engine].submit(*at, work.clone());
                engine
            }
        };
        calls += 1;
        for event in events.drain(..) {
            if matches!(event.kind, EventKind::FirstToken { .. }) {
                waited += event.at.saturating_sub(requests[event.id.0 as usize].0);
            }
        }
        asked[engine] = engines[engine].next_event_time();
        due.extend(asked[engine].map(|at| Reverse((at, engine))));
    }
}

fn measure(name: &str, requests: &Requests, mut engines: Vec<BatchingEngine>) {
    let started = Instant::now();
    let (waited, calls) = drive(requests, &mut engines);
    let took = started.elapsed();
    let sum = |value: fn(&BatchingEngine) -> u64| engines.iter().map(value).sum::<u64>();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or_default();
    println!(
        "{name}: {took:?}, {calls} calls, {} iterations, {} finished, {} preemptions, {} hit tokens, mean first token {:?}, {peak}",
        sum(|e| e.stats().iterations),
        sum(|e| e.stats().finished),
        sum(|e| e.stats().preemptions),
        sum(|e| e.stats().prefix_hits),
        waited / requests.len() as u32,
    );
}

fn main() {
    let large = |quiet: fn(Settings) -> BatchingEngine, settings: &Settings, count: usize| {
        (0..count).map(|_| quiet(settings.clone())).collect::<Vec<_>>()
    };
    if let Some(path) = std::env::args().nth(1) {
        let requests = trace(&path);
        for (name, block_size, tokens) in [
            ("512-token blocks", 512, 2000 * 512),
            ("16-token blocks, short of cache", 16, 200_000),
        ] {
            let settings = Settings {
                block_size,
                kv_blocks: tokens / block_size,
                ..Settings::default()
            };
            measure(
                &format!("{name}, quiet"),
                &requests,
                large(BatchingEngine::quiet, &settings, 8),
            );
            measure(
                &format!("{name}, ordinary"),
                &requests,
                large(BatchingEngine::new, &settings, 8),
            );
        }
    }
    let requests = generated(1_000_000, 5_000);
    measure(
        "1,000 engines",
        &requests,
        large(BatchingEngine::quiet, &Settings::default(), 1000),
    );
}
