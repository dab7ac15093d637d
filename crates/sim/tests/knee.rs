//! vLLM on one H100 under rising load, as kubernetes-sigs/inference-perf measured it: where throughput stops to follow
//! the rate, and what each stage costs.
//!
//! The engine was fitted to the three lowest rates of the first run; all else is predicted.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this file holds tests only"
)]

mod measured;

use measured::{number, read};
use serde_json::Value;
use std::time::Duration;
use weighbridge_sim::catalogue;
use weighbridge_sim::engine::{BatchingEngine, Engine, EventKind, Settings, Work, WorkId};

/// The tool's 44 workers with 10 requests each.
const CONCURRENCY: usize = 440;
/// Tokens asked for; the server ignores ends of text.
const OUTPUT: u32 = 64;

/// A stage, measured or simulated.
#[derive(Debug)]
struct Stage {
    rate: f64,
    count: usize,
    prompt: u32,
    throughput: f64,
    first_ms: f64,
    per_token_ms: f64,
}

/// The tool counts tokens twice in its own time per token; this one comes from latency and time to first token.
fn stages(run: &str) -> Vec<Stage> {
    (0..7)
        .map(|stage| {
            let text = read(&format!(
                "inference-perf/{run}/stage_{stage}_lifecycle_metrics.json"
            ));
            let stage: Value = serde_json::from_str(&text).unwrap();
            let first_ms = 1e3 * number(&stage, "successes.latency.time_to_first_token.mean");
            let latency_ms = 1e3 * number(&stage, "successes.latency.request_latency.mean");
            Stage {
                rate: number(&stage, "load_summary.requested_rate"),
                count: number(&stage, "load_summary.count") as usize,
                prompt: number(&stage, "successes.prompt_len.mean").round() as u32,
                throughput: number(&stage, "successes.throughput.requests_per_sec"),
                first_ms,
                per_token_ms: (latency_ms - first_ms) / f64::from(OUTPUT - 1),
            }
        })
        .collect()
}

/// Random arrivals over the stage's minute.
fn arrivals(stage: &Stage) -> Vec<Duration> {
    let (mut state, mut now) = (stage.count as u64, 0.0);
    let times: Vec<f64> = (0..stage.count)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let uniform = ((state >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
            now -= uniform.ln();
            now
        })
        .collect();
    let scale = stage.count as f64 / stage.rate / now;
    times
        .into_iter()
        .map(|time| Duration::from_secs_f64(time * scale))
        .collect()
}

fn simulate(stage: &Stage, max_num_seqs: u32) -> Stage {
    let found = catalogue::engine("llama-3-8b@h100").unwrap();
    // As in the run's manifest: prompts are never found in a cache.
    let mut engine = BatchingEngine::quiet(Settings {
        max_num_seqs,
        ..found.spec.settings
    });
    let due = arrivals(stage);
    let (mut sent, mut first, mut last) = (
        Vec::new(),
        vec![Duration::ZERO; stage.count],
        vec![Duration::ZERO; stage.count],
    );
    let (mut under_way, mut now, mut events) = (0, Duration::ZERO, Vec::new());
    loop {
        while sent.len() < stage.count && under_way < CONCURRENCY && due[sent.len()] <= now {
            let work = Work {
                id: WorkId(sent.len() as u64),
                blocks: [].into(),
                prompt_tokens: stage.prompt,
                output_tokens: OUTPUT,
            };
            engine.submit(now, work).unwrap();
            sent.push(now);
            under_way += 1;
        }
        let arrival = due.get(sent.len()).copied().filter(|_| under_way < CONCURRENCY);
        let Some(next) = arrival.into_iter().chain(engine.next_event_time()).min() else {
            break;
        };
        now = now.max(next);
        engine.advance(now, &mut events);
        for event in events.drain(..) {
            match event.kind {
                EventKind::FirstToken { .. } => first[event.id.0 as usize] = event.at,
                EventKind::Finished => {
                    last[event.id.0 as usize] = event.at;
                    under_way -= 1;
                }
                EventKind::Token => {}
            }
        }
    }
    let mean_ms = |from: &[Duration], to: &[Duration]| {
        let sum: Duration = from.iter().zip(to).map(|(from, to)| *to - *from).sum();
        1e3 * sum.as_secs_f64() / stage.count as f64
    };
    Stage {
        throughput: stage.count as f64 / now.as_secs_f64(),
        first_ms: mean_ms(&sent, &first),
        per_token_ms: mean_ms(&first, &last) / f64::from(OUTPUT - 1),
        ..*stage
    }
}

/// Simulates all stages of a run and checks what holds in each.
fn check(run: &str, max_num_seqs: u32) -> Vec<(Stage, Stage)> {
    let pairs: Vec<_> = stages(run)
        .into_iter()
        .map(|real| (simulate(&real, max_num_seqs), real))
        .collect();
    for (ours, real) in &pairs {
        let error = |value: fn(&Stage) -> f64| value(ours) / value(real) - 1.0;
        let (throughput, first, per_token) = (
            error(|s| s.throughput),
            error(|s| s.first_ms),
            error(|s| s.per_token_ms),
        );
        println!(
            "{run} {:.0}/s: throughput {:.1} ({:+.1}%), first token {:.0} ms ({:+.1}%), per token {:.1} ms ({:+.1}%)",
            real.rate,
            ours.throughput,
            throughput * 1e2,
            ours.first_ms,
            first * 1e2,
            ours.per_token_ms,
            per_token * 1e2,
        );
        assert!(throughput.abs() < 0.06, "{ours:?} {real:?}");
        assert!(per_token.abs() < 0.15, "{ours:?} {real:?}");
        // Below the knee the measured time holds some 20 ms of HTTP and tokenizing, which the model leaves out.
        if real.first_ms > 1e3 {
            assert!(first.abs() < 0.15, "{ours:?} {real:?}");
        } else {
            assert!(ours.first_ms < real.first_ms, "{ours:?} {real:?}");
        }
    }
    pairs
}

#[test]
fn the_knee_lies_between_92_and_107_requests_a_second() {
    let pairs = check("vllm", 128);
    for (ours, _) in &pairs {
        let follows = ours.throughput > 0.97 * ours.rate;
        assert_eq!(follows, ours.rate < 93.0, "{ours:?}");
        assert!(follows || (92.0..107.0).contains(&ours.throughput), "{ours:?}");
    }
}

#[test]
fn more_sequences_at_once_move_the_knee_as_measured() {
    check("vllm+batch_size", 192);
}
