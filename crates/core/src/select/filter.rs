//! The filters: protocol, place, state, capacity, tried, order.

use super::{Query, Scratch};
use crate::explain::Dropped;
use crate::requests::Tried;
use crate::route::Candidate;
use crate::view::StateKind;

/// Fills `dropped`, `order` and `live`. True if a filter other than state and capacity took a whole target away, which
/// puts the request outside the count of shares. `keeps_full`: a target that is full everywhere keeps its turn, so
/// its order serves.
pub(super) fn run(query: &Query<'_>, scratch: &mut Scratch, keeps_full: bool) -> bool {
    let plan = query.plan;
    for candidate in &plan.candidates {
        scratch.dropped.push(reason(query, candidate));
    }
    let mut order = u16::MAX;
    let mut outside = query.only.is_some();
    for target in &plan.targets {
        outside |= !target.protocols.serves(query.protocols);
        let reasons = &scratch.dropped[target.candidates.clone()];
        if target.order < order && (reasons.iter().any(Option::is_none) || (keeps_full && is_full(reasons))) {
            order = target.order;
        }
    }
    scratch.order = if order == u16::MAX { 0 } else { order };
    for target in &plan.targets {
        for place in target.candidates.clone() {
            if scratch.dropped[place].is_some() {
                continue;
            }
            if target.order == order {
                scratch.live.push(place);
            } else {
                scratch.dropped[place] = Some(Dropped::LaterOrder);
            }
        }
    }
    outside
}

/// Whether a target of the serving order is full everywhere.
pub(super) fn any_full_target(query: &Query<'_>, scratch: &Scratch) -> bool {
    (query.plan.targets.iter())
        .any(|target| target.order == scratch.order && is_full(&scratch.dropped[target.candidates.clone()]))
}

/// Whether nothing of a target is live, and not for want of health alone.
pub(super) fn is_full(reasons: &[Option<Dropped>]) -> bool {
    reasons.contains(&Some(Dropped::Capacity)) && reasons.iter().all(Option::is_some)
}

/// Whether any candidate of the route can take the request now.
pub(crate) fn any_live(query: &Query<'_>) -> bool {
    (query.plan.candidates.iter()).any(|candidate| reason(query, candidate).is_none())
}

/// Why a candidate can't be chosen.
#[inline]
fn reason(query: &Query<'_>, candidate: &Candidate) -> Option<Dropped> {
    let target = &query.plan.targets[usize::from(candidate.target)];
    if !target.protocols.serves(query.protocols) {
        return Some(Dropped::Protocol);
    }
    if query.is_elsewhere(candidate.endpoint) {
        return Some(Dropped::Elsewhere);
    }
    let Some(endpoint) = query.endpoint(candidate.endpoint) else {
        return Some(Dropped::State(StateKind::Draining));
    };
    if target.weight == 0 {
        return Some(Dropped::State(StateKind::Draining));
    }
    match endpoint.blocked(query.now) {
        Some(StateKind::Full) => Some(Dropped::Capacity),
        Some(kind) => Some(Dropped::State(kind)),
        // Not all of its keys cool, so one is free.
        None if query.tried.is_empty() && query.only.is_none() => None,
        None if key(query, candidate).is_some() => None,
        // Its one key that may be used cools, though others do not.
        None if query.tried.is_empty() => Some(Dropped::State(StateKind::Cooling)),
        None => Some(Dropped::Tried),
    }
}

/// The upstream key to use there: next in rotation, not cooling, not tried for this request.
pub(super) fn key(query: &Query<'_>, candidate: &Candidate) -> Option<u16> {
    let endpoint = query.endpoint(candidate.endpoint)?;
    let is_tried = |key| {
        let here = |tried: &&Tried| tried.endpoint == candidate.endpoint;
        (query.tried.iter().filter(here)).any(|tried| tried.key.is_none_or(|used| used == key))
    };
    let wanted = query.only.and_then(|only| only.key);
    let is_barred = |key| wanted.is_some_and(|wanted| wanted != key) || is_tried(key);
    endpoint.cooling.pick(query.now, is_barred)
}
