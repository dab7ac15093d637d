//! Policies of one's own beside the preset `auto`, to choose a preset's from: on the slice that is tuned on, and where they are
//! chosen, on the other too.

use crate::contest::{Scope, outcomes};
use crate::numbers::{percent, three};
use crate::rules;
use crate::trial::{Outcome, Rule, TrialError};
use crate::workloads::Slice;
use std::collections::BTreeMap;
use std::fmt::Write;
use weighbridge_core::policies::Policies;
use weighbridge_core::presets::Preset;

/// Why a list of policies cannot be tried.
#[derive(Debug, thiserror::Error)]
pub enum CandidateError {
    /// It is not a JSON object of names and policies.
    #[error("not an object of names and policies, as in {{\"mine\": {{\"least_work\": {{}}}}}}: {0}")]
    Form(#[from] serde_json::Error),
    /// A policy refuses its settings.
    #[error("{name}: {policy}: {why}")]
    Policy {
        /// The name under which it stands.
        name: String,
        /// The policy.
        policy: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// The rules that a text lists: names and policies as routes have them, in JSON.
///
/// # Errors
/// It is something else, or a policy refuses its settings.
pub fn read(text: &str) -> Result<Vec<Rule>, CandidateError> {
    let all: BTreeMap<String, Policies> = serde_json::from_str(text)?;
    let mut read = Vec::new();
    for (name, policies) in all {
        if let Some((policy, Err(why))) = policies.checks().find(|(_, checked)| checked.is_err()) {
            return Err(CandidateError::Policy { name, policy, why });
        }
        read.push(rules::rule(&name, policies));
    }
    Ok(read)
}

/// A table of these rules, and all presets before them, in the cases of the scope.
///
/// # Errors
/// The data is not there, or a bug of the lab or the simulator.
pub fn table(
    scope: &Scope,
    slices: &[Slice],
    mine: &[Rule],
    progress: &dyn Fn(&str),
) -> Result<String, TrialError> {
    let presets = Preset::ALL.map(|preset| rules::rule(preset.as_str(), preset.policies()));
    let tried: Vec<Rule> = presets
        .iter()
        .chain(mine)
        .filter(|rule| scope.wants(rule))
        .cloned()
        .collect();
    let mut text = String::from(
        "| case | slice | rule | p90 TTFT | p99 TTFT | mean TTFT | p90 TPOT | goodput | hits | busiest | tokens/s | tokens per busy GPU second |\n\
         |---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for case in &scope.cases {
        for &slice in slices {
            progress(&format!("{}, {}", case.name, slice.name()));
            for (rule, outcome) in tried.iter().zip(outcomes(scope, (case, slice), &tried)?) {
                let _ = writeln!(
                    text,
                    "| {} | {} | {} |{}",
                    case.name,
                    slice.name(),
                    rule.name(),
                    cells(&outcome)
                );
            }
        }
    }
    Ok(text)
}

fn cells(outcome: &Outcome) -> String {
    let cells = [
        three(outcome.ttft_p90),
        three(outcome.ttft_p99),
        three(outcome.ttft_mean),
        format!("{:.4}", outcome.tpot_p90),
        percent(outcome.goodput),
        percent(outcome.hits),
        three(outcome.busiest),
        three(outcome.tokens_per_second),
        three(outcome.tokens_per_busy_second),
    ];
    cells.map(|cell| format!(" {cell} |")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_read_with_its_name() {
        let rules = read(r#"{"b": {"least_work": {"weight": 2}}, "a": {}}"#).unwrap();
        let names: Vec<_> = rules.iter().map(Rule::name).collect();
        assert_eq!(names, ["a", "b"]);
        let Rule::Policies { policies, .. } = &rules[1] else {
            panic!("it is made of policies");
        };
        assert!((policies.least_work.as_ref().unwrap().weight - 2.0).abs() < 1e-12);
    }

    #[test]
    fn what_cannot_be_tried_is_told_with_its_name() {
        let error = |text: &str| {
            read(text)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(error(r#"{"a": {"least_wrok": {}}}"#).contains("least_wrok"));
        assert!(error("[]").contains("not an object of names"));
        let refused = error(r#"{"mine": {"least_work": {"weight": -1}}}"#);
        assert!(refused.starts_with("mine: least_work: "), "{refused}");
        assert!(error(r#"{"mine": {"overload": {"factor": 7}}}"#).starts_with("mine: overload: "));
    }
}
