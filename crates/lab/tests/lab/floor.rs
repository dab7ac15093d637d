//! Parts of all cases: no rule is faster than the floor, and the floor is not far below what an engine at rest does.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use weighbridge_core::presets::Preset;
use weighbridge_lab::floor::Floor;
use weighbridge_lab::rules;
use weighbridge_lab::trial::{Rule, Stage};
use weighbridge_lab::workloads::{Bench, Case, Slice, cases, closed_loop};
use weighbridge_lab::yardsticks;
use weighbridge_sim::outcome::{Fate, Record, Run};
use weighbridge_sim::parallel;

/// A part of what the quick form of the lab runs, since this is all cases and all rules.
const CUT: u32 = 16;

/// The time to the first token of an answered request.
fn took(record: &Record) -> Option<Duration> {
    let first = record.first.filter(|_| record.fate == Fate::Answered)?;
    Some(first - record.arrived)
}

/// Holds a run against the floors, request by request and in figures; gives the least ratio of a request's time to its floor.
fn least_ratio(run: &Run, floors: &[Option<Duration>], who: &str) -> f64 {
    let (mut least, mut times, mut bounds) = (f64::INFINITY, Vec::new(), Vec::new());
    for (place, (record, floor)) in run.records.iter().zip(floors).enumerate() {
        let Some(took) = took(record) else { continue };
        let floor = floor.unwrap_or_else(|| panic!("{who}: request {place} was answered and has no floor"));
        assert!(
            floor <= took,
            "{who}: request {place} took {took:?}, its floor is {floor:?}"
        );
        least = least.min(took.as_secs_f64() / floor.as_secs_f64());
        times.push(took);
        bounds.push(floor);
    }
    let (floor, measured) = (Floor::of(bounds.into_iter()), Floor::of(times.into_iter()));
    assert!(
        floor.ttft_mean <= measured.ttft_mean && floor.ttft_p90 <= measured.ttft_p90,
        "{who}: {measured:?} is below {floor:?}"
    );
    least
}

fn least_ratio_in(case: &Case) -> f64 {
    let data = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let bench = Bench {
        cut: CUT,
        ..Bench::whole(&data)
    };
    let stage = Stage::new(case, &bench, (Slice::Held, 1)).unwrap_or_else(|error| panic!("{error}"));
    let floors = stage.floors();
    let mut all = vec![rules::rule(rules::AUTO, Preset::Auto.policies())];
    let shipped = yardsticks::all().into_iter().filter(|one| one.shipped);
    all.extend(shipped.map(Rule::Yardstick));
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let ratios = parallel::in_order(threads, &all, |rule| {
        let who = format!("{}: {}", case.name, rule.name());
        let run = stage
            .records(rule)
            .unwrap_or_else(|error| panic!("{who}: {error}"));
        least_ratio(&run, &floors, &who)
    });
    ratios.into_iter().fold(f64::INFINITY, f64::min)
}

#[test]
fn no_rule_is_faster_than_the_floor_and_some_request_meets_it_in_every_case() {
    for case in cases().into_iter().chain([closed_loop()]) {
        let ratio = least_ratio_in(&case);
        println!("{}: {ratio:.4}", case.name);
        assert!(ratio < 1.02, "{}: {ratio}", case.name);
    }
}
