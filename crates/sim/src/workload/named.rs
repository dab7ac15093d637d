//! Workloads that have a name: ready to run, and examples of a [`Spec`].

use super::spec::{Arrivals, Choice, Component, Process, Shared, Span, Spec, Spread, Stage};
use serde::Deserialize;

/// Names of workloads that are there for all, and what each is.
pub const NAMED: &[(&str, &str)] = &[
    (
        "shop",
        "a shop's chat, product descriptions and batch analyses, with a burst of +300 % in the middle",
    ),
    ("chat", "conversations of several turns under one system prompt"),
    (
        "rag",
        "questions about long documents, some of which everybody asks about",
    ),
    (
        "agents",
        "long conversations that grow with every tool call, seconds apart",
    ),
    (
        "batch",
        "long prompts from a closed loop of workers who send the next when one is done",
    ),
    (
        "prefix-groups",
        "llm-d's benchmark of shared prefixes: 83 of 8,000 tokens, at rising rates",
    ),
];

const TEXTS: &[(&str, &str)] = &[
    ("shop", include_str!("named/shop.json")),
    ("chat", include_str!("named/chat.json")),
    ("rag", include_str!("named/rag.json")),
    ("agents", include_str!("named/agents.json")),
    ("batch", include_str!("named/batch.json")),
];

/// The spec of a named workload as text, in JSON that is YAML too: to be printed, changed and run. None for those
/// without a text, such as `prefix-groups`, and for unknown names.
#[must_use]
pub fn named_text(name: &str) -> Option<&'static str> {
    TEXTS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}

/// The spec of a named workload.
///
/// # Errors
/// If there is no workload of this name; says which there are.
pub fn named(name: &str) -> Result<Spec, String> {
    if name == "prefix-groups" {
        return Ok(PrefixGroups::default().spec());
    }
    match named_text(name) {
        Some(text) => serde_json::from_str(text).map_err(|error| format!("workload {name}: {error}")),
        None => {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            Err(format!(
                "no workload named {name:?}; there are {}",
                names.join(", ")
            ))
        }
    }
}

/// Shared prefixes with some prompts each that are asked in turn, again and again, at one rate after the other: the form of
/// the shared-prefix load of kubernetes-sigs/inference-perf. The default is the experiment "37" of llm-d/llm-d-kv-cache.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrefixGroups {
    /// Different prefixes.
    pub groups: u32,
    /// Tokens of each.
    pub prefix: u32,
    /// Tokens of a question after it.
    pub question: u32,
    /// Tokens of an answer.
    pub output: u32,
    /// Different questions per prefix; none: each is asked once.
    pub prompts_per_group: Option<u32>,
    /// How the gaps between requests spread.
    pub process: Process,
    /// Rates one after the other.
    pub stages: Vec<Stage>,
}

impl Default for PrefixGroups {
    fn default() -> Self {
        let stage = |(rate, seconds)| Stage {
            rate,
            duration: Span::seconds(seconds),
        };
        let stages = [
            (9.0, 30),
            (3.0, 210),
            (4.0, 180),
            (5.0, 120),
            (6.0, 120),
            (8.0, 90),
            (10.0, 70),
            (12.0, 60),
            (15.0, 50),
            (20.0, 50),
        ];
        Self {
            groups: 83,
            prefix: 8000,
            question: 1000,
            output: 1000,
            prompts_per_group: Some(3),
            process: Process::Constant,
            stages: stages.map(stage).to_vec(),
        }
    }
}

impl PrefixGroups {
    /// As a spec.
    #[must_use]
    pub fn spec(&self) -> Spec {
        let mut component = Component::new(
            "prefix-groups",
            Spread::Fixed(self.question),
            Spread::Fixed(self.output),
        );
        component.shared = vec![Shared {
            tokens: Spread::Fixed(self.prefix),
            groups: self.groups,
            choice: Choice::Cycle,
            skew: None,
            prompts: self.prompts_per_group,
        }];
        let mut spec = Spec::new("prefix-groups", vec![component]);
        spec.arrivals = Some(Arrivals {
            process: self.process,
            stages: self.stages.clone(),
            ..Arrivals::default()
        });
        spec
    }
}
