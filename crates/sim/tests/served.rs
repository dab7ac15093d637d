//! A server measured by `scripts/measure_engine.py`: fitted to ten requests by `scripts/fit_engine.py`, a hundred
//! others predicted. A modelled engine takes the server's place here; docs/engine-model.md shows a real llama.cpp.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "this file holds tests only"
)]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weighbridge_sim::catalogue::engine_from_json;
use weighbridge_sim::coefficients::Coefficients;
use weighbridge_sim::engine::{BatchingEngine, Engine, EventKind, Settings, Work, WorkId};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/fit_engine.py")
}

const SLOTS: usize = 4;

/// Something like a small model on one core.
fn server() -> Settings {
    Settings {
        coefficients: Coefficients {
            memory_s: 0.0,
            memory_per_token_s: 0.0,
            compute_s: 0.0,
            compute_per_token_s: 4e-3,
            sampling_s: 0.0,
            per_sequence_s: 2e-3,
            per_prefill_pair_s: 0.0,
            overhead_s: 15e-3,
            prefill_s: 0.0,
            per_context_token_s: 5e-6,
        },
        kv_blocks: 512,
        max_num_seqs: SLOTS as u32,
        ..Settings::default()
    }
}

/// Sizes of the requests with these seeds.
fn sizes(seeds: std::ops::Range<u64>) -> Vec<(u32, u32)> {
    let size = |seed: u64, low: u64, high: u64| {
        let mixed = (seed + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (low + (mixed >> 33) % (high - low)) as u32
    };
    seeds
        .map(|seed| (size(seed, 20, 200), size(seed + 7000, 8, 60)))
        .collect()
}

/// Sent, first token and last token of each request in a closed loop.
fn serve(sizes: &[(u32, u32)], settings: Settings) -> Vec<[Duration; 3]> {
    let mut engine = BatchingEngine::quiet(settings);
    let mut times = vec![[Duration::ZERO; 3]; sizes.len()];
    let (mut sent, mut under_way, mut now, mut events) = (0, 0, Duration::ZERO, Vec::new());
    loop {
        while sent < sizes.len() && under_way < SLOTS {
            let (prompt_tokens, output_tokens) = sizes[sent];
            let (id, blocks) = (WorkId(sent as u64), [].into());
            engine
                .submit(
                    now,
                    Work {
                        id,
                        blocks,
                        prompt_tokens,
                        output_tokens,
                    },
                )
                .unwrap();
            times[sent][0] = now;
            (sent, under_way) = (sent + 1, under_way + 1);
        }
        let Some(next) = engine.next_event_time() else {
            return times;
        };
        now = next;
        engine.advance(now, &mut events);
        for event in events.drain(..) {
            let place = match event.kind {
                EventKind::FirstToken { .. } => 1,
                EventKind::Token => continue,
                EventKind::Finished => 2,
            };
            times[event.id.0 as usize][place] = event.at;
            under_way -= usize::from(place == 2);
        }
    }
}

fn write(name: &str, sizes: &[(u32, u32)]) -> PathBuf {
    let mut text = String::new();
    for ((prompt, output), [sent, first, last]) in sizes.iter().zip(serve(sizes, server())) {
        let [sent, first, last] = [sent, first, last].map(|time| time.as_secs_f64());
        writeln!(
            text,
            r#"{{"sent_s": {sent}, "first_s": {first}, "last_s": {last}, "prompt_tokens": {prompt}, "cached_tokens": 0, "output_tokens": {output}, "concurrency": {SLOTS}}}"#,
        )
        .unwrap();
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn ten_requests_predict_a_hundred() {
    let (ten, hundred) = (sizes(0..10), sizes(100..200));
    let (measured, unseen) = (write("ten.jsonl", &ten), write("hundred.jsonl", &hundred));
    let output = Command::new("python3")
        .arg("-B")
        .arg(script())
        .args(["--slots", "4", "--measured"])
        .arg(measured)
        .arg("--predict")
        .arg(unseen)
        .output()
        .expect("python3 runs");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("100 requests, 4 at once"), "{errors}");

    let fitted = engine_from_json(&String::from_utf8(output.stdout).unwrap())
        .unwrap()
        .spec
        .settings;
    let (real, ours) = (serve(&hundred, server()), serve(&hundred, fitted));
    let mean = |times: &[[Duration; 3]], from: usize, to: usize| {
        times.iter().map(|t| (t[to] - t[from]).as_secs_f64()).sum::<f64>() / times.len() as f64
    };
    let end = |times: &[[Duration; 3]]| times.iter().map(|t| t[2]).max().unwrap().as_secs_f64();
    for (what, ours, real) in [
        ("first token", mean(&ours, 0, 1), mean(&real, 0, 1)),
        ("decoding", mean(&ours, 1, 2), mean(&real, 1, 2)),
        ("makespan", end(&ours), end(&real)),
    ] {
        assert!(
            (ours / real - 1.0).abs() < 0.05,
            "{what}: {ours} {real}\n{errors}"
        );
    }
}

#[test]
fn a_file_that_lacks_something_is_refused_with_a_reason() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lacking.jsonl");
    std::fs::write(&path, "{\"sent_s\": 0, \"first_s\": 1}\n").unwrap();
    let output = Command::new("python3")
        .arg("-B")
        .arg(script())
        .arg("--measured")
        .arg(path)
        .output()
        .expect("python3 runs");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("request 1 lacks concurrency, last_s"),
        "{error}"
    );
}
