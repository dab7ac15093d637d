//! When nothing is live: wait, fail open, or give up.

use super::{Choice, Kind, Query, Refusal, Scratch, Take, Turns, UNKNOWN_RETURN, filter};
use crate::endpoint::Return;
use crate::explain::Dropped;
use crate::rng::Rng;
use crate::time::Time;
use crate::view::StateKind;
use smallvec::SmallVec;
use std::time::Duration;

/// Decides among candidates of which none is live.
pub(super) fn choose(query: &Query<'_>, scratch: &mut Scratch, rng: &mut Rng) -> Choice {
    // A target without any endpoint may have one soon, so it is the targets that tell.
    let mut targets = query.plan.targets.iter();
    if !targets.any(|target| target.protocols.serves(query.protocols)) {
        return Choice::Refuse(Refusal::Unserved);
    }
    if let Some(unfit) = filter::unfit(query, scratch) {
        return Choice::Refuse(Refusal::Unfit(unfit));
    }
    let may_open = match query.kind {
        Kind::First | Kind::Fallback => true,
        Kind::Retry { open } => open,
    };
    if may_open && let Some(take) = fail_open(query, scratch, rng) {
        return Choice::Take(take);
    }
    if matches!(query.kind, Kind::Retry { .. }) {
        return Choice::Refuse(Refusal::Exhausted);
    }
    let (mut cooling, mut full, mut other) = (false, false, false);
    for reason in &scratch.dropped {
        match reason {
            Some(Dropped::State(StateKind::Cooling)) => cooling = true,
            Some(Dropped::Capacity) => full = true,
            Some(
                Dropped::Protocol | Dropped::Tried | Dropped::Elsewhere | Dropped::State(StateKind::Draining),
            ) => {}
            Some(why) if why.is_unfit() => {}
            _ => other = true,
        }
    }
    let wait = soonest_return(query).unwrap_or(UNKNOWN_RETURN);
    Choice::Refuse(match (cooling || full, other) {
        // A slot may be free at any moment.
        (true, false) if full => Refusal::Busy(wait.min(UNKNOWN_RETURN)),
        (true, false) => Refusal::Busy(wait),
        _ => Refusal::Unavailable(wait),
    })
}

/// The candidate that is back soonest, of those whose pool fails open: ejected, open, unhealthy or stalled. Equals:
/// earlier order, fewer in flight, chance.
fn fail_open(query: &Query<'_>, scratch: &Scratch, rng: &mut Rng) -> Option<Take> {
    let mut best: Option<(Time, u16, u32)> = None;
    let mut equals: SmallVec<[(usize, u16); 8]> = SmallVec::new();
    for (place, candidate) in query.plan.candidates.iter().enumerate() {
        let target = &query.plan.targets[usize::from(candidate.target)];
        let sick = matches!(
            scratch.dropped[place],
            Some(Dropped::State(
                StateKind::Ejected | StateKind::Open | StateKind::Unhealthy | StateKind::Stalled
            ))
        );
        if !sick || !target.fail_open {
            continue;
        }
        let (Some(endpoint), Some(key)) = (query.endpoint(candidate.endpoint), filter::key(query, candidate))
        else {
            continue;
        };
        let back = match endpoint.returns(query.now) {
            Return::Now => query.now,
            Return::At(at) => at,
            Return::Unknown => Time::NEVER,
        };
        let rank = (back, target.order, endpoint.inflight);
        if best.is_none_or(|least| rank < least) {
            best = Some(rank);
            equals.clear();
        }
        if best == Some(rank) {
            equals.push((place, key));
        }
    }
    let (candidate, key) = *equals.get(rng.below(equals.len()))?;
    Some(Take {
        candidate,
        key,
        cached: 0,
        live: None,
        runner_up: None,
        tie: equals.len() > 1,
        session_moved: false,
        turns: Turns::default(),
    })
}

/// When the first candidate of the route is back, of those that time alone brings back. None if one can take requests
/// now, or if nothing is known.
pub(crate) fn soonest_return(query: &Query<'_>) -> Option<Duration> {
    let mut soonest: Option<Time> = None;
    let fitting = filter::fitting(query);
    for (place, candidate) in query.plan.candidates.iter().enumerate() {
        let target = &query.plan.targets[usize::from(candidate.target)];
        if target.weight == 0
            || !target.protocols.serves(query.protocols)
            || query.is_elsewhere(candidate.endpoint)
            || fitting.as_ref().is_some_and(|fitting| !fitting[place])
        {
            continue;
        }
        match query
            .endpoint(candidate.endpoint)
            .map(|endpoint| endpoint.returns(query.now))
        {
            Some(Return::Now) => return None,
            Some(Return::At(at)) => soonest = Some(soonest.map_or(at, |other| other.min(at))),
            Some(Return::Unknown) | None => {}
        }
    }
    soonest.map(|at| at.since(query.now))
}
