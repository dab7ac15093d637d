//! `weighbridge simulate --scenario`: every scenario of the repository holds, and one that does not is told.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this crate holds tests only"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../sim/scenarios")
}

fn simulate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .arg("simulate")
        .args(arguments)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_each_scenario_expects_comes_out() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(scenarios())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        let output = simulate(&["--scenario", file.to_str().unwrap(), "--quiet"]);
        assert!(output.status.success(), "{}: {}", file.display(), said(&output));
    }
}

#[test]
fn threads_change_nothing() {
    let run = |threads| {
        let output = simulate(&["--scenario", "shop", "--json", "--threads", threads]);
        assert!(output.status.success(), "{}", said(&output));
        output.stdout
    };
    assert!(run("1") == run("4"));
}

/// The scenario `sessions`, changed.
fn changed(from: &str, to: &str) -> Output {
    let text = std::fs::read_to_string(scenarios().join("sessions.yaml")).unwrap();
    assert!(text.contains(from));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("changed.yaml");
    std::fs::write(&file, text.replace(from, to)).unwrap();
    simulate(&["--scenario", file.to_str().unwrap(), "--quiet"])
}

#[test]
fn an_expectation_that_does_not_hold_is_told_with_its_value() {
    let output = changed(
        "figure: hit_ratio, at_least: 0.9}",
        "figure: hit_ratio, at_least: 0.99}",
    );
    assert_eq!(output.status.code(), Some(1));
    let said = said(&output);
    assert!(
        said.contains("scenario sessions: 1 of 4 expectations do not hold"),
        "{said}"
    );
    assert!(said.contains("hit_ratio with affinity is 0.9"), "{said}");
    assert!(said.contains("not at least 0.99"), "{said}");
}

#[test]
fn a_class_that_is_none_is_told() {
    let output = changed(
        "hit_ratio, at_least: 0.9}",
        "hit_ratio, class: night, at_least: 0.9}",
    );
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("all requests are of one class"),
        "{}",
        said(&output)
    );
}

#[test]
fn what_a_scenario_cannot_mean_is_refused_before_it_runs() {
    let cases = [
        (
            "figure: hit_ratio, at_least: 0.9}",
            "figure: hits, at_least: 0.9}",
            "no figure \"hits\"; there are requests,",
        ),
        (
            "policy: affinity, figure: hit_ratio, at_least",
            "policy: affine, figure: hit_ratio, at_least",
            "no policy \"affine\"",
        ),
        (", at_least: 0.9}", "}", "neither at_least nor at_most"),
        ("seeds: 2", "seed: 2\nsede: 3", "sede"),
        ("least_inflight: {}}}", "least_infight: {}}}", "least_inflight"),
        ("engine: [llama-3.1-8b@l40s]", "engine: [llama-3.1-8b@l40]", "l40"),
        ("seeds: 2", "faults: ['die:nobody']", "die:nobody"),
    ];
    for (from, to, wanted) in cases {
        let output = changed(from, to);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(2), "{to}: {said}");
        assert!(said.contains(wanted), "{to}: {said}");
    }
    let output = simulate(&["--scenario", "shopp"]);
    assert!(
        said(&output).contains("those that come with the program: shop"),
        "{}",
        said(&output)
    );
}

/// The example of the documentation is a scenario, and what it expects comes out.
#[test]
fn the_documented_scenario_holds() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulator.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let start = docs.find("```yaml\nname: our-peak").unwrap() + "```yaml\n".len();
    let text = docs[start..].split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("our-peak.yaml");
    std::fs::write(&file, text).unwrap();
    let output = simulate(&["--scenario", file.to_str().unwrap(), "--quiet"]);
    assert!(output.status.success(), "{}", said(&output));
}
