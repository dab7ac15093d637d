//! The fitted engine against the runs it was fitted to, one model's run predicted from another's, and the fits against
//! their script.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this file holds tests only"
)]

mod measured;

use measured::{data, number, read, repository};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use weighbridge_sim::catalogue::{self, Fit};
use weighbridge_sim::coefficients::Coefficients;
use weighbridge_sim::engine::{BatchingEngine, Engine, EventKind, Settings, Work, WorkId};

struct Measured {
    queued_s: f64,
    first_s: f64,
    last_s: f64,
    prompt: u32,
    output: u32,
}

const LLAMA: &str = "RTXPRO6000_Llama-3.1-8B";
const QWEN: &str = "RTXPRO6000_Qwen3-32B";

fn measured_run(name: &str) -> Vec<Measured> {
    let mut rows: Vec<_> = read(&format!("llmservingsim/{name}/requests.jsonl"))
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            Measured {
                queued_s: number(&row, "queued_ts"),
                first_s: number(&row, "first_token_ts"),
                last_s: number(&row, "last_token_ts"),
                prompt: number(&row, "input_toks") as u32,
                output: number(&row, "output_toks") as u32,
            }
        })
        .collect();
    rows.sort_by(|a, b| a.queued_s.total_cmp(&b.queued_s));
    assert_eq!(rows.len(), 300);
    rows
}

#[derive(Debug)]
struct Summary {
    first_token_s: f64,
    per_token_s: f64,
    makespan_s: f64,
}

fn summary(rows: &[Measured]) -> Summary {
    let mean = |value: &dyn Fn(&Measured) -> f64| rows.iter().map(value).sum::<f64>() / rows.len() as f64;
    let start = rows.iter().map(|r| r.queued_s).fold(f64::MAX, f64::min);
    Summary {
        first_token_s: mean(&|r| r.first_s - r.queued_s),
        per_token_s: mean(&|r| (r.last_s - r.first_s) / f64::from(r.output - 1)),
        makespan_s: rows.iter().map(|r| r.last_s).fold(0.0, f64::max) - start,
    }
}

fn replayed(rows: &[Measured], coefficients: Coefficients) -> Vec<Measured> {
    // The run's own sizes; its cache never was full.
    let mut engine = BatchingEngine::quiet(Settings {
        coefficients,
        kv_blocks: 32_600,
        max_num_seqs: 128,
        max_num_batched_tokens: 2048,
        ..Settings::default()
    });
    let mut events = Vec::new();
    let start = rows[0].queued_s;
    for (index, row) in rows.iter().enumerate() {
        let work = Work {
            id: WorkId(index as u64),
            blocks: [].into(),
            prompt_tokens: row.prompt,
            output_tokens: row.output,
        };
        engine
            .submit(Duration::from_secs_f64(row.queued_s - start), work)
            .unwrap();
    }
    engine.advance(Duration::from_secs(3600), &mut events);
    assert_eq!(engine.stats().preemptions, 0);
    let at = |index: usize, wanted: fn(&EventKind) -> bool| {
        let event = events
            .iter()
            .find(|e| e.id == WorkId(index as u64) && wanted(&e.kind))
            .unwrap();
        event.at.as_secs_f64()
    };
    rows.iter()
        .enumerate()
        .map(|(index, row)| Measured {
            queued_s: row.queued_s - start,
            first_s: at(index, |kind| matches!(kind, EventKind::FirstToken { .. })),
            last_s: at(index, |kind| *kind == EventKind::Finished),
            ..*row
        })
        .collect()
}

/// Fails unless time per token and makespan are within a tenth and time to first token within a fifth.
fn check(run: &str, coefficients: Coefficients) {
    let real = measured_run(run);
    let (ours, real) = (summary(&replayed(&real, coefficients)), summary(&real));
    let error = |value: fn(&Summary) -> f64| value(&ours) / value(&real) - 1.0;
    let errors = [
        error(|s| s.first_token_s),
        error(|s| s.per_token_s),
        error(|s| s.makespan_s),
    ];
    println!(
        "{run}: first token {:+.1}%, per token {:+.1}%, makespan {:+.1}%",
        errors[0] * 1e2,
        errors[1] * 1e2,
        errors[2] * 1e2
    );
    assert!(errors[0].abs() <= 0.20, "time to first token: {ours:?} {real:?}");
    assert!(errors[1].abs() <= 0.10, "time per token: {ours:?} {real:?}");
    assert!(errors[2].abs() <= 0.10, "makespan: {ours:?} {real:?}");
}

fn fit(model: &str) -> Fit {
    let fits = catalogue::fits().unwrap();
    fits.into_iter()
        .find(|f| f.model == model && f.gpu == "rtx-pro-6000")
        .unwrap()
}

/// What the efficiencies of the measured `source` say of `model` on `gpus` of the same GPUs.
fn transferred(source: &str, model: &str, gpus: u32) -> Coefficients {
    let model = catalogue::models()
        .unwrap()
        .into_iter()
        .find(|m| m.name == model)
        .unwrap();
    let gpu = catalogue::gpus()
        .unwrap()
        .into_iter()
        .find(|g| g.name == "rtx-pro-6000")
        .unwrap();
    catalogue::coefficients(&model, &gpu, gpus, &fit(source).efficiency.unwrap())
}

#[test]
fn the_replayed_run_of_llama_is_the_measured_one() {
    check(LLAMA, fit("llama-3.1-8b").coefficients);
}

#[test]
fn the_replayed_run_of_qwen_is_the_measured_one() {
    check(QWEN, fit("qwen3-32b").coefficients);
}

#[test]
fn the_run_of_llama_predicts_that_of_qwen_on_two_gpus() {
    check(QWEN, transferred("llama-3.1-8b", "qwen3-32b", 2));
}

#[test]
fn the_run_of_qwen_on_two_gpus_predicts_that_of_llama() {
    check(LLAMA, transferred("qwen3-32b", "llama-3.1-8b", 1));
}

/// The script is the only author of the coefficients.
#[test]
fn the_script_writes_the_committed_fits() {
    let committed = repository().join("crates/sim/src/catalogue/fits.json");
    let output = Command::new("python3")
        .arg("-B")
        .arg(repository().join("scripts/fit_engine.py"))
        .arg("--data")
        .arg(data())
        .output()
        .expect("python3 runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        std::fs::read_to_string(committed).unwrap()
    );
}
