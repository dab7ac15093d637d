//! What becomes of a preset when one of its settings is another.

use crate::contest::{Scope, outcomes};
use crate::rules;
use crate::trial::{Outcome, Rule, TrialError};
use crate::workloads::{Case, Slice};
use serde::{Deserialize, Serialize};
use weighbridge_core::policies::Policies;
use weighbridge_core::presets::Preset;

/// A preset and its variants on the cases that it is for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sensitivity {
    /// The preset.
    pub preset: String,
    /// The cases.
    pub cases: Vec<String>,
    /// The preset, case by case.
    pub base: Vec<Outcome>,
    /// The variants.
    pub variants: Vec<Variant>,
}

/// A preset with one thing changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Variant {
    /// What is changed.
    pub name: String,
    /// What came of it, case by case.
    pub outcomes: Vec<Outcome>,
}

/// How a variant does beside the preset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside<'a> {
    /// Geometric mean over the cases of its figure over the preset's.
    pub mean: f64,
    /// The case where it is worst, and the ratio there.
    pub worst: (&'a str, f64),
    /// The case where it is best, and the ratio there.
    pub best: (&'a str, f64),
}

impl Sensitivity {
    /// A variant beside the preset in a figure of which less is better.
    #[must_use]
    pub fn beside(&self, variant: &Variant, figure: impl Fn(&Outcome) -> f64) -> Option<Beside<'_>> {
        let ratio = |(place, outcome): (usize, &Outcome)| {
            let base = figure(self.base.get(place)?);
            let ratio = figure(outcome) / base;
            (ratio.is_finite() && ratio > 0.0).then_some((self.cases.get(place)?.as_str(), ratio))
        };
        let ratios: Vec<(&str, f64)> = variant.outcomes.iter().enumerate().filter_map(ratio).collect();
        #[expect(clippy::cast_precision_loss, reason = "cases are few")]
        let count = ratios.len() as f64;
        let logs: f64 = ratios.iter().map(|(_, ratio)| ratio.ln()).sum();
        let by = |one: &&(&str, f64), other: &&(&str, f64)| one.1.total_cmp(&other.1);
        Some(Beside {
            mean: (logs / count).exp(),
            worst: *ratios.iter().max_by(by)?,
            best: *ratios.iter().min_by(by)?,
        })
    }
}

/// Tries a preset's variants on these cases, on the slice that is tuned on: the other stays unseen by whoever reads the table
/// to choose a setting.
///
/// # Errors
/// The data is not there, or a bug of the lab or the simulator.
pub fn sensitivity(scope: &Scope, preset: Preset, cases: &[Case]) -> Result<Sensitivity, TrialError> {
    let policies = preset.policies();
    let variants: Vec<(String, Policies)> = rules::variants(&policies);
    let mut rules = vec![rules::rule(preset.as_str(), policies)];
    rules.extend(
        variants
            .iter()
            .map(|(name, policies)| rules::rule(name, policies.clone())),
    );
    let mut done = Sensitivity {
        preset: preset.as_str().to_owned(),
        cases: cases.iter().map(|case| case.name.to_owned()).collect(),
        base: Vec::new(),
        variants: rules.iter().skip(1).map(nothing_yet).collect(),
    };
    for case in cases {
        let outcomes = outcomes(scope, (case, Slice::Tuned), &rules)?;
        let mut outcomes = outcomes.into_iter();
        done.base.extend(outcomes.next());
        let variants = done.variants.iter_mut().zip(outcomes);
        variants.for_each(|(variant, outcome)| variant.outcomes.push(outcome));
    }
    Ok(done)
}

fn nothing_yet(rule: &Rule) -> Variant {
    Variant {
        name: rule.name(),
        outcomes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(p90: f64) -> Outcome {
        Outcome {
            ttft_p90: p90,
            ..Outcome::default()
        }
    }

    #[test]
    fn ratios_are_told_with_the_cases_where_they_are_extreme() {
        let all = Sensitivity {
            preset: "auto".into(),
            cases: vec!["a".into(), "b".into(), "c".into()],
            base: [1.0, 2.0, 0.0].map(outcome).to_vec(),
            variants: Vec::new(),
        };
        let variant = Variant {
            name: "x".into(),
            outcomes: [4.0, 0.5, 1.0].map(outcome).to_vec(),
        };
        let beside = all.beside(&variant, |outcome| outcome.ttft_p90).unwrap();
        // 4 and 1/4; nothing can be said of the third, where the preset has 0.
        assert!((beside.mean - 1.0).abs() < 1e-12, "{beside:?}");
        assert_eq!(beside.worst, ("a", 4.0));
        assert_eq!(beside.best, ("b", 0.25));
        assert_eq!(all.beside(&variant, |_| 0.0), None);
    }
}
