//! What it is worth when engines tell of their caches.

use super::slices::slices;
use crate::contest::{Contest, Entry};
use crate::numbers::{change, three};
use crate::rules::{AUTO, TOLD};
use crate::trial::Outcome;
use crate::workloads::Slice;

const ABOUT: &str = "\
Some yardsticks follow the engines' KV events, so they know what is cached wherever it came from; `auto` needs nothing but endpoints. Here it
stands beside the best of the yardsticks that need no events either, and `auto` with [KV events](kv-events.md) beside the best of all.
";

const FIGURES: &str =
    "`auto` | best without events | beside it | `auto`, KV events | best of all | beside it";

/// The tables, one for each slice; empty where it was not run.
pub(super) fn tables(contests: &[Contest]) -> String {
    slices("With and without KV events", (ABOUT, FIGURES), (contests, row))
}

fn row(contest: &Contest, slice: Slice) -> Option<String> {
    let auto = contest.product(AUTO)?.on(slice)?;
    let told = contest.product(TOLD)?.on(slice)?;
    let cells = |figure: fn(&Outcome) -> f64| {
        let least = |wanted: fn(&Entry) -> bool| {
            let all = contest.yardsticks().filter(|entry| wanted(entry));
            let figures = all.filter_map(|entry| entry.on(slice)).map(figure);
            figures.min_by(f64::total_cmp)
        };
        let beside =
            |own: f64, best: f64| format!("{} | {} | {}", three(own), three(best), change(own / best));
        Some(format!(
            "{} | {}",
            beside(figure(auto), least(|entry| !entry.told)?),
            beside(figure(told), least(|_| true)?)
        ))
    };
    Some(format!(
        "| {} | {} | {} |",
        contest.case,
        cells(|outcome| outcome.ttft_mean)?,
        cells(|outcome| outcome.ttft_p90)?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::samples;

    #[test]
    fn each_stands_beside_those_who_know_as_much() {
        let told = Entry {
            told: true,
            ..samples::entry(("b", "b, events"), [1.0, 0.5, 0.9])
        };
        let mut contest = samples::contest(
            "x",
            vec![
                samples::entry(("", AUTO), [1.8, 0.9, 1.0]),
                samples::entry(("", TOLD), [0.9, 0.6, 1.0]),
                samples::entry(("a", "a"), [2.0, 3.0, 0.1]),
                samples::entry(("b", "b"), [9.0, 1.0, 0.2]),
                told,
            ],
        );
        let text = tables(std::slice::from_ref(&contest));
        let row = "| x | 0.900 | 1.00 | −10 % | 0.600 | 0.500 | +20 % | 1.80 | 2.00 | −10 % | 0.900 | 1.00 | −10 % |";
        assert_eq!(text.lines().filter(|line| *line == row).count(), 2, "{text}");
        contest.entries.retain(|entry| entry.rule != TOLD);
        assert_eq!(tables(&[contest]), "", "nothing is said of what was not run");
    }
}
