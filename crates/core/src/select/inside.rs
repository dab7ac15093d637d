//! `round_robin` and `weight`: whose turn it is among the targets, and who serves inside the target.

use super::{Choice, Query, Refusal, Scratch, Take, Turns, filter};
use crate::endpoint::MeanFactor;
use crate::spec::Weight;

/// Chooses a target by turns, then an endpoint of it. (`counted`, `keeps_full`): see [`super::choose`].
pub(super) fn choose(query: &Query<'_>, scratch: &mut Scratch, how: (bool, bool)) -> Choice {
    let (counted, keeps_full) = how;
    for (place, target) in (0u32..).zip(&query.plan.targets) {
        let reasons = &scratch.dropped[target.candidates.clone()];
        if target.order == scratch.order
            && (reasons.iter().any(Option::is_none) || (keeps_full && filter::is_full(reasons)))
        {
            scratch.targets.push(place, target.weight);
        }
    }
    let turn = query
        .shares
        .map_or(0, |shares| shares.targets.book(counted).next(&scratch.targets));
    let target = scratch.targets.places.get(turn).copied().unwrap_or(0) as usize;
    let run = run_of(query, scratch, target);
    let mut turns = Turns {
        counted,
        target: Some(turn),
        endpoint: None,
        auto: false,
        last: None,
    };
    let Some(live) = serve(query, scratch, (target, run), &mut turns) else {
        return Choice::Refuse(Refusal::Full(turns));
    };
    let candidate = scratch.live[live];
    let Some(key) = filter::key(query, &query.plan.candidates[candidate]) else {
        return Choice::Refuse(Refusal::Exhausted);
    };
    Choice::Take(Take {
        candidate,
        key,
        cached: 0,
        live: Some(live),
        runner_up: None,
        tie: false,
        session_moved: false,
        turns,
    })
}

/// The live candidates of a target; they stand side by side.
fn run_of(query: &Query<'_>, scratch: &Scratch, target: usize) -> std::ops::Range<usize> {
    let all = &query.plan.targets[target].candidates;
    let first = scratch.live.partition_point(|place| *place < all.start);
    let end = scratch.live.partition_point(|place| *place < all.end);
    first..end
}

/// Chooses inside a target: by turns where any of its endpoints has a weight of its own, else the least busy. None if
/// it has no live candidate. Returns the place among the live ones.
fn serve(
    query: &Query<'_>,
    scratch: &mut Scratch,
    (target, run): (usize, std::ops::Range<usize>),
    turns: &mut Turns,
) -> Option<usize> {
    if run.is_empty() {
        return None;
    }
    let all = query.plan.targets[target].candidates.clone();
    let inside = query.shares.and_then(|shares| shares.inside.get(target));
    let weighted = all.clone().any(|place| {
        let weight = query
            .live_endpoint(place)
            .map(|endpoint| endpoint.effective_weight(query.now));
        weight.is_some_and(|weight| weight != Weight::ONE && weight != Weight::ZERO)
    });
    set_penalties(query, scratch, run.clone());
    let live = if query.plan.targets[target].pool.auto_weight
        && weigh_by_load(query, scratch, (all.clone(), run.clone()))
    {
        let turn = inside.map_or(0, |inside| inside.credits.next(&scratch.endpoints));
        turns.endpoint = Some(turn);
        turns.auto = true;
        run.start + turn
    } else if weighted {
        for place in run.clone() {
            let candidate = scratch.live[place];
            let weight = query.live_endpoint(candidate)?.effective_weight(query.now);
            let inner = u32::try_from(candidate - all.start).unwrap_or(u32::MAX);
            scratch.endpoints.push(inner, weight.0);
        }
        let turn = inside.map_or(0, |inside| {
            inside.endpoints.book(turns.counted).next(&scratch.endpoints)
        });
        turns.endpoint = Some(turn);
        run.start + turn
    } else {
        let last = inside.and_then(|inside| inside.last);
        least_busy(query, scratch, (run, last.map(|last| all.start + last as usize)))?
    };
    let inner = u32::try_from(scratch.live[live] - all.start).unwrap_or(u32::MAX);
    turns.last = Some((u16::try_from(target).unwrap_or(u16::MAX), inner));
    Some(live)
}

/// Fills in the weights of a target's live candidates that follow their load, as they are shown. False if no engine tells
/// anything.
fn weigh_by_load(
    query: &Query<'_>,
    scratch: &mut Scratch,
    (all, run): (std::ops::Range<usize>, std::ops::Range<usize>),
) -> bool {
    let start = all.start;
    let mut mean = MeanFactor::default();
    for endpoint in all.filter_map(|place| query.live_endpoint(place)) {
        mean.add(endpoint, query.now);
    }
    let Some(mean) = mean.get() else {
        return false;
    };
    for place in scratch.live[run].iter().copied() {
        let Some(endpoint) = query.live_endpoint(place) else {
            continue;
        };
        let weight = endpoint.shown_weight(query.now, Some(mean));
        let inner = u32::try_from(place - start).unwrap_or(u32::MAX);
        scratch.endpoints.push(inner, weight.0);
    }
    true
}

/// Fewest (in flight + penalty); among equals the first after the one chosen last.
fn least_busy(
    query: &Query<'_>,
    scratch: &Scratch,
    (run, last): (std::ops::Range<usize>, Option<usize>),
) -> Option<usize> {
    let after = last.map_or(run.start, |last| {
        run.start + scratch.live[run.clone()].partition_point(|place| *place <= last)
    });
    let mut best: Option<(usize, f64)> = None;
    for place in (after..run.end).chain(run.start..after) {
        let endpoint = query.live_endpoint(scratch.live[place])?;
        let busy = f64::from(endpoint.inflight) + scratch.penalties[place];
        if best.is_none_or(|(_, least)| busy < least) {
            best = Some((place, busy));
        }
    }
    best.map(|(place, _)| place)
}

/// Fills the penalties of the live candidates in `run` (0 elsewhere): ramps are measured against the busiest of them.
pub(super) fn set_penalties(query: &Query<'_>, scratch: &mut Scratch, run: std::ops::Range<usize>) {
    scratch.penalties.clear();
    scratch.penalties.resize(scratch.live.len(), 0.0);
    let mut largest = 0;
    let mut ramps = false;
    for place in &scratch.live[run.clone()] {
        if let Some(endpoint) = query.live_endpoint(*place) {
            largest = endpoint.inflight.max(largest);
            ramps |= endpoint.ramp.is_on(query.now);
        }
    }
    if !ramps {
        return;
    }
    for place in run {
        if let Some(endpoint) = query.live_endpoint(scratch.live[place]) {
            scratch.penalties[place] = endpoint.ramp.penalty(query.now, largest);
        }
    }
}
