//! What each preset is for, as figures of cases, and how it does in them.

use super::Evidence;
use crate::contest::{Contest, Scope};
use crate::numbers::{change, percent, three};
use crate::trial::Outcome;
use crate::workloads::{self, Case};
use std::fmt::Write;
use weighbridge_core::presets::Preset;

/// A figure by which a preset is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// 90th percentile of the time to the first token.
    P90,
    /// Its 99th.
    P99,
    /// Goodput.
    Goodput,
    /// Tokens of answers per second.
    Tokens,
    /// Tokens of answers per second in which a GPU computed: the others may sleep.
    Busy,
}

impl Figure {
    /// Without its unit.
    pub(super) fn plain(self) -> &'static str {
        let name = self.name();
        name.split_once(", ").map_or(name, |(name, _)| name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::P90 => "p90 TTFT, s",
            Self::P99 => "p99 TTFT, s",
            Self::Goodput => "goodput, %",
            Self::Tokens => "tokens/s",
            Self::Busy => "tokens per busy GPU second",
        }
    }

    fn text(self, outcome: &Outcome) -> String {
        match self {
            Self::P90 => three(outcome.ttft_p90),
            Self::P99 => three(outcome.ttft_p99),
            Self::Goodput => percent(outcome.goodput),
            Self::Tokens => three(outcome.tokens_per_second),
            Self::Busy => three(outcome.tokens_per_busy_second),
        }
    }

    /// The less, the better.
    pub(super) fn cost(self, outcome: &Outcome) -> f64 {
        match self {
            Self::P90 => outcome.ttft_p90,
            Self::P99 => outcome.ttft_p99,
            Self::Goodput => 1.0 / outcome.goodput,
            Self::Tokens => 1.0 / outcome.tokens_per_second,
            Self::Busy => 1.0 / outcome.tokens_per_busy_second,
        }
    }

    /// A ratio of costs as a ratio of the figure.
    pub(super) fn ratio(self, costs: f64) -> f64 {
        match self {
            Self::P90 | Self::P99 => costs,
            Self::Goodput | Self::Tokens | Self::Busy => 1.0 / costs,
        }
    }
}

/// The cases that a preset is for, and by what it is judged there; of `auto`, all cases.
fn purpose(preset: Preset) -> (&'static [&'static str], &'static [Figure]) {
    match preset {
        Preset::Auto => (&[], &[Figure::P90, Figure::Goodput]),
        Preset::Chat => (&["chat and batch", "bursts"], &[Figure::P90, Figure::Goodput]),
        Preset::Agents => (&["agents", "an engine dies"], &[Figure::P90, Figure::Goodput]),
        Preset::Batch => (&["closed loop"], &[Figure::Tokens, Figure::Busy]),
        Preset::Latency => (&["azure", "mooncake"], &[Figure::P99]),
    }
}

/// By what a preset is judged.
pub(super) fn figures(preset: &str) -> &'static [Figure] {
    let found = Preset::ALL.into_iter().find(|known| known.as_str() == preset);
    found.map_or(&[], |preset| purpose(preset).1)
}

/// The cases that a preset is for, among those of the scope.
pub(super) fn cases(scope: &Scope, preset: Preset) -> Vec<Case> {
    let (names, _) = purpose(preset);
    let all = scope.cases.iter().cloned().chain([workloads::closed_loop()]);
    match names.is_empty() {
        true => scope.cases.clone(),
        false => all.filter(|case| names.contains(&case.name)).collect(),
    }
}

/// A column of the table: a figure of a case.
struct Column<'a> {
    preset: Preset,
    contest: &'a Contest,
    figure: Figure,
}

/// A table of all rules of the product in what presets are for, on the slice that was held out, and what it says of each preset.
pub(super) fn table(evidence: &Evidence) -> String {
    let columns = columns(evidence);
    let Some(first) = columns.first() else {
        return String::new();
    };
    let rules: Vec<&str> = first
        .contest
        .entries
        .iter()
        .filter(|entry| entry.family.is_none())
        .map(|entry| entry.rule.as_str())
        .collect();
    let mut text = String::from("| rule |");
    for column in &columns {
        let _ = write!(text, " {}: {} |", column.contest.case, column.figure.name());
    }
    let _ = writeln!(text, "\n|---|{}", "--:|".repeat(columns.len()));
    for rule in &rules {
        let _ = write!(text, "| {} |", super::tables::named(rule));
        for column in &columns {
            let said = outcome(column, rule).map_or("–".to_owned(), |outcome| column.figure.text(outcome));
            let strong = column.preset.as_str() == *rule;
            let _ = match strong {
                true => write!(text, " **{said}** |"),
                false => write!(text, " {said} |"),
            };
        }
        text.push('\n');
    }
    text.push('\n');
    for preset in Preset::ALL {
        let own: Vec<&Column<'_>> = columns.iter().filter(|column| column.preset == preset).collect();
        if !own.is_empty() {
            let _ = writeln!(text, "- {}", verdict(preset, &own, &rules));
        }
    }
    text
}

fn columns(evidence: &Evidence) -> Vec<Column<'_>> {
    let contests = || evidence.contests.iter().chain(&evidence.closed_loop);
    let mut columns = Vec::new();
    for preset in Preset::ALL {
        let (cases, figures) = purpose(preset);
        for case in cases {
            let Some(contest) = contests().find(|contest| contest.case == *case) else {
                continue;
            };
            let column = |figure: &Figure| Column {
                preset,
                contest,
                figure: *figure,
            };
            columns.extend(figures.iter().map(column));
        }
    }
    columns
}

fn outcome<'a>(column: &Column<'a>, rule: &str) -> Option<&'a Outcome> {
    column.contest.product(rule)?.held.as_ref()
}

/// How a preset does beside the best of the others in each figure that it is judged by.
fn verdict(preset: Preset, own: &[&Column<'_>], rules: &[&str]) -> String {
    let name = preset.as_str();
    let mut said = Vec::new();
    for column in own {
        let costs = rules.iter().filter(|rule| **rule != name);
        let costs = costs.filter_map(|rule| Some((*rule, column.figure.cost(outcome(column, rule)?))));
        let best = costs.min_by(|(_, one), (_, other)| one.total_cmp(other));
        let mine = outcome(column, name).map(|outcome| column.figure.cost(outcome));
        let (Some((other, best)), Some(mine)) = (best, mine) else {
            continue;
        };
        said.push(format!(
            "{} {} beside {} in {}",
            column.figure.plain(),
            change(column.figure.ratio(mine / best)),
            super::tables::named(other),
            column.contest.case
        ));
    }
    format!("`{name}`: {}.", said.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_preset_is_judged_on_cases_that_there_are() {
        let all: Vec<_> = workloads::cases().iter().map(|case| case.name).collect();
        let closed = workloads::closed_loop().name;
        for preset in Preset::ALL {
            let (cases, figures) = purpose(preset);
            assert!(!figures.is_empty(), "{preset:?}");
            for case in cases {
                assert!(all.contains(case) || *case == closed, "{preset:?}: {case}");
            }
        }
    }

    #[test]
    fn of_goodput_and_tokens_more_is_better() {
        let outcome = |goodput| Outcome {
            goodput,
            ..Outcome::default()
        };
        let costs = [0.5, 1.0].map(|goodput| Figure::Goodput.cost(&outcome(goodput)));
        assert!(costs[1] < costs[0]);
        assert!((Figure::Goodput.ratio(costs[1] / costs[0]) - 2.0).abs() < 1e-12);
    }
}
