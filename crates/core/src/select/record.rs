//! What is told of a decision: the compact record always, every candidate on demand. Both come from the same scored
//! candidates.

use super::{Query, Scratch, Take};
use crate::explain::{Decision, Dropped, Explained, Explanation, Part, PolicyName, Reckoned, RunnerUp};
use crate::policies::Candidates;
use smallvec::SmallVec;

/// The compact record; none taken: nothing could be chosen.
pub(crate) fn decision(query: &Query<'_>, scratch: &Scratch, take: Option<&Take>) -> Decision {
    let mut dropped: SmallVec<[(Dropped, u32); 4]> = SmallVec::new();
    for reason in scratch.dropped.iter().flatten() {
        match dropped.iter_mut().find(|(known, _)| known == reason) {
            Some((_, count)) => *count += 1,
            None => dropped.push((*reason, 1)),
        }
    }
    let live = take.and_then(|take| take.live);
    let failed_open = take.is_some_and(|take| take.live.is_none());
    let order = match take {
        Some(take) if failed_open => {
            let target = query.plan.candidates[take.candidate].target;
            query.plan.targets[usize::from(target)].order
        }
        _ => scratch.order,
    };
    Decision {
        route_by: query.plan.route_by,
        order,
        candidates: u32::try_from(query.plan.candidates.len()).unwrap_or(u32::MAX),
        live: u32::try_from(scratch.live.len()).unwrap_or(u32::MAX),
        picker: query.plan.picker,
        dropped,
        tie: take.is_some_and(|take| take.tie),
        total: live
            .and_then(|place| scratch.totals.get(place).copied())
            .unwrap_or(0.0),
        factor: live.map_or(1.0, |place| factor(scratch, place)),
        parts: live
            .map(|place| parts(query, scratch, place).collect())
            .unwrap_or_default(),
        runner_up: take
            .and_then(|take| take.runner_up)
            .map(|place| runner_up(query, scratch, place)),
        abstained: (scratch.abstained.iter())
            .map(|(name, why)| ((*name).into(), *why))
            .collect(),
        session_moved: take.is_some_and(|take| take.session_moved),
        failed_open,
    }
}

/// Every candidate, in full.
pub(crate) fn explanation(query: &Query<'_>, scratch: &Scratch, take: Option<&Take>) -> Explanation {
    let known = Candidates {
        penalties: &scratch.penalties,
        cached: &scratch.cached,
        ..query.candidates(&scratch.live)
    };
    let mut live = scratch.live.iter().enumerate().peekable();
    let candidates = (query.plan.candidates.iter().enumerate())
        .map(|(place, candidate)| {
            let among_live = live.next_if(|(_, index)| **index == place).map(|(at, _)| at);
            Explained {
                target: candidate.target,
                endpoint: candidate.endpoint,
                inflight: query
                    .endpoint(candidate.endpoint)
                    .map_or(0, |endpoint| endpoint.inflight),
                penalty: among_live
                    .and_then(|at| scratch.penalties.get(at).copied())
                    .unwrap_or(0.0),
                dropped: scratch.dropped[place],
                parts: among_live
                    .map(|at| parts(query, scratch, at).collect())
                    .unwrap_or_default(),
                reckoned: among_live
                    .map(|at| reckoned(query, scratch, (&known, at)))
                    .unwrap_or_default(),
                factor: among_live.map_or(1.0, |at| factor(scratch, at)),
                total: among_live
                    .and_then(|at| scratch.totals.get(at).copied())
                    .unwrap_or(0.0),
            }
        })
        .collect();
    Explanation {
        decision: decision(query, scratch, take),
        winner: take.map(|take| take.candidate),
        refused: None,
        candidates,
    }
}

/// What the policies that scored went by for the live candidate at `place`, of those that say so.
fn reckoned(
    query: &Query<'_>,
    scratch: &Scratch,
    (known, place): (&Candidates<'_>, usize),
) -> Vec<(PolicyName, Reckoned)> {
    let scored = scratch
        .scored
        .iter()
        .map(|scored| &query.plan.scorers[scored.policy]);
    scored
        .filter_map(|policy| {
            let reckoned = policy.scorer.reckoned(&query.facts, known, place)?;
            Some((policy.name.into(), reckoned))
        })
        .collect()
}

fn runner_up(query: &Query<'_>, scratch: &Scratch, place: usize) -> RunnerUp {
    let candidate = &query.plan.candidates[scratch.live[place]];
    RunnerUp {
        target: candidate.target,
        endpoint: candidate.endpoint,
        total: scratch.totals[place],
        factor: factor(scratch, place),
        parts: parts(query, scratch, place).collect(),
    }
}

/// By what modifiers multiplied the total of the live candidate at `place`.
fn factor(scratch: &Scratch, place: usize) -> f64 {
    scratch.factors.get(place).copied().unwrap_or(1.0)
}

/// What each policy that scored gave the live candidate at `place`.
fn parts(query: &Query<'_>, scratch: &Scratch, place: usize) -> impl Iterator<Item = Part> {
    let count = scratch.live.len();
    scratch.scored.iter().enumerate().map(move |(row, scored)| {
        let policy = &query.plan.scorers[scored.policy];
        let raw = scratch.raw[row * count + place];
        let share = raw / scored.sum;
        Part {
            policy: policy.name.into(),
            raw,
            share,
            weighted: policy.weight * share,
        }
    })
}
