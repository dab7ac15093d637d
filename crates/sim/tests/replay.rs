//! The fitted engine against the run it was fitted to, and the fit against its script.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weighbridge_sim::engine::{BatchingEngine, Engine, EventKind, Settings, Work, WorkId};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn data() -> PathBuf {
    std::env::var_os("WEIGHBRIDGE_DATA").map_or_else(|| repository().join("../shared/data"), PathBuf::from)
}

struct Measured {
    queued_s: f64,
    first_s: f64,
    last_s: f64,
    prompt: u32,
    output: u32,
}

fn measured() -> Vec<Measured> {
    let path = data().join("calib/llmservingsim/RTXPRO6000_Llama-3.1-8B/requests.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; set WEIGHBRIDGE_DATA to the folder of test data",
            path.display()
        )
    });
    let mut rows: Vec<_> = text
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let number = |key: &str| row[key].as_f64().unwrap();
            Measured {
                queued_s: number("queued_ts"),
                first_s: number("first_token_ts"),
                last_s: number("last_token_ts"),
                prompt: number("input_toks") as u32,
                output: number("output_toks") as u32,
            }
        })
        .collect();
    rows.sort_by(|a, b| a.queued_s.total_cmp(&b.queued_s));
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

fn replayed(rows: &[Measured]) -> Vec<Measured> {
    let mut engine = BatchingEngine::new(Settings::default());
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

#[test]
fn the_replayed_run_is_the_measured_one() {
    let real = measured();
    assert_eq!(real.len(), 300);
    let ours = replayed(&real);
    let (real, ours) = (summary(&real), summary(&ours));
    let within = |a: f64, b: f64, share: f64| (a / b - 1.0).abs() <= share;
    assert!(
        within(ours.per_token_s, real.per_token_s, 0.10),
        "{ours:?} {real:?}"
    );
    assert!(
        within(ours.makespan_s, real.makespan_s, 0.10),
        "{ours:?} {real:?}"
    );
    assert!(
        within(ours.first_token_s, real.first_token_s, 0.20),
        "{ours:?} {real:?}"
    );
}

/// The script is the only author of the coefficients.
#[test]
fn the_script_writes_the_committed_coefficients() {
    let committed = repository().join("crates/sim/src/coefficients/llama_3_1_8b_rtx_pro_6000.rs");
    let output = Command::new("python3")
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
