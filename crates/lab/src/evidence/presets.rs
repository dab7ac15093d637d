//! What each preset is for, as figures of cases, and how it does in them.

use super::Evidence;
use crate::contest::{Contest, Scope};
use crate::gates::Gate;
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
        // Where engines tell of their caches is another fleet.
        .filter(|entry| entry.family.is_none() && !entry.told)
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

/// By how much a preset may be behind another in what it is for.
const BEHIND: f64 = 0.05;

/// A preset in a figure of a case that it is for, beside the other presets.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside {
    /// How far it is behind the best of the others: 0.1 where it takes a tenth longer, or gives a tenth less; below 0 where it is ahead.
    pub behind: f64,
    /// In words.
    pub says: String,
}

impl Beside {
    /// Whether it is further behind than this; what is not a number is.
    #[must_use]
    pub fn is_more_than(&self, behind: f64) -> bool {
        self.behind.is_nan() || self.behind > behind
    }
}

/// Each preset in all that it is for, beside the best of the other presets, on the slice that was held out; those that are furthest
/// behind come first.
#[must_use]
pub fn beside(evidence: &Evidence) -> Vec<Beside> {
    let mut all = Vec::new();
    for column in &columns(evidence) {
        let own = column.preset.as_str();
        let others = Preset::ALL.map(Preset::as_str).into_iter();
        let costs = others
            .filter(|other| *other != own)
            .filter_map(|other| Some((other, column.figure.cost(outcome(column, other)?))));
        let best = costs.min_by(|(_, one), (_, other)| one.total_cmp(other));
        let mine = outcome(column, own).map(|outcome| column.figure.cost(outcome));
        if let (Some((other, best)), Some(mine)) = (best, mine) {
            let (figure, case) = (column.figure, &column.contest.case);
            let by = change(figure.ratio(mine / best));
            all.push(Beside {
                behind: mine / best - 1.0,
                says: format!("`{own}` in {case}, {} {by} beside `{other}`", figure.plain()),
            });
        }
    }
    all.sort_by(|one, other| other.behind.total_cmp(&one.behind));
    all
}

/// Whether each preset is the best of the presets at what it is for, or near it; none: nothing was run that a preset is for.
pub(super) fn gate(evidence: &Evidence) -> Option<Gate> {
    let all = beside(evidence);
    // A figure that is not a number sorts before all others, and is behind.
    let behind = all.iter().filter(|one| one.is_more_than(BEHIND)).count();
    let most: Vec<&str> = all
        .iter()
        .take(behind.max(2))
        .map(|one| one.says.as_str())
        .collect();
    (!all.is_empty()).then(|| Gate {
        asks: "No preset is more than 5 % behind another in what it is for (held out)".into(),
        measured: format!("{behind} times; the most: {}", most.join(", ")),
        met: behind == 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::samples::{self, entry};

    /// A case with these rules; figures: p90, mean, goodput.
    fn contest(case: &str, rules: &[(&str, [f64; 3])]) -> Contest {
        let entries = rules.iter().map(|(rule, figures)| entry(("", rule), *figures));
        samples::contest(case, entries.collect())
    }

    #[test]
    fn a_preset_is_held_against_the_others_in_what_it_is_for() {
        let gate = |chat: [f64; 3]| {
            let rules = [
                ("auto", [1.0, 1.0, 0.8]),
                ("chat", chat),
                ("agents", [2.0, 1.0, 0.9]),
                ("prefix_cache", [0.1, 1.0, 1.0]),
            ];
            super::gate(&Evidence {
                // `chat` is for bursts, and not for agents, which `agents` is for.
                contests: vec![contest("bursts", &rules)],
                ..Evidence::default()
            })
            .unwrap()
        };
        let near = gate([1.049, 1.0, 0.9]);
        assert!(near.met, "{near:?}");
        let later = gate([1.06, 1.0, 0.9]);
        assert!(!later.met);
        assert!(
            later
                .measured
                .starts_with("1 times; the most: `chat` in bursts, p90 TTFT +6.0 % beside `auto`"),
            "{later:?}"
        );
        let fewer = gate([1.0, 1.0, 0.81]);
        assert!(!fewer.met);
        assert!(
            fewer
                .measured
                .contains("`chat` in bursts, goodput −10 % beside `agents`"),
            "{fewer:?}"
        );
        let better = gate([0.5, 1.0, 1.0]);
        assert!(better.met, "a policy alone is no preset: {better:?}");
    }

    #[test]
    fn nothing_is_said_of_presets_where_nothing_was_run_that_they_are_for() {
        let evidence = Evidence {
            contests: vec![contest(
                "stale metrics",
                &[("auto", [1.0; 3]), ("chat", [1.0; 3])],
            )],
            ..Evidence::default()
        };
        assert_eq!(gate(&evidence), None);
        let alone = Evidence {
            contests: vec![contest("bursts", &[("chat", [1.0; 3])])],
            ..Evidence::default()
        };
        assert_eq!(gate(&alone), None, "there is nobody beside it");
    }

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
