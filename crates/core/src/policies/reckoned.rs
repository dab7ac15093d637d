//! What policies that reckon with prompts, queues and speeds went by, in figures for people.

use super::{Candidates, Request};
use crate::explain::{Pace, Reckoned};

/// By what a policy reckons the time of prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// The line through what prompts took: so much for each, and so much for each of its tokens.
    Line,
    /// Tokens over the seconds that they took, those of a prompt's beginning included.
    Rate,
    /// Not at all.
    Tokens,
}

/// What is known of the candidate at `place`, which must be below the count of `candidates`.
pub(super) fn figures(
    by: By,
    request: &Request<'_>,
    (candidates, place): (&Candidates<'_>, usize),
) -> Reckoned {
    let now = candidates.now();
    let candidate = candidates.get(place);
    let (engine, means) = (candidate.engine, candidate.learned.means());
    let pace = if engine.has_prefilled() {
        Pace::Measured
    } else if means.prefill.rate.per_second().is_some() {
        Pace::OfPool
    } else {
        Pace::NotMeasured
    };
    let seconds = match by {
        By::Line => engine.prompt_line(now, means).map(|(_, each)| 1000.0 * each),
        By::Rate => Some(1000.0 / engine.prefill_rate(now, means)),
        By::Tokens => None,
    };
    Reckoned {
        prompt_tokens: request.work.map(|work| work.prompt_tokens),
        cached_tokens: candidate.cached.tokens,
        to_compute: engine.uncached(now, (request.work, candidate.cached), means),
        ahead: engine.prefill_ahead(now, means),
        waiting: engine.waiting(now),
        running: engine.running(now),
        pace: (by != By::Tokens).then_some(pace),
        seconds_per_thousand: seconds.filter(|_| pace != Pace::NotMeasured),
    }
}
