//! Times to the first token against load, for the plots.

use crate::contest::{Contest, Scope, outcomes};
use crate::rules::{self, LEAST_INFLIGHT, ROUND_ROBIN};
use crate::trial::{Outcome, Rule, Stage, TrialError};
use crate::tuning;
use crate::workloads::{Case, Slice};
use crate::yardsticks;
use serde::{Deserialize, Serialize};
use weighbridge_core::presets::Preset;

/// Cases that have a plot.
pub const CASES: [&str; 6] = [
    "system prompts",
    "agents",
    "chat and batch",
    "bursts",
    "mooncake",
    "llm-d 37",
];
/// Multiples of a case's load.
pub const LOADS: [f64; 6] = [0.5, 0.7, 0.85, 1.0, 1.15, 1.3];
/// Yardsticks that are shown beside least in-flight and round robin.
const BEST: usize = 3;

/// A case under loads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sweep {
    /// The case.
    pub case: String,
    /// Requests per second at a load of 1, those of later turns among them.
    pub rate: f64,
    /// The rules: `auto` first, then least in-flight and round robin.
    pub lines: Vec<Line>,
}

/// A rule under loads.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Its name; of a yardstick that of its family.
    pub rule: String,
    /// What came of it at each of [`LOADS`].
    pub outcomes: Vec<Outcome>,
}

/// Varies the load of a case on the slice that was held out, under the rules that did best in it.
///
/// # Errors
/// The data is not there, or a bug of the lab or the simulator.
pub fn sweep(scope: &Scope, case: &Case, contest: &Contest) -> Result<Sweep, TrialError> {
    let shown = shown(contest);
    let all = yardsticks::all().into_iter().map(Rule::Yardstick);
    let all: Vec<Rule> = all.collect();
    let auto = rules::rule(rules::AUTO, Preset::Auto.policies());
    let mut tried = vec![(rules::AUTO.to_owned(), auto)];
    for (family, name) in shown {
        let rule = all.iter().find(|rule| rule.name() == name);
        tried.extend(rule.map(|rule| (family.clone(), rule.clone())));
    }
    let rules: Vec<Rule> = tried.iter().map(|(_, rule)| rule.clone()).collect();
    let mut lines: Vec<Line> = tried
        .into_iter()
        .map(|(rule, _)| Line {
            rule,
            outcomes: Vec::new(),
        })
        .collect();
    for load in LOADS {
        let done = outcomes(scope, (&case.at(load), Slice::Held), &rules)?;
        lines
            .iter_mut()
            .zip(done)
            .for_each(|(line, outcome)| line.outcomes.push(outcome));
    }
    let seed = scope.seeds.first().copied().unwrap_or_default();
    Ok(Sweep {
        case: case.name.to_owned(),
        rate: Stage::new(case, &scope.bench, (Slice::Held, seed))?.rate(),
        lines,
    })
}

/// Families and names of the yardsticks that are shown: the two that everybody knows, and the best of the others, each by
/// its 90th percentile over goodput on the slice that was tuned on.
fn shown(contest: &Contest) -> Vec<(String, String)> {
    let best = |family: &str| {
        let of = contest
            .yardsticks()
            .filter(|entry| entry.family.as_deref() == Some(family));
        of.min_by(|one, other| tuning::both(&one.tuned).total_cmp(&tuning::both(&other.tuned)))
    };
    let known = [LEAST_INFLIGHT, ROUND_ROBIN];
    let mut others: Vec<_> = contest
        .families()
        .into_iter()
        .filter(|family| !known.contains(family))
        .filter_map(|family| Some((family, best(family)?)))
        .collect();
    others.sort_by(|(_, one), (_, other)| tuning::both(&one.tuned).total_cmp(&tuning::both(&other.tuned)));
    others.truncate(BEST);
    let plain = known
        .into_iter()
        .filter_map(|family| Some((family, best(family)?)));
    plain
        .chain(others)
        .map(|(family, entry)| (family.to_owned(), entry.rule.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::samples::{self, entry};

    #[test]
    fn what_everybody_knows_is_shown_and_the_best_of_the_others() {
        let contest = samples::contest(
            "x",
            vec![
                entry(("", "auto"), [0.1, 0.1, 1.0]),
                entry((ROUND_ROBIN, "turn"), [9.0, 9.0, 0.1]),
                entry((LEAST_INFLIGHT, "least"), [8.0, 8.0, 0.2]),
                entry(("a", "a, badly set"), [7.0, 7.0, 0.3]),
                entry(("a", "a, well set"), [2.0, 2.0, 0.9]),
                entry(("b", "b"), [3.0, 3.0, 0.9]),
                entry(("c", "c"), [4.0, 4.0, 0.9]),
                entry(("d", "d"), [1.0, 1.0, 0.9]),
            ],
        );
        let names: Vec<_> = shown(&contest).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["least", "turn", "d", "a, well set", "b"]);
    }
}
