//! An eighth of some cases: coarse forms of what `auto` must reach.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use weighbridge_core::policies::{Policies, batch_packing};
use weighbridge_core::presets::Preset;
use weighbridge_lab::contest::{Contest, Entry, Scope, outcomes};
use weighbridge_lab::evidence::{Beside, Evidence, beside};
use weighbridge_lab::rules::{self, LEAST_INFLIGHT, ROUND_ROBIN};
use weighbridge_lab::trial::{Outcome, Rule};
use weighbridge_lab::tuning::Picked;
use weighbridge_lab::workloads::{Bench, Case, Slice, cases, closed_loop};
use weighbridge_lab::yardsticks;

/// Quick ones of several kinds.
const CASES: [&str; 6] = [
    "mooncake",
    "azure",
    "chat and batch",
    "system prompts",
    "bursts",
    "stale metrics",
];

/// A case in figures.
struct Figures {
    case: &'static str,
    /// The rule that is judged.
    own: Outcome,
    /// The yardsticks by family.
    rivals: Vec<(&'static str, Outcome)>,
}

impl Figures {
    fn of(&self, family: &str) -> &Outcome {
        let found = self.rivals.iter().find(|(known, _)| *known == family);
        &found.expect("the family is there").1
    }

    fn least_p90(&self) -> f64 {
        let all = self.rivals.iter().map(|(_, outcome)| outcome.ttft_p90);
        all.fold(f64::INFINITY, f64::min)
    }

    fn most_hits(&self) -> f64 {
        let all = self.rivals.iter().map(|(_, outcome)| outcome.hits);
        all.fold(0.0, f64::max)
    }
}

fn scope() -> Scope {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut scope = Scope::whole(Bench::whole(&data), threads);
    scope.bench.cut = 8;
    scope.seeds.truncate(1);
    scope.shipped = true;
    scope
}

/// Runs the cases under these policies and under all yardsticks as they ship.
fn figures(policies: Policies) -> Vec<Figures> {
    let scope = scope();
    let shipped: Vec<_> = yardsticks::all().into_iter().filter(|one| one.shipped).collect();
    let mut rules = vec![rules::rule("judged", policies)];
    rules.extend(shipped.iter().cloned().map(Rule::Yardstick));
    let run = |name: &'static str| {
        let all = cases();
        let case = all.iter().find(|case| case.name == name).expect("a case");
        let done = outcomes(&scope, (case, Slice::Held), &rules).unwrap_or_else(|error| panic!("{error}"));
        Figures {
            case: name,
            own: done[0],
            rivals: shipped
                .iter()
                .map(|one| one.family)
                .zip(done[1..].iter().copied())
                .collect(),
        }
    };
    CASES.map(run).into()
}

/// What does not hold of these figures.
fn problems(all: &[Figures]) -> String {
    let mut found = String::new();
    let mut near = 0;
    for figures in all {
        let (case, own) = (figures.case, &figures.own);
        let times = own.ttft_p90 / figures.least_p90();
        near += usize::from(times <= 1.15);
        if times > 1.3 {
            let _ = writeln!(
                found,
                "{case}: p90 TTFT is {times:.2} times that of the best yardstick"
            );
        }
        if own.hits < figures.most_hits() - 0.15 {
            let _ = writeln!(
                found,
                "{case}: hits {:.2}, of the best {:.2}",
                own.hits,
                figures.most_hits()
            );
        }
        let plain = figures.of(LEAST_INFLIGHT);
        if own.ttft_p90 > plain.ttft_p90 * 1.1 || own.goodput < plain.goodput * 0.9 {
            let _ = writeln!(found, "{case}: worse than least in-flight: {own:?} {plain:?}");
        }
        if own.lost > 0.0 {
            let _ = writeln!(found, "{case}: {:.1} % are lost", own.lost * 100.0);
        }
    }
    if near * 2 < all.len() {
        let _ = writeln!(
            found,
            "p90 TTFT is near that of the best yardstick in {near} of {} cases",
            all.len()
        );
    }
    found
}

#[test]
fn auto_is_among_the_best_and_never_behind_the_least_in_flight() {
    let figures = figures(Preset::Auto.policies());
    for one in &figures {
        println!(
            "{}: p90 {:.3} s, best {:.3} s, goodput {:.3}, hits {:.2}",
            one.case,
            one.own.ttft_p90,
            one.least_p90(),
            one.own.goodput,
            one.own.hits
        );
    }
    let problems = problems(&figures);
    assert!(problems.is_empty(), "\n{problems}");
    let shared = figures.iter().find(|one| one.case == "system prompts").unwrap();
    let turn = shared.of(ROUND_ROBIN);
    assert!(
        shared.own.ttft_p50 * 5.0 < turn.ttft_p50,
        "{:?} {turn:?}",
        shared.own
    );
}

#[test]
fn round_robin_in_its_place_does_not_pass() {
    let problems = problems(&figures(Policies::default()));
    for what in [
        "system prompts: p90 TTFT is",
        "system prompts: hits",
        "worse than least in-flight",
        "p90 TTFT is near that of the best yardstick in",
    ] {
        assert!(problems.contains(what), "{what:?} is not found in\n{problems}");
    }
}

/// All presets with these policies in the place of theirs, on short forms of the cases that presets are for.
fn presets(instead: &dyn Fn(Preset) -> Policies) -> Vec<Beside> {
    let mut scope = scope();
    // One eighth of a case says little alone.
    scope.seeds = vec![1, 2, 3];
    let rules = Preset::ALL.map(|preset| rules::rule(preset.as_str(), instead(preset)));
    let run = |case: &Case| {
        let done = outcomes(&scope, (case, Slice::Held), &rules)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let entries = rules.iter().zip(done).map(|(rule, outcome)| Entry {
            rule: rule.name(),
            family: None,
            settings: String::new(),
            shipped: true,
            told: false,
            picked: Picked::default(),
            tuned: outcome,
            held: Some(outcome),
        });
        Contest {
            clairvoyant: None,
            case: case.name.to_owned(),
            shared: case.shared,
            replicas: case.replicas,
            floors: None,
            entries: entries.collect(),
        }
    };
    beside(&Evidence {
        contests: cases()
            .iter()
            .filter(|case| PRESET_CASES.contains(&case.name))
            .map(run)
            .collect(),
        closed_loop: Some(run(&closed_loop())),
        ..Evidence::default()
    })
}

/// Those that presets are for, but for the closed loop.
const PRESET_CASES: [&str; 6] = [
    "mooncake",
    "azure",
    "agents",
    "chat and batch",
    "bursts",
    "an engine dies",
];
/// By how much a preset may be behind another in little; in whole cases it is a third of that.
const BEHIND: f64 = 0.15;

#[test]
fn presets_are_the_best_or_near_it_at_what_they_are_for() {
    let all = presets(&Preset::policies);
    // Two figures of two cases for chats and agents, two of one for batches, one of two for latency.
    assert_eq!(all.len(), 12, "{all:?}");
    let behind: Vec<&str> = all
        .iter()
        .filter(|one| one.is_more_than(BEHIND))
        .map(|one| one.says.as_str())
        .collect();
    assert!(behind.is_empty(), "{behind:#?}");
}

#[test]
fn one_preset_in_the_place_of_another_is_not() {
    // Packed engines make chats wait, and engines that are packed with all they bear give fewer tokens.
    let all = presets(&|preset| match preset {
        Preset::Chat => Preset::Batch.policies(),
        Preset::Batch => Policies {
            batch_packing: Some(batch_packing::Config::default()),
            ..Policies::default()
        },
        other => other.policies(),
    });
    let behind: Vec<&str> = all
        .iter()
        .filter(|one| one.is_more_than(BEHIND))
        .map(|one| one.says.as_str())
        .collect();
    for what in [
        "`chat` in chat and batch, p90 TTFT",
        "`batch` in closed loop, tokens/s",
    ] {
        assert!(
            behind.iter().any(|says| says.starts_with(what)),
            "{what:?} is not found in {behind:#?}"
        );
    }
}

#[test]
fn without_data_it_says_what_is_missing_and_where_it_belongs() {
    let mut scope = scope();
    scope.bench.data = PathBuf::from("no-such-folder");
    let rules = [rules::rule("auto", Preset::Auto.policies())];
    let error = outcomes(&scope, (&cases()[0], Slice::Held), &rules)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no-such-folder") && error.contains("WEIGHBRIDGE_DATA"),
        "{error}"
    );
}
