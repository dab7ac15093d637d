//! `weighbridge simulate` as a process: what it prints, what it writes, what it refuses.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

mod refused;
mod searched;

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What came of a run of the command.
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs it in `dir`, with words of `options` apart by spaces.
pub(crate) fn simulate(dir: &Path, options: &str) -> Done {
    let done = Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .arg("simulate")
        .args(options.split_whitespace())
        .current_dir(dir)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Done {
        code: done.status.code(),
        out: text(done.stdout),
        err: text(done.stderr),
    }
}

/// The document of a run that must be good.
pub(crate) fn document(dir: &Path, options: &str) -> Value {
    let done = simulate(dir, &format!("{options} --json"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    serde_json::from_str(&done.out).unwrap()
}

/// A Mooncake trace of this many requests, ten a second.
pub(crate) fn write_trace(path: &Path, requests: usize) {
    let row = |at: usize| {
        format!(
            "{{\"timestamp\": {}, \"input_length\": 1024, \"output_length\": 20, \"hash_ids\": [1, {}]}}\n",
            at * 100,
            at % 7 + 2
        )
    };
    std::fs::write(path, (0..requests).map(row).collect::<String>()).unwrap();
}

/// A config of one pool with two endpoints and one route.
pub(crate) fn write_config(path: &Path, policies: &str) {
    let text = format!(
        "pools:\n  - {{name: p, kind: vllm, api_key: \"${{SECRET_OF_NOBODY}}\", endpoints: [\"http://a:8000\", \"http://b:8000\"]}}\n\
         routes:\n  - {{name: r, targets: [p]{policies}}}\n"
    );
    std::fs::write(path, text).unwrap();
}

#[test]
fn one_command_compares_four_policies() {
    let dir = tempfile::tempdir().unwrap();
    let done = simulate(dir.path(), "--first 200");
    assert_eq!(done.code, Some(0), "{}", done.err);
    for text in [
        "round robin",
        "least in flight",
        "session affinity",
        "auto",
        "goodput",
        "hit ratio",
        "measured: ",
    ] {
        assert!(done.out.contains(text), "{text}\n{}", done.out);
    }
    assert!(
        done.out.lines().all(|line| line.chars().count() <= 100),
        "{}",
        done.out
    );
    assert!(
        done.err.is_empty(),
        "no progress where nobody looks: {}",
        done.err
    );
}

#[test]
fn the_same_seeds_give_the_same_bytes_on_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let run = |threads: u32| {
        let page = format!("{threads}.html");
        let done = simulate(
            dir.path(),
            &format!("--first 150 --seeds 2 --json --html {page} --threads {threads}"),
        );
        assert_eq!(done.code, Some(0), "{}", done.err);
        (done.out, std::fs::read_to_string(dir.path().join(page)).unwrap())
    };
    let one = run(1);
    assert!(one == run(3), "the same document and page");
    assert!(one.1.starts_with("<!doctype html>") && one.1.len() < 1_000_000);
}

#[test]
fn configs_are_policies_and_a_trace_is_traffic() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("t.jsonl"), 120);
    write_config(&dir.path().join("now.yaml"), "");
    write_config(&dir.path().join("then.yaml"), ", policies: {least_inflight: {}}");
    let document = document(
        dir.path(),
        "--config now.yaml --config then.yaml --trace t.jsonl --engine llama-3.1-8b@h100 --endpoints 3",
    );
    let policies = document["policies"].as_array().unwrap();
    assert_eq!(
        policies
            .iter()
            .map(|policy| policy["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["now", "then"]
    );
    let run = &policies[1]["runs"][0];
    assert_eq!(
        (run["requests"].as_u64(), run["endpoints"].as_u64()),
        (Some(120), Some(3))
    );
    assert!(
        run["hit_ratio"].as_f64().unwrap() > 0.3,
        "beginnings are shared: {run}"
    );
    assert_eq!(document["about"]["engines"][0]["engines"], 3);
    assert_eq!(document["about"]["workload"], "t.jsonl");
}

#[test]
fn engines_that_tell_of_their_caches_tell_all_gateways() {
    let dir = tempfile::tempdir().unwrap();
    // Every prompt is asked for again after ten others, so with three gateways by another one.
    let row = |number: u64| {
        let (at, prompt) = (number * 1000, number % 10 * 100);
        format!(
            "{{\"timestamp\": {at}, \"input_length\": 1600, \"output_length\": 20, \"hash_ids\": [{}, {}, {}, {}]}}\n",
            prompt,
            prompt + 1,
            prompt + 2,
            prompt + 3
        )
    };
    std::fs::write(dir.path().join("t.jsonl"), (0..60).map(row).collect::<String>()).unwrap();
    let endpoint = |name: &str, port: u16, tells: bool| {
        let events = format!(", kv_events: {{connect: \"tcp://{name}:{port}\"}}");
        let events = if tells { events.as_str() } else { "" };
        format!("{{name: {name}, url: \"http://{name}:8000\"{events}}}")
    };
    for (name, tells) in [("guess", false), ("told", true)] {
        let text = format!(
            "pools:\n  - {{name: p, kind: vllm, endpoints: [{}, {}, {}]}}\n\
             routes: [{{name: r, targets: [p], policies: {{prefix_cache: {{}}}}}}]\n",
            endpoint("a", 5557, tells),
            endpoint("b", 5558, tells),
            endpoint("c", 5559, tells)
        );
        std::fs::write(dir.path().join(format!("{name}.yaml")), text).unwrap();
    }
    let document = document(
        dir.path(),
        "--config guess.yaml --config told.yaml --trace t.jsonl --replicas 3",
    );
    let hits = |at: usize| {
        document["policies"][at]["figures"]["hit_ratio"]["mean"]
            .as_f64()
            .unwrap()
    };
    assert!(hits(1) > hits(0) + 0.05, "{} told, {} guessed", hits(1), hits(0));
    let about = document["about"]["engines"].to_string();
    assert!(about.contains("KV events"), "{about}");
}

#[test]
fn a_config_that_says_nothing_of_policies_is_simulated_as_auto() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("t.jsonl"), 120);
    for (name, chooses) in [
        ("bare", ""),
        ("auto", ", preset: auto"),
        ("turns", ", route_by: round_robin"),
    ] {
        write_config(&dir.path().join(format!("{name}.yaml")), chooses);
    }
    let configs = "--config bare.yaml --config auto.yaml --config turns.yaml";
    let document = document(dir.path(), &format!("{configs} --trace t.jsonl --speedup 8"));
    let figures = |at: usize| &document["policies"][at]["figures"];
    assert_eq!(figures(0), figures(1));
    assert_ne!(figures(0), figures(2));
}

#[test]
fn that_a_trace_has_no_prompts_stands_beside_the_result_once() {
    let dir = tempfile::tempdir().unwrap();
    // Lengths alone, and the last row out of its order.
    let times = ["00:00:01", "00:00:02", "00:00:03", "00:00:02"];
    let rows = times
        .map(|time| format!("2024-05-10 {time}.0000000,500,20\n"))
        .concat();
    let text = format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}");
    std::fs::write(dir.path().join("t.csv"), text).unwrap();
    let done = simulate(dir.path(), "--trace t.csv");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let out = done.out.split_whitespace().collect::<Vec<_>>().join(" ");
    let caveat = "no prompt begins like another";
    assert_eq!(out.matches(caveat).count(), 1, "{out}");
    assert!(out.find(caveat) < out.find("One seed"), "{out}");
    assert_eq!(out.matches("order").count(), 1, "{out}");
    write_trace(&dir.path().join("t.jsonl"), 20);
    let known = simulate(dir.path(), "--trace t.jsonl").out;
    assert!(!known.contains("begins like another"), "{known}");
}

#[test]
fn rows_that_cannot_be_read_are_named_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("t.jsonl");
    write_trace(&trace, 20);
    let text = std::fs::read_to_string(&trace).unwrap();
    std::fs::write(&trace, text + "{\"timestamp\": 9000}\nnonsense\n").unwrap();
    let document = document(dir.path(), "--trace t.jsonl --format mooncake");
    let notes = document["about"]["notes"].to_string();
    assert!(
        notes.contains("2 of 22 rows could not be read") && notes.contains("line 21"),
        "{notes}"
    );
}

#[test]
fn faults_and_replicas_take_part() {
    let dir = tempfile::tempdir().unwrap();
    write_trace(&dir.path().join("t.jsonl"), 200);
    let failed = |options: &str| {
        let document = document(dir.path(), &format!("--trace t.jsonl {options}"));
        document["policies"][0]["figures"]["e2e_p99_seconds"]["mean"]
            .as_f64()
            .unwrap()
    };
    let calm = failed("");
    assert!(
        failed("--fault slow:e1@0s*20") > 2.0 * calm,
        "a slow engine shows"
    );
    let document = document(
        dir.path(),
        "--trace t.jsonl --replicas 2 --fault die:gpus/e1@5s+5s --fault add:e5@6s",
    );
    assert_eq!(document["policies"][0]["runs"][0]["endpoints"], 5);
    assert!(
        document["about"]["parameters"]
            .to_string()
            .contains("die:gpus/e1@5s+5s")
    );
}
