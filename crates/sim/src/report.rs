//! What a run amounts to, for people and for programs.
//!
//! A [`Run`](crate::outcome::Run) is reduced to a [`Summary`] and to [`Curves`] as soon as it is over, so that runs with many
//! seeds and policies need no more memory than one. A [`Report`] holds the summaries of all policies and seeds and is shown
//! as a text table ([`table`]), as JSON ([`document`]) or as one self-contained page ([`html`]). All three read the one
//! list of [`figures`].
//!
//! The same report gives the same bytes: nothing here reads a clock or the environment.

pub mod compare;
pub mod curves;
pub mod distribution;
pub mod document;
pub mod figures;
mod grid;
pub mod html;
mod numbers;
pub mod objective;
mod plots;
pub mod summary;
mod svg;
pub mod table;
mod words;

#[cfg(test)]
mod samples;

pub use curves::Curves;
pub use numbers::grouped;
pub use objective::{Measure, Objective, Objectives, Statistic};
pub use summary::Summary;
pub use words::headline;

use crate::workload::{Slo, Workload};
use serde::Serialize;

/// Policies compared on one workload.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was simulated.
    pub about: About,
    /// The policies, the first of which the others are compared with.
    pub policies: Vec<Policy>,
}

/// What was simulated, in words.
#[derive(Clone, Debug, Default, Serialize)]
pub struct About {
    /// Version of the program.
    pub version: String,
    /// The workload's name.
    pub workload: String,
    /// The fleet and everything else that was given, in the order in which it is shown.
    pub parameters: Vec<Parameter>,
    /// Seeds, one run per policy each.
    pub seeds: Vec<u64>,
    /// Engines of the fleet.
    pub engines: Vec<Engine>,
    /// What all requests are held to; empty: each class to its own.
    #[serde(rename = "slo")]
    pub objectives: Objectives,
    /// Bounds of the time to first token that plots show, seconds: the objective's, or those of the classes.
    #[serde(skip)]
    pub first_token_bounds: Vec<f64>,
    /// What a search has found, a sentence per policy: the answer, where one was asked for.
    #[serde(skip)]
    pub found: Vec<String>,
    /// What the result leaves out, which is to stand beside it.
    #[serde(skip)]
    pub caveats: Vec<String>,
    /// What a reader should know: rows that were left out, estimates, faults.
    pub notes: Vec<String>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Its value, with its unit.
    pub value: String,
}

/// The engines of one pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Engine {
    /// The pool.
    pub pool: String,
    /// How many, at the start.
    pub engines: usize,
    /// Model and GPUs.
    pub label: String,
    /// Where its speed is known from: measured, or extrapolated.
    pub basis: String,
}

/// One policy and its runs.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// One run per seed, in the order of [`About::seeds`].
    pub runs: Vec<Summary>,
    /// Curves of the first seed.
    pub curves: Curves,
}

impl About {
    /// Of this workload and what all its requests are held to.
    #[must_use]
    pub fn of(workload: &Workload, objectives: &Objectives) -> Self {
        let bound = |slo: &Slo| slo.first_token.map(|bound| bound.as_secs_f64());
        let first_token_bounds = match objectives.0.is_empty() {
            true => workload
                .classes
                .iter()
                .filter_map(|class| bound(&class.slo))
                .collect(),
            false => bound(&objectives.slo()).into_iter().collect(),
        };
        Self {
            workload: workload.name.clone(),
            objectives: objectives.clone(),
            first_token_bounds,
            ..Self::default()
        }
    }

    /// Adds a parameter.
    pub fn parameter(&mut self, name: &str, value: impl Into<String>) {
        self.parameters.push(Parameter {
            name: name.to_owned(),
            value: value.into(),
        });
    }
}
