//! The examples of `docs/workloads.md` are read, and generated.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

use weighbridge_sim::workload::spec::Spec;
use weighbridge_sim::workload::{NAMED, generate, named_text, read};

const DOCS: &str = include_str!("../../../docs/workloads.md");

/// Contents of the fenced blocks of a language.
fn blocks(language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let after = DOCS.split(&fence).skip(1);
    after
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn every_spec_generates() {
    let specs = blocks("yaml");
    assert!(specs.len() >= 7);
    for text in specs {
        let spec: Spec = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let workload = generate(&spec, 1).unwrap_or_else(|error| panic!("{text}\n{error}"));
        assert!(workload.requests.len() > 100, "{text}");
    }
}

#[test]
fn every_trace_is_read() {
    let traces = [blocks("jsonl"), blocks("csv")].concat();
    assert_eq!(traces.len(), 5);
    for text in traces {
        let read = read(text.as_bytes(), "docs", None).unwrap_or_else(|error| panic!("{text}\n{error}"));
        assert_eq!(read.bad, [], "{text}");
    }
}

#[test]
fn every_name_is_told() {
    for (name, _) in NAMED {
        assert!(DOCS.contains(&format!("| `{name}` |")), "{name}");
        if let Some(text) = named_text(name) {
            let from_yaml: Spec = serde_saphyr::from_str(text).unwrap();
            assert_eq!(from_yaml, serde_json::from_str(text).unwrap());
        }
    }
}
