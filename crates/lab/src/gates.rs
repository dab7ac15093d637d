//! What the preset `auto` must reach, as numbers; what the others must, is told where their purposes are (`evidence/presets.rs`).

use crate::capacity::Capacity;
use crate::contest::{Contest, Entry};
use crate::numbers::change;
use crate::rules::{AUTO, LEAST_INFLIGHT};
use crate::trial::Outcome;
use crate::workloads::Slice;
use serde::{Deserialize, Serialize};

/// By how much a rival must be better to count as better.
const BETTER: f64 = 0.02;
/// Workloads of twelve on which no rival may be.
const WORKLOADS: [usize; 2] = [8, 12];
/// Share of the best rival's mean time to the first token that may be left.
const MEAN: f64 = 0.7;
/// Workloads on which it must be that small.
const MEAN_WORKLOADS: usize = 2;
/// By how much `auto` may be worse than least in-flight.
const WORSE: f64 = 0.05;
/// How many times smaller its median must be than round robin's.
const TIMES: f64 = 10.0;

/// Something that `auto` must reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// What is asked; no two gates ask the same.
    pub asks: String,
    /// What was measured.
    pub measured: String,
    /// Whether it is reached.
    pub met: bool,
}

/// What stands as measured where nothing was run that a gate could be judged on.
const NOTHING: &str = "nothing that it asks about was run";

impl Gate {
    /// The same, if it was judged on anything at all.
    fn on_something(self, any: bool) -> Self {
        match any {
            true => self,
            false => Self {
                measured: NOTHING.to_owned(),
                met: false,
                ..self
            },
        }
    }

    /// What the lab says of it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.met {
            true => "met",
            false if self.measured == NOTHING => "not judged",
            false => "**missed**",
        }
    }
}

/// All gates.
#[must_use]
pub fn gates(contests: &[Contest], capacities: &[Capacity]) -> Vec<Gate> {
    let mut gates = Vec::new();
    for slice in [Slice::Held, Slice::Tuned] {
        gates.push(nobody_better(contests, slice));
    }
    for slice in [Slice::Held, Slice::Tuned] {
        gates.push(mean(contests, slice));
    }
    gates.push(never_worse(contests));
    gates.extend(capacities.iter().map(median));
    gates
}

/// What is committed as met among `before` and is not any more.
#[must_use]
pub fn lost<'a>(before: &[Gate], now: &'a [Gate]) -> Vec<&'a Gate> {
    let was = |gate: &Gate| before.iter().any(|old| old.asks == gate.asks && old.met);
    now.iter().filter(|gate| !gate.met && was(gate)).collect()
}

/// The product's `auto` in a case.
fn auto(contest: &Contest, slice: Slice) -> Option<&Outcome> {
    contest.product(AUTO)?.on(slice)
}

/// Yardsticks that are more than 2 % better than `auto` on the 90th percentile and on goodput, and those that are on one of them.
#[must_use]
pub fn better(contest: &Contest, slice: Slice) -> (Vec<&Entry>, Vec<&Entry>) {
    let Some(auto) = auto(contest, slice) else {
        return (Vec::new(), Vec::new());
    };
    let (mut both, mut either) = (Vec::new(), Vec::new());
    for entry in contest.yardsticks() {
        let Some(outcome) = entry.on(slice) else { continue };
        let sooner = outcome.ttft_p90 < auto.ttft_p90 * (1.0 - BETTER);
        let more = outcome.goodput > auto.goodput * (1.0 + BETTER);
        if sooner && more {
            both.push(entry);
        }
        if sooner || more {
            either.push(entry);
        }
    }
    (both, either)
}

/// Workloads and whether something holds in all cases of each; cases with several gateways are one workload.
fn workloads(contests: &[Contest], holds: impl Fn(&Contest) -> bool) -> Vec<(&str, bool)> {
    let mut all: Vec<(&str, bool)> = Vec::new();
    for contest in contests {
        let name = match contest.replicas {
            1 => contest.case.as_str(),
            _ => "2 and 8 gateways",
        };
        let held = holds(contest);
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, both)) => *both &= held,
            None => all.push((name, held)),
        }
    }
    all
}

fn nobody_better(contests: &[Contest], slice: Slice) -> Gate {
    let on_both = workloads(contests, |contest| better(contest, slice).0.is_empty());
    let on_either = workloads(contests, |contest| better(contest, slice).1.is_empty());
    let count = |all: &[(&str, bool)]| all.iter().filter(|(_, held)| *held).count();
    let missed: Vec<_> = on_both
        .iter()
        .filter(|(_, held)| !held)
        .map(|(name, _)| *name)
        .collect();
    let [needed, of] = WORKLOADS;
    let measured = format!(
        "{} of {}{}; on {} nobody is on even one of the two",
        count(&on_both),
        on_both.len(),
        match missed.is_empty() {
            true => String::new(),
            false => format!(", not on {}", missed.join(", ")),
        },
        count(&on_either)
    );
    Gate {
        asks: format!(
            "No yardstick is more than 2 % better on both p90 TTFT and goodput, on {needed} of {of} workloads ({})",
            said(slice)
        ),
        measured,
        met: count(&on_both) * of >= needed * on_both.len() && !on_both.is_empty(),
    }
    .on_something(contests.iter().any(|contest| beside_rivals(contest, slice)))
}

/// Whether `auto` and a yardstick were tried in this case.
fn beside_rivals(contest: &Contest, slice: Slice) -> bool {
    auto(contest, slice).is_some() && contest.yardsticks().any(|entry| entry.on(slice).is_some())
}

fn said(slice: Slice) -> &'static str {
    match slice {
        Slice::Held => "held out",
        Slice::Tuned => "tuned on, with all of the grid",
    }
}

/// The yardstick with the least mean time to the first token.
#[must_use]
pub fn least_mean(contest: &Contest, slice: Slice) -> Option<(&Entry, f64)> {
    let means = contest
        .yardsticks()
        .filter_map(|entry| Some((entry, entry.on(slice)?.ttft_mean)));
    means.min_by(|(_, one), (_, other)| one.total_cmp(other))
}

fn mean(contests: &[Contest], slice: Slice) -> Gate {
    let share = |contest: &Contest| -> Option<f64> {
        let (_, least) = least_mean(contest, slice)?;
        Some(auto(contest, slice)?.ttft_mean / least)
    };
    let shared: Vec<Contest> = contests
        .iter()
        .filter(|contest| contest.shared)
        .cloned()
        .collect();
    let reached = workloads(&shared, |contest| {
        share(contest).is_some_and(|share| share <= MEAN)
    });
    let reached = reached.iter().filter(|(_, held)| *held).count();
    let mut shares: Vec<(f64, &str)> = shared
        .iter()
        .filter_map(|contest| Some((share(contest)?, contest.case.as_str())))
        .collect();
    shares.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let least = shares.iter().take(3);
    let least: Vec<_> = least
        .map(|(share, case)| format!("{case} {}", change(*share)))
        .collect();
    Gate {
        asks: format!(
            "Mean TTFT is 30 % below the best yardstick's on two workloads with shared prefixes ({})",
            said(slice)
        ),
        measured: format!(
            "on {reached}; the least: {}{}{}",
            least.join(", "),
            out_of_reach(&shared, slice),
            within_knowledge(&shared, slice)
        ),
        met: reached >= MEAN_WORKLOADS,
    }
    .on_something(!shares.is_empty())
}

/// Share of the best rival's mean time to the first token below which no rule comes.
#[must_use]
pub fn least_share(contest: &Contest, slice: Slice) -> Option<f64> {
    let (_, least) = least_mean(contest, slice)?;
    Some(contest.floors?.on(slice).ttft_mean / least)
}

/// The cases in which no rule can be as far below the best rival as is asked, and how far one could be.
fn out_of_reach(contests: &[Contest], slice: Slice) -> String {
    let beyond = contests.iter().filter_map(|contest| {
        let share = least_share(contest, slice).filter(|share| *share > MEAN)?;
        Some(format!("{} ({} at most)", contest.case, change(share)))
    });
    let beyond: Vec<String> = beyond.collect();
    match beyond.is_empty() {
        true => String::new(),
        false => format!(
            "; out of any rule's reach on {}: {}",
            beyond.len(),
            beyond.join(", ")
        ),
    }
}

/// In how many cases a rule that knows all of the present is as far below the best rival as is asked, and how far it is in those
/// where it is farthest.
fn within_knowledge(contests: &[Contest], slice: Slice) -> String {
    let share = |contest: &Contest| {
        let (_, least) = least_mean(contest, slice)?;
        Some(contest.clairvoyant.as_ref()?.on(slice)?.ttft_mean / least)
    };
    let mut shares: Vec<(f64, &str)> = contests
        .iter()
        .filter_map(|contest| Some((share(contest)?, contest.case.as_str())))
        .collect();
    if shares.is_empty() {
        return String::new();
    }
    shares.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let reached = shares.iter().filter(|(share, _)| *share <= MEAN).count();
    let least: Vec<_> = shares
        .iter()
        .take(2)
        .map(|(share, case)| format!("{case} {}", change(*share)))
        .collect();
    format!(
        "; whoever knows all of the present reaches it on {reached}: the least {}",
        least.join(", ")
    )
}

/// By what share `auto` is worse than least in-flight: the larger of both figures, with which it is.
fn worse(contest: &Contest, slice: Slice) -> Option<(f64, &'static str)> {
    let auto = auto(contest, slice)?;
    let plain = contest
        .yardsticks()
        .find(|entry| entry.family.as_deref() == Some(LEAST_INFLIGHT))?;
    let plain = plain.on(slice)?;
    let later = auto.ttft_p90 / plain.ttft_p90 - 1.0;
    let fewer = match plain.goodput > 0.0 {
        true => 1.0 - auto.goodput / plain.goodput,
        false => 0.0,
    };
    Some(match later >= fewer {
        true => (later, "p90 TTFT"),
        false => (fewer, "goodput"),
    })
}

fn never_worse(contests: &[Contest]) -> Gate {
    let mut all = Vec::new();
    for slice in Slice::BOTH {
        for contest in contests {
            let Some((by, figure)) = worse(contest, slice) else {
                continue;
            };
            all.push((
                by,
                format!(
                    "{} ({}, {figure}) {}",
                    contest.case,
                    slice.name(),
                    change(1.0 + by)
                ),
            ));
        }
    }
    all.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let missed = all.iter().filter(|(by, _)| *by > WORSE).count();
    let most: Vec<&str> = all
        .iter()
        .take(missed.max(2))
        .map(|(_, says)| says.as_str())
        .collect();
    Gate {
        asks: "Nowhere is it more than 5 % behind least in-flight, in p90 TTFT or in goodput (both slices)"
            .into(),
        measured: format!("{missed} times; the most: {}", most.join(", ")),
        met: missed == 0 && !all.is_empty(),
    }
    .on_something(!all.is_empty())
}

fn median(capacity: &Capacity) -> Gate {
    let times = capacity.round_robin.ttft_p50 / capacity.auto.ttft_p50;
    Gate {
        asks: format!(
            "At 80 % load its p50 TTFT is a tenth of round robin's or less ({})",
            capacity.case
        ),
        measured: format!(
            "{:.3} s and {:.3} s at {:.1} requests/s: {times:.1} times",
            capacity.auto.ttft_p50, capacity.round_robin.ttft_p50, capacity.rate
        ),
        met: times >= TIMES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::{Floor, Floors};
    use crate::tuning::samples::{self, entry};

    /// A case with `auto` and the rivals; figures: p90, mean, goodput.
    fn contest(case: &str, auto: [f64; 3], rivals: &[(&str, [f64; 3])]) -> Contest {
        let mut entries = vec![entry(("", AUTO), auto)];
        entries.extend(
            rivals
                .iter()
                .map(|(family, figures)| entry((family, family), *figures)),
        );
        samples::contest(case, entries)
    }

    #[test]
    fn only_who_is_better_on_both_counts_as_better() {
        let auto = [1.0, 1.0, 0.8];
        let rivals = [
            ("sooner", [0.5, 1.0, 0.8]),
            ("more", [1.0, 1.0, 0.9]),
            ("by 2 %", [0.98, 1.0, 0.816]),
            ("both", [0.979, 1.0, 0.817]),
        ];
        let one = contest("x", auto, &rivals);
        let names = |entries: Vec<&Entry>| entries.iter().map(|entry| entry.rule.clone()).collect::<Vec<_>>();
        let (both, either) = better(&one, Slice::Held);
        assert_eq!(names(both), ["both"]);
        assert_eq!(names(either), ["sooner", "more", "both"]);
    }

    #[test]
    fn on_the_slice_that_was_held_out_only_those_count_that_were_tried_there() {
        let mut one = contest("x", [1.0, 1.0, 0.8], &[("both", [0.5, 1.0, 0.9])]);
        one.entries[1].held = None;
        assert!(better(&one, Slice::Held).0.is_empty());
        assert_eq!(better(&one, Slice::Tuned).0.len(), 1);
    }

    #[test]
    fn eight_of_twelve_workloads_are_enough_and_seven_are_not() {
        let auto = [1.0, 1.0, 0.5];
        let cases = |lost: usize| -> Vec<Contest> {
            let case = |at: usize| {
                let rival = if at < lost {
                    [0.5, 1.0, 0.9]
                } else {
                    [1.0, 1.0, 0.5]
                };
                contest(&format!("case {at}"), auto, &[("rival", rival)])
            };
            (0..12).map(case).collect()
        };
        let gate = nobody_better(&cases(4), Slice::Held);
        assert!(gate.met, "{gate:?}");
        assert!(
            gate.measured
                .starts_with("8 of 12, not on case 0, case 1, case 2, case 3"),
            "{gate:?}"
        );
        assert!(!nobody_better(&cases(5), Slice::Held).met);
        assert!(!nobody_better(&[], Slice::Held).met, "nothing was run");
    }

    #[test]
    fn several_gateways_are_one_workload_that_holds_where_both_cases_do() {
        let auto = [1.0, 1.0, 0.5];
        let mut cases = vec![
            contest("2 gateways", auto, &[("rival", [1.0, 1.0, 0.5])]),
            contest("8 gateways", auto, &[("rival", [0.5, 1.0, 0.9])]),
        ];
        cases[0].replicas = 2;
        cases[1].replicas = 8;
        let held = workloads(&cases, |contest| better(contest, Slice::Held).0.is_empty());
        assert_eq!(held, [("2 and 8 gateways", false)]);
    }

    #[test]
    fn the_mean_is_held_against_the_best_of_all_rivals() {
        let cases = |mean: f64| {
            let rivals = [("slow", [1.0, 9.0, 0.5]), ("best", [1.0, 1.0, 0.5])];
            ["a", "b"].map(|case| contest(case, [1.0, mean, 0.5], &rivals))
        };
        let gate = mean(&cases(0.7), Slice::Held);
        assert!(gate.met);
        assert_eq!(gate.measured, "on 2; the least: a −30 %, b −30 %");
        assert!(!mean(&cases(0.71), Slice::Held).met);
        assert!(!mean(&cases(0.7)[..1], Slice::Held).met, "one is not enough");
        let mut alone = cases(0.7);
        alone[0].shared = false;
        assert!(!mean(&alone, Slice::Held).met, "only shared prefixes count");
    }

    #[test]
    fn the_mean_s_gate_names_the_cases_in_which_no_rule_can_reach_it() {
        let floors = |ttft_mean| {
            let floor = Floor {
                ttft_mean,
                ttft_p90: 0.0,
            };
            let held = Floor::default();
            Some(Floors { tuned: floor, held })
        };
        let rivals = [("slow", [1.0, 9.0, 0.5]), ("best", [1.0, 1.0, 0.5])];
        let mut cases = ["a", "b", "c"].map(|case| contest(case, [1.0, 0.95, 0.5], &rivals));
        cases[0].floors = floors(0.71);
        cases[1].floors = floors(0.69);
        let measured = |slice| mean(&cases, slice).measured;
        let all = "on 0; the least: a −5.0 %, b −5.0 %, c −5.0 %";
        assert_eq!(
            measured(Slice::Tuned),
            format!("{all}; out of any rule's reach on 1: a (−29 % at most)")
        );
        assert_eq!(measured(Slice::Held), all);
    }

    #[test]
    fn the_mean_s_gate_says_what_knowing_everything_would_bring() {
        let rivals = [("slow", [1.0, 9.0, 0.5]), ("best", [1.0, 1.0, 0.5])];
        let mut cases = ["a", "b", "c"].map(|case| contest(case, [1.0, 0.95, 0.5], &rivals));
        cases[0].clairvoyant = Some(entry(("clairvoyant", "clairvoyant"), [1.0, 0.8, 0.5]));
        cases[2].clairvoyant = Some(entry(("clairvoyant", "clairvoyant"), [1.0, 0.7, 0.5]));
        assert_eq!(
            mean(&cases, Slice::Held).measured,
            "on 0; the least: a −5.0 %, b −5.0 %, c −5.0 %; \
             whoever knows all of the present reaches it on 1: the least c −30 %, a −20 %"
        );
        assert!(!mean(&cases, Slice::Held).met, "it is not `auto`");
    }

    #[test]
    fn neither_figure_may_be_worse_than_least_in_flight() {
        let case = |auto| [contest("x", auto, &[(LEAST_INFLIGHT, [1.0, 1.0, 0.8])])];
        assert!(never_worse(&case([1.049, 1.0, 0.8])).met);
        assert!(never_worse(&case([1.0, 1.0, 0.761])).met);
        assert!(!never_worse(&case([1.06, 1.0, 0.9])).met);
        let gate = never_worse(&case([0.5, 1.0, 0.75]));
        assert!(!gate.met);
        assert!(gate.measured.contains("x (tuned on, goodput) +6.2 %"), "{gate:?}");
        assert!(!never_worse(&[]).met, "nothing was run");
    }

    #[test]
    fn what_nothing_was_run_for_is_not_judged() {
        let words = |cases: &[Contest]| -> Vec<&'static str> {
            let gates = gates(cases, &[]);
            gates.iter().map(Gate::word).collect()
        };
        let auto = [1.0, 1.0, 0.8];
        assert_eq!(words(&[]), ["not judged"; 5]);
        assert_eq!(
            words(&[contest("x", auto, &[])]),
            ["not judged"; 5],
            "`auto` alone"
        );
        let beside = words(&[contest("x", auto, &[("soon", [0.5, 0.5, 0.9])])]);
        let missed = "**missed**";
        assert_eq!(
            beside,
            [missed, missed, missed, missed, "not judged"],
            "no least in-flight"
        );
    }

    #[test]
    fn the_median_must_be_a_tenth() {
        let capacity = |auto: f64| Capacity {
            case: "x".into(),
            most: 1.0,
            rate: 20.0,
            auto: Outcome {
                ttft_p50: auto,
                ..Outcome::default()
            },
            round_robin: Outcome {
                ttft_p50: 1.0,
                ..Outcome::default()
            },
        };
        assert!(median(&capacity(0.1)).met);
        assert!(!median(&capacity(0.11)).met);
    }

    #[test]
    fn what_was_met_and_is_not_any_more_is_lost() {
        let gate = |asks: &str, met| Gate {
            asks: asks.into(),
            measured: String::new(),
            met,
        };
        let before = [gate("a", true), gate("b", false), gate("c", true)];
        let now = [
            gate("a", false),
            gate("b", false),
            gate("c", true),
            gate("d", false),
        ];
        assert_eq!(lost(&before, &now), [&now[0]]);
    }
}
