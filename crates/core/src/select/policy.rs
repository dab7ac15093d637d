//! `policy`: the weighted sum of normalised scores; the largest wins, equals are drawn from.

use super::{Query, Scored, Scratch, Take, Turns, cached, filter, inside, picker};
use crate::explain::{Abstained, Dropped};
use crate::policies::Candidates;
use crate::policies::Home;
use crate::rng::Rng;
use crate::view::StateKind;

/// Totals this near to the largest, as a share of the policies' weights, are equal.
pub(super) const TIE: f64 = 1e-12;

/// The winner, or none if every policy abstained.
pub(super) fn choose(query: &Query<'_>, scratch: &mut Scratch, rng: &mut Rng) -> Option<Take> {
    inside::set_penalties(query, scratch, 0..scratch.live.len());
    cached::look_up(query, scratch);
    let draw = if query.plan.draws { rng.share() } else { 0.0 };
    let home = score(query, scratch, draw);
    if scratch.scored.is_empty() {
        return None;
    }
    modify(query, scratch);
    let weights: f64 = (scratch.scored.iter())
        .map(|scored| query.plan.scorers[scored.policy].weight)
        .sum();
    let picked = picker::pick(query.plan.picker, &scratch.totals, weights, rng);
    let winner = picked.winner;
    let candidate = scratch.live[winner];
    Some(Take {
        candidate,
        key: filter::key(query, &query.plan.candidates[candidate])?,
        cached: scratch.cached.get(winner).map_or(0, |cached| cached.tokens),
        live: Some(winner),
        runner_up: picked.runner_up,
        tie: picked.tie,
        session_moved: home.is_some_and(|home| is_away(query, scratch, (winner, home))),
        turns: Turns::default(),
    })
}

/// Fills `raw`, `scored`, `abstained` and `totals`; returns where the session belongs, with the policy that says so.
fn score(query: &Query<'_>, scratch: &mut Scratch, draw: f64) -> Option<(usize, Home)> {
    let count = scratch.live.len();
    scratch.totals.resize(count, 0.0);
    let mut belongs = None;
    for (policy, weighted) in query.plan.scorers.iter().enumerate() {
        let start = scratch.raw.len();
        scratch.raw.resize(start + count, 0.0);
        let candidates = Candidates {
            penalties: &scratch.penalties,
            cached: &scratch.cached,
            draw,
            ranks: Some(&scratch.ranks),
            lines: Some(&scratch.lines),
            ..query.candidates(&scratch.live)
        };
        let raw = &mut scratch.raw[start..];
        let home = match weighted.scorer.score(&query.facts, &candidates, raw) {
            Ok(home) => home,
            Err(why) => {
                scratch.raw.truncate(start);
                scratch.abstained.push((weighted.name, why));
                continue;
            }
        };
        let mut sum = 0.0;
        for score in raw.iter_mut() {
            if !score.is_finite() || *score < 0.0 {
                *score = 0.0;
                scratch.bad_scores += 1;
            }
            sum += *score;
        }
        if sum <= 0.0 {
            scratch.raw.truncate(start);
            scratch.abstained.push((weighted.name, Abstained::ZeroSum));
            continue;
        }
        for (total, score) in scratch.totals.iter_mut().zip(&scratch.raw[start..]) {
            *total += weighted.weight * (score / sum);
        }
        scratch.scored.push(Scored { policy, sum });
        belongs = belongs.or(home.map(|home| (policy, home)));
    }
    belongs
}

/// Lets the modifiers change the totals.
fn modify(query: &Query<'_>, scratch: &mut Scratch) {
    if query.plan.modifiers.is_empty() {
        return;
    }
    scratch.factors.resize(scratch.live.len(), 1.0);
    let candidates = query.candidates(&scratch.live);
    for modifier in &query.plan.modifiers {
        modifier.modify(&candidates, &mut scratch.factors);
    }
    for (total, factor) in scratch.totals.iter_mut().zip(&scratch.factors) {
        *total *= factor;
    }
}

/// Whether the session is sent elsewhere than where it belongs among all candidates of the serving order that do
/// not drain.
fn is_away(query: &Query<'_>, scratch: &Scratch, (winner, (policy, home)): (usize, (usize, Home))) -> bool {
    if home.place != winner {
        return true;
    }
    let scorer = &query.plan.scorers[policy].scorer;
    let targets = query.plan.targets.iter();
    let mut absent = targets
        .filter(|target| target.order == scratch.order)
        .flat_map(|target| target.candidates.clone())
        .filter(|place| {
            !matches!(
                scratch.dropped[*place],
                None | Some(Dropped::Protocol | Dropped::State(StateKind::Draining))
            ) && !scratch.dropped[*place].is_some_and(Dropped::is_unfit)
        });
    absent.any(|place| scorer.belongs(&query.facts, &query.plan.candidates[place].key) > home.strength)
}
