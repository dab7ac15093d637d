//! The evidence as tables in Markdown.

use super::presets::Figure;
use super::{Evidence, most, presets, told};
use crate::contest::{Contest, Entry, SEEDS};
use crate::gates::{self, Gate};
use crate::numbers::{NOTHING, change, percent, three};
use crate::rules::{AUTO, LEAST_INFLIGHT};
use crate::sensitivity::{Sensitivity, Variant};
use crate::trial::{Outcome, YARDSTICK_SCRAPE};
use crate::workloads::{self, Case, Slice};
use std::fmt::Write;

/// The section of `docs/policies.md`.
pub(super) fn section(evidence: &Evidence) -> String {
    let mut text = format!("\n\n{}\n", introduction());
    let _ = writeln!(text, "### Gates\n\n{}", gates(&evidence.gates));
    let _ = writeln!(text, "{}", beside_yardsticks(evidence));
    text.push_str(&most::tables(&evidence.contests));
    text.push_str(&told::tables(&evidence.contests));
    for all in &evidence.sensitivities {
        let _ = writeln!(text, "{}", settings(all));
    }
    let table = presets::table(evidence);
    if !table.is_empty() {
        let _ = writeln!(
            text,
            "### Presets on the work that they are for\n\n\
             On the slice that was held out; a preset's own figures are bold. Below, each beside the best of the others.\n\n{table}"
        );
    }
    let _ = writeln!(text, "### Case by case\n\n{}", CASES);
    for contest in evidence.contests.iter().chain(&evidence.closed_loop) {
        let _ = writeln!(text, "{}", case(contest));
    }
    text
}

/// Gates and the tables of all cases, for a terminal.
pub(super) fn summary(evidence: &Evidence) -> String {
    format!(
        "{}\n{}{}{}",
        beside_yardsticks(evidence),
        most::tables(&evidence.contests),
        told::tables(&evidence.contests),
        gates(&evidence.gates)
    )
}

fn introduction() -> String {
    let seeds: Vec<String> = SEEDS.iter().map(ToString::to_string).collect();
    format!(
        "## Evidence\n\n\
         `cargo xtask lab` writes what follows. It runs the product's scheduler and the field's routing algorithms, the *yardsticks*\n\
         ([simulator-baselines.md](simulator-baselines.md)), on {} cases in the [simulator](simulator.md). Every figure is the mean over the seeds {}. TTFT is\n\
         the time to the first token of answered requests, in seconds; goodput the share of all requests that were answered within their\n\
         bounds, in percent.\n\n\
         Each case has two slices: of a trace its two halves, of generated traffic other seeds. Each yardstick was run over a grid of settings on\n\
         the slice that is *tuned on*. Of its family those settings count as tuned that gave the least p90 TTFT, the least mean TTFT, the most\n\
         goodput, or the least p90 TTFT over goodput; they and the ones that its project ships were then run on the slice that was *held out*. On\n\
         the first the whole grid is held against `auto`, which is generous to yardsticks; the second is fair. Yardsticks see the engines'\n\
         metrics every {} ms, as llm-d reads them; the product every second, as it does by default.\n",
        workloads::cases().len(),
        seeds.join(", "),
        YARDSTICK_SCRAPE.as_millis()
    )
}

/// The table of the gates.
pub(super) fn gates(gates: &[Gate]) -> String {
    let mut text = String::from("| asked | measured | |\n|---|---|---|\n");
    for gate in gates {
        let _ = writeln!(text, "| {} | {} | {} |", gate.asks, gate.measured, gate.word());
    }
    text
}

/// A rule of the product as it is written in a config.
pub(super) fn named(rule: &str) -> String {
    match rule.contains(' ') {
        true => rule.to_owned(),
        false => format!("`{rule}`"),
    }
}

fn beside_yardsticks(evidence: &Evidence) -> String {
    let mut text = String::new();
    for slice in [Slice::Held, Slice::Tuned] {
        let _ = writeln!(
            text,
            "### `auto` beside the best yardsticks, {}\n\n\
             | case | p90 TTFT | least in-flight | best yardstick | | goodput | least in-flight | best yardstick | | mean TTFT | best yardstick | | better on both |\n\
             |---|--:|--:|--:|---|--:|--:|--:|---|--:|--:|---|---|",
            slice.name()
        );
        for contest in &evidence.contests {
            let _ = writeln!(text, "{}", row(contest, slice).unwrap_or_default());
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn row(contest: &Contest, slice: Slice) -> Option<String> {
    let auto = contest.product(AUTO)?.on(slice)?;
    let plain = contest
        .yardsticks()
        .find(|entry| entry.family.as_deref() == Some(LEAST_INFLIGHT))
        .and_then(|entry| entry.on(slice));
    let least = |figure: fn(&Outcome) -> f64| {
        let all = contest
            .yardsticks()
            .filter_map(|entry| Some((entry, entry.on(slice)?)));
        all.min_by(|(_, one), (_, other)| figure(one).total_cmp(&figure(other)))
    };
    let said = |found: Option<(&Entry, &Outcome)>, text: fn(&Outcome) -> String| match found {
        Some((entry, outcome)) => format!(
            "{} | {}",
            text(outcome),
            entry.family.as_deref().unwrap_or_default()
        ),
        None => "– | ".to_owned(),
    };
    let p90 = |outcome: &Outcome| three(outcome.ttft_p90);
    let goodput = |outcome: &Outcome| percent(outcome.goodput);
    let mean = |outcome: &Outcome| three(outcome.ttft_mean);
    let (better, _) = gates::better(contest, slice);
    let mut families: Vec<&str> = better
        .iter()
        .filter_map(|entry| entry.family.as_deref())
        .collect();
    families.dedup();
    let better = match families.as_slice() {
        [] => "nobody".to_owned(),
        [_, _, _, _, ..] => format!("{} and {} more", families[..2].join(", "), families.len() - 2),
        few => few.join(", "),
    };
    Some(format!(
        "| {} | **{}** | {} | {} | **{}** | {} | {} | **{}** | {} | {better} |",
        contest.case,
        p90(auto),
        plain.map_or("–".to_owned(), p90),
        said(least(|outcome| outcome.ttft_p90), p90),
        goodput(auto),
        plain.map_or("–".to_owned(), goodput),
        said(least(|outcome| -outcome.goodput), goodput),
        mean(auto),
        said(least(|outcome| outcome.ttft_mean), mean),
    ))
}

fn settings(all: &Sensitivity) -> String {
    let figures = presets::figures(&all.preset);
    let several = all.cases.len() > 1;
    let mut text = format!(
        "### Other settings of `{}`\n\nChanges from the preset on the slice that is tuned on, in {}{}.\n\n| changed |",
        all.preset,
        match all.cases.len() > 3 {
            true => "all cases".to_owned(),
            false => all.cases.join(" and "),
        },
        match several {
            true => ": the geometric mean, and the cases where it is worst and best",
            false => "",
        }
    );
    for figure in figures {
        let _ = write!(text, " {} |", figure.plain());
        text.push_str(if several { " worst | best |" } else { "" });
    }
    let dashes = if several { "--:|---|---|" } else { "--:|" };
    let _ = writeln!(text, "\n|---|{}", dashes.repeat(figures.len()));
    let mut idle = Vec::new();
    for variant in &all.variants {
        match cells(all, variant, figures) {
            Some(cells) => {
                let _ = writeln!(text, "| {} |{cells}", variant.name);
            }
            None => idle.push(variant.name.as_str()),
        }
    }
    if !idle.is_empty() {
        let _ = writeln!(text, "\nLess than 0.05 % everywhere: {}.", idle.join(", "));
    }
    text
}

/// How a variant does in each figure; none: as the preset does.
fn cells(all: &Sensitivity, variant: &Variant, figures: &[Figure]) -> Option<String> {
    let (mut text, mut idle) = (String::new(), true);
    for figure in figures {
        let Some(beside) = all.beside(variant, |outcome| figure.cost(outcome)) else {
            text.push_str(" – |");
            text.push_str(if all.cases.len() > 1 { " | |" } else { "" });
            continue;
        };
        let said = |ratio| change(figure.ratio(ratio));
        let ratios = [beside.mean, beside.worst.1, beside.best.1].map(said);
        idle &= ratios.iter().all(|ratio| ratio == NOTHING);
        let [mean, worst, best] = ratios;
        let _ = write!(text, " {mean} |");
        if all.cases.len() > 1 {
            let _ = write!(text, " {worst} {} | {best} {} |", beside.worst.0, beside.best.0);
        }
    }
    (!idle).then_some(text)
}

const CASES: &str = "\
Of each yardstick family every figure is that of the settings that were tuned for it: p90 TTFT of those that gave the least on the slice that is
tuned on, goodput of those that gave the most, mean TTFT of those with the least. Hits are the share of prompt tokens that came out of a cache, held out, with the
settings of p90 TTFT, which stand in the last column.
";

fn case(contest: &Contest) -> String {
    let about = about(&contest.case);
    let mut text = format!("#### {}\n\n{about}.\n\n", contest.case);
    let tokens = contest.case == workloads::closed_loop().name;
    text.push_str(
        "| rule | p90 TTFT, tuned on | held out | mean TTFT, tuned on | held out | goodput, tuned on | held out | hits |",
    );
    text.push_str(if tokens { " tokens/s, held out |" } else { "" });
    text.push_str(" settings |\n|---|--:|--:|--:|--:|--:|--:|--:|");
    text.push_str(if tokens { "--:|" } else { "" });
    text.push_str("---|\n");
    for entry in contest.entries.iter().filter(|entry| entry.family.is_none()) {
        let cells = Cells {
            p90: entry,
            mean: entry,
            goodput: entry,
        };
        let _ = writeln!(text, "{}", cells.line(&named(&entry.rule), tokens));
    }
    for family in contest.families() {
        let best = |picked: fn(&Entry) -> bool| {
            let mut of = contest
                .yardsticks()
                .filter(|entry| entry.family.as_deref() == Some(family));
            of.find(|entry| picked(entry))
        };
        let found = (
            best(|entry| entry.picked.p90),
            best(|entry| entry.picked.mean),
            best(|entry| entry.picked.goodput),
        );
        let (Some(p90), Some(mean), Some(goodput)) = found else {
            continue;
        };
        let _ = writeln!(text, "{}", Cells { p90, mean, goodput }.line(family, tokens));
    }
    text
}

fn about(name: &str) -> String {
    let all: Vec<Case> = workloads::cases()
        .into_iter()
        .chain([workloads::closed_loop()])
        .collect();
    let about = all
        .iter()
        .find(|case| case.name == name)
        .map_or("", |case| case.about);
    let mut letters = about.chars();
    let first: String = letters
        .next()
        .map(|first| first.to_uppercase().collect())
        .unwrap_or_default();
    first + letters.as_str()
}

/// The entries that a line takes its figures from.
struct Cells<'a> {
    p90: &'a Entry,
    mean: &'a Entry,
    goodput: &'a Entry,
}

impl Cells<'_> {
    fn line(&self, name: &str, tokens: bool) -> String {
        let held = |entry: &Entry, text: fn(&Outcome) -> String| match &entry.held {
            Some(outcome) => text(outcome),
            None => "–".to_owned(),
        };
        let p90 = |outcome: &Outcome| three(outcome.ttft_p90);
        let mean = |outcome: &Outcome| three(outcome.ttft_mean);
        let goodput = |outcome: &Outcome| percent(outcome.goodput);
        let mut text = format!(
            "| {name} | {} | {} | {} | {} | {} | {} | {} |",
            p90(&self.p90.tuned),
            held(self.p90, p90),
            mean(&self.mean.tuned),
            held(self.mean, mean),
            goodput(&self.goodput.tuned),
            held(self.goodput, goodput),
            held(self.p90, |outcome| percent(outcome.hits)),
        );
        if tokens {
            let _ = write!(
                text,
                " {} |",
                held(self.p90, |outcome| three(outcome.tokens_per_second))
            );
        }
        let _ = write!(text, " {} |", self.p90.settings);
        text
    }
}
