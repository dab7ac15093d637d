//! The filters: protocol, place, those of the route's catalogue, state, capacity, tried, order.

use super::{Query, Scratch};
use crate::action::Unfit;
use crate::explain::Dropped;
use crate::requests::Tried;
use crate::route::Candidate;
use crate::view::StateKind;
use crate::work::Abilities;
use smallvec::SmallVec;

/// Fills `dropped`, `order` and `live`. True if a filter other than state and capacity took a whole target away, which
/// puts the request outside the count of shares. `keeps_full`: a target that is full everywhere keeps its turn, so
/// its order serves.
pub(super) fn run(query: &Query<'_>, scratch: &mut Scratch, keeps_full: bool) -> bool {
    let plan = query.plan;
    let filters = has_filters(query);
    if filters {
        reasons(query, (&mut scratch.all, &mut scratch.dropped));
    } else {
        for candidate in &plan.candidates {
            scratch.dropped.push(reason(query, candidate));
        }
    }
    let mut order = u16::MAX;
    let mut outside = query.only.is_some();
    for target in &plan.targets {
        outside |= !target.protocols.serves(query.protocols);
        let reasons = &scratch.dropped[target.candidates.clone()];
        outside |= filters && is_unfit(reasons);
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

/// Whether the route's filters have a say. What one endpoint alone holds is asked for there, whatever they say.
fn has_filters(query: &Query<'_>) -> bool {
    !query.plan.filters.is_empty() && query.only.is_none()
}

/// Fills `dropped` where the route has filters; `all` is room for the indexes of its candidates. Hard filters have their say
/// before the state has: a candidate that can never serve the request is not waited for.
fn reasons(query: &Query<'_>, (all, dropped): (&mut Vec<usize>, &mut Vec<Option<Dropped>>)) {
    let plan = query.plan;
    all.clear();
    all.extend(0..plan.candidates.len());
    dropped.extend(plan.candidates.iter().map(|candidate| absent(query, candidate)));
    let candidates = query.candidates(all);
    let (soft, hard): (SmallVec<[_; 4]>, SmallVec<[_; 4]>) =
        plan.filters.iter().partition(|filter| filter.is_soft());
    for filter in hard {
        filter.filter(&query.facts, &candidates, dropped);
    }
    for (why, candidate) in dropped.iter_mut().zip(&plan.candidates) {
        if why.is_none() {
            *why = reason(query, candidate);
        }
    }
    for filter in soft {
        filter.filter(&query.facts, &candidates, dropped);
    }
}

/// Why a candidate takes no requests at all, or none of this kind, before any filter has its say.
fn absent(query: &Query<'_>, candidate: &Candidate) -> Option<Dropped> {
    let target = &query.plan.targets[usize::from(candidate.target)];
    if !target.protocols.serves(query.protocols) {
        return Some(Dropped::Protocol);
    }
    let endpoint = query.endpoint(candidate.endpoint);
    let drains = target.weight == 0 || endpoint.is_none_or(|endpoint| endpoint.is_draining(query.now));
    drains.then_some(Dropped::State(StateKind::Draining))
}

/// Whether filters have taken a whole target away, but for what drains.
fn is_unfit(reasons: &[Option<Dropped>]) -> bool {
    let drains = Some(Dropped::State(StateKind::Draining));
    let is_out = |why: &Option<Dropped>| why.is_some_and(Dropped::is_unfit) || *why == Some(Dropped::KvFits);
    reasons.iter().any(is_out) && reasons.iter().all(|why| is_out(why) || *why == drains)
}

/// What is missing if no target of the route can ever serve the request; none: one could. A target without any endpoint may
/// have one soon.
pub(super) fn unfit(query: &Query<'_>, scratch: &Scratch) -> Option<Unfit> {
    if !has_filters(query) {
        return None;
    }
    let wants = query.facts.work.map(|work| work.wants).unwrap_or_default();
    let serving = || {
        let targets = query.plan.targets.iter();
        targets.filter(|target| target.protocols.serves(query.protocols))
    };
    if serving().any(|target| target.candidates.is_empty() && target.pool.abilities.covers(wants)) {
        return None;
    }
    let mut unfit = Unfit::default();
    let mut incapable = false;
    for why in &scratch.dropped {
        match why {
            Some(Dropped::Protocol) => {}
            Some(Dropped::Modality) => incapable = true,
            Some(Dropped::Labels) => unfit.labels = true,
            _ => return None,
        }
    }
    if incapable {
        let known = serving().fold(Abilities::NONE, |all, target| all.and(target.pool.abilities));
        let missing = wants.without(known);
        unfit.abilities = if missing == Abilities::NONE {
            wants
        } else {
            missing
        };
    }
    (incapable || unfit.labels).then_some(unfit)
}

/// Whether a candidate can serve the request at all, by place; for questions that are asked without a decision.
pub(super) fn fitting(query: &Query<'_>) -> Option<Vec<bool>> {
    has_filters(query).then(|| {
        let (mut all, mut dropped) = (Vec::new(), Vec::new());
        reasons(query, (&mut all, &mut dropped));
        let fits = dropped.into_iter().map(|why| !why.is_some_and(Dropped::is_unfit));
        fits.collect()
    })
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
    if has_filters(query) {
        let (mut all, mut dropped) = (Vec::new(), Vec::new());
        reasons(query, (&mut all, &mut dropped));
        return dropped.iter().any(Option::is_none);
    }
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
