//! Figures as rows and policies as columns, already in words: what the text table and the page both show.

use super::compare::{Difference, Noise, Spread, difference, spread};
use super::figures::{Better, Figure, OF_PARTS, Unit, figures};
use super::summary::{Part, Summary};
use super::{Policy, Report, numbers};

/// One figure of all policies.
pub(super) struct Row {
    pub(super) key: String,
    pub(super) group: &'static str,
    pub(super) label: String,
    pub(super) unit: &'static str,
    pub(super) meaning: &'static str,
    pub(super) cells: Vec<Cell>,
}

/// One figure of one policy.
#[derive(Default)]
pub(super) struct Cell {
    /// The mean over the seeds.
    pub(super) value: String,
    /// The standard deviation, where there are several seeds.
    pub(super) spread: Option<String>,
    /// Against the first policy; none where it is the same.
    pub(super) change: Option<Change>,
    /// Whether no other policy is better, and one is worse.
    pub(super) best: bool,
}

/// A difference in words.
pub(super) struct Change {
    pub(super) absolute: String,
    pub(super) relative: String,
    pub(super) noise: Noise,
    /// Whether it is for the better; none: neither, or nothing.
    pub(super) good: Option<bool>,
}

/// The part of a workload that a table is about.
pub(super) struct PartTable {
    pub(super) name: String,
    pub(super) rows: Vec<Row>,
}

/// Rows of figures that any policy has.
pub(super) fn rows(report: &Report) -> Vec<Row> {
    let all = figures(&report.about.objectives);
    all.iter()
        .filter_map(|figure| row(&report.policies, figure))
        .collect()
}

/// Figures that say nothing when they are 0 everywhere.
const ONLY_WHERE_SOME: [&str; 3] = ["unavailable", "too_long", "timed_out"];

fn row(policies: &[Policy], figure: &Figure) -> Option<Row> {
    let spreads: Vec<Option<Spread>> = policies.iter().map(|policy| spread(policy, figure)).collect();
    let largest = spreads
        .iter()
        .flatten()
        .map(|spread| spread.mean.abs())
        .reduce(f64::max)?;
    if largest == 0.0 && ONLY_WHERE_SOME.contains(&figure.key.as_str()) {
        return None;
    }
    let scale = Scale::of(figure.unit, largest);
    let several = policies.iter().any(|policy| policy.runs.len() > 1);
    let cell = |(place, spread): (usize, &Option<Spread>)| {
        let Some(spread) = spread else {
            return Cell {
                value: "–".to_owned(),
                ..Cell::default()
            };
        };
        let change = match (policies.first(), place) {
            (Some(first), 1..) => difference(first, &policies[place], figure),
            _ => None,
        };
        Cell {
            value: scale.show(spread.mean),
            spread: several.then(|| scale.show_spread(spread.sd)).flatten(),
            change: change.and_then(|change| scale.change(&change, (spread.mean, figure.better))),
            best: false,
        }
    };
    let mut cells: Vec<Cell> = spreads.iter().enumerate().map(cell).collect();
    mark_best(&mut cells, best(&spreads, figure.better));
    Some(Row {
        key: figure.key.clone(),
        group: figure.group,
        label: figure.label.clone(),
        unit: scale.unit,
        meaning: figure.meaning,
        cells,
    })
}

/// Which one is better than at least one other and worse than none.
fn best(spreads: &[Option<Spread>], better: Better) -> Option<usize> {
    let score = |spread: &Spread| match better {
        Better::Less => Some(-spread.mean),
        Better::More => Some(spread.mean),
        Better::Neither => None,
    };
    let scores: Vec<(usize, f64)> = (spreads.iter().enumerate())
        .filter_map(|(place, spread)| Some((place, score(spread.as_ref()?)?)))
        .collect();
    let top = scores.iter().map(|(_, score)| *score).reduce(f64::max)?;
    let mut tops = scores.iter().filter(|(_, score)| *score == top);
    let (place, _) = tops.next()?;
    (tops.next().is_none() && scores.len() > 1).then_some(*place)
}

/// Marks the best where it can be told from the others, as they are written and by more than chance.
fn mark_best(cells: &mut [Cell], best: Option<usize>) {
    let Some(best) = best else { return };
    let told = |(place, cell): (usize, &Cell)| place == best || cell.value != cells[best].value;
    let matters = |cell: &Cell| {
        cell.change
            .as_ref()
            .is_some_and(|change| change.noise != Noise::Within)
    };
    let beyond = if best == 0 {
        cells.iter().any(matters)
    } else {
        matters(&cells[best])
    };
    cells[best].best = beyond && cells.iter().enumerate().all(told);
}

/// How the numbers of a row are written.
struct Scale {
    unit: &'static str,
    factor: f64,
    kind: Unit,
}

impl Scale {
    fn of(kind: Unit, largest: f64) -> Self {
        let (unit, factor) = match kind {
            Unit::Seconds if largest < 0.9995 => ("ms", 1e3),
            Unit::Seconds => ("s", 1.0),
            Unit::Share => ("%", 100.0),
            Unit::PerSecond => ("/s", 1.0),
            // Nobody reads the last digits of millions of GPU-seconds.
            Unit::GpuSeconds if largest >= 1e6 => ("M", 1e-6),
            Unit::Count | Unit::Ratio | Unit::Money | Unit::GpuSeconds => ("", 1.0),
        };
        Self { unit, factor, kind }
    }

    fn show(&self, value: f64) -> String {
        match self.kind {
            Unit::Share => numbers::percent(value),
            Unit::Count => numbers::counted(value),
            _ => numbers::significant(value * self.factor),
        }
    }

    /// Two digits; none where the seeds do not differ.
    fn show_spread(&self, sd: f64) -> Option<String> {
        (sd > 0.0).then(|| format!("±{}", numbers::rough(sd * self.factor)))
    }

    /// None where there is no difference. An absolute difference has as many decimals as the values it is of.
    fn change(&self, change: &Difference, (mean, better): (f64, Better)) -> Option<Change> {
        if change.absolute == 0.0 {
            return None;
        }
        let [first, other, scaled] =
            [mean - change.absolute, mean, change.absolute].map(|value| value * self.factor);
        let decimals = match self.kind {
            Unit::Share => 1,
            Unit::Count => usize::from(scaled.fract() != 0.0),
            _ => numbers::decimals(first).max(numbers::decimals(other)),
        };
        let absolute = numbers::signed(numbers::fixed(scaled, decimals));
        // Too little to be written is nothing to read; programs find it in the JSON.
        if absolute == "0" && change.relative.is_none_or(|relative| relative.abs() < 0.005) {
            return None;
        }
        let unit = if self.kind == Unit::Share { " pt" } else { "" };
        Some(Change {
            absolute: absolute + unit,
            relative: change.relative.map(numbers::percent_change).unwrap_or_default(),
            noise: change.noise,
            good: match better {
                Better::Neither => None,
                Better::Less => Some(change.absolute < 0.0),
                Better::More => Some(change.absolute > 0.0),
            },
        })
    }
}

/// Most parts that are shown, those with most requests first.
const PARTS_MAX: usize = 12;

/// A table per class or tenant, and how many more there are.
pub(super) fn parts(report: &Report, of: fn(&Summary) -> &[Part]) -> (Vec<PartTable>, usize) {
    let Some(first) = report.policies.first().and_then(|policy| policy.runs.first()) else {
        return (Vec::new(), 0);
    };
    let mut places: Vec<usize> = (0..of(first).len()).collect();
    let more = places.len().saturating_sub(PARTS_MAX);
    if more > 0 {
        places.sort_by_key(|&place| (std::cmp::Reverse(of(first)[place].served.requests), place));
        places.truncate(PARTS_MAX);
    }
    let all = figures(&report.about.objectives);
    let shown: Vec<&Figure> = all
        .iter()
        .filter(|figure| OF_PARTS.contains(&figure.key.as_str()))
        .collect();
    let table = |place: usize| PartTable {
        name: of(first)[place].name.clone(),
        rows: part_rows(&only(&report.policies, place, of), &shown),
    };
    (places.into_iter().map(table).collect(), more)
}

/// The policies with one part's requests as all of theirs.
fn only(policies: &[Policy], place: usize, of: fn(&Summary) -> &[Part]) -> Vec<Policy> {
    let run = |run: &Summary| {
        let part = of(run).get(place)?;
        Some(Summary {
            served: part.served.clone(),
            ..Summary::default()
        })
    };
    let policy = |policy: &Policy| Policy {
        name: policy.name.clone(),
        runs: policy.runs.iter().filter_map(run).collect(),
        ..Policy::default()
    };
    policies.iter().map(policy).collect()
}

fn part_rows(policies: &[Policy], shown: &[&Figure]) -> Vec<Row> {
    let labelled = |figure: &&Figure| {
        let row = row(policies, figure)?;
        let label = match figure.group {
            "Time to first token" => format!("TTFT {}", row.label),
            "Time per output token" => format!("TPOT {}", row.label),
            _ => row.label.clone(),
        };
        Some(Row { label, ..row })
    };
    shown.iter().filter_map(labelled).collect()
}
