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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::{Stage, prompt, work};
    use crate::policies::{added_delay, expected_wait, least_inflight, prefill_batch};

    /// What each candidate's first policy went by, and the seconds of its score.
    fn shown(stage: &Stage) -> Vec<(Reckoned, Option<f64>)> {
        let candidates = stage.explain().candidates;
        let of =
            |candidate: &crate::explain::Explained| (candidate.reckoned[0].1, candidate.parts[0].seconds());
        candidates.iter().map(of).collect()
    }

    /// 3,000 tokens, of which 2,500 are in five blocks.
    fn asked() -> std::sync::Arc<crate::work::Work> {
        let mut asked = (*prompt(5, 500)).clone();
        asked.prompt_tokens = 3000;
        asked.into()
    }

    #[test]
    fn figures_are_those_that_the_score_is_from() {
        let mut stage = Stage::new(2, |policies| {
            policies.expected_wait = Some(expected_wait::Config::default())
        });
        stage.work = Some(asked());
        let nothing = Reckoned {
            prompt_tokens: Some(3000),
            cached_tokens: 0,
            to_compute: 3000.0,
            ahead: 0.0,
            waiting: 0.0,
            running: 0.0,
            pace: Some(Pace::NotMeasured),
            seconds_per_thousand: None,
        };
        // 2,000 tokens a second are assumed.
        assert_eq!(shown(&stage)[0].0, nothing);
        assert!((shown(&stage)[0].1.unwrap() - 1.5).abs() < 1e-9);
        // 1,000 tokens a second at the first; the second is taken for its pool.
        stage.served(0, (1000, 51), (1000, 20));
        stage.holds(0, &prompt(5, 500));
        stage.work = work(1000, 1);
        let sent = stage.busy(0, 2);
        stage.first_token(sent[0]);
        stage.work = Some(asked());
        let found = shown(&stage);
        let [here, there] = found[..] else {
            panic!("{found:?}")
        };
        let pace = here.0.seconds_per_thousand.unwrap();
        let expect = Reckoned {
            cached_tokens: 2500,
            to_compute: 500.0,
            ahead: 1000.0,
            waiting: 1.0,
            running: 1.0,
            pace: Some(Pace::Measured),
            seconds_per_thousand: Some(pace),
            ..nothing
        };
        assert_eq!(here.0, expect);
        assert!(
            (here.1.unwrap() - pace * 1.5).abs() < 1e-9,
            "1,500 tokens at its pace: {here:?}"
        );
        assert_eq!((there.0.pace, there.0.cached_tokens), (Some(Pace::OfPool), 0));
        assert!((there.1.unwrap() - 3.0 * there.0.seconds_per_thousand.unwrap()).abs() < 1e-9);
    }

    #[test]
    fn added_delay_tells_the_seconds_of_its_line() {
        let mut stage = Stage::new(1, |policies| {
            policies.added_delay = Some(added_delay::Config::default())
        });
        stage.work = work(2000, 1);
        assert_eq!(shown(&stage)[0].0.seconds_per_thousand, None);
        for _ in 0..3 {
            stage.served(0, (1000, 51), (1000, 20));
            stage.served(0, (2000, 51), (1500, 20));
        }
        stage.pass(3_600_000);
        // 0.5 s and 0.5 ms for each token: 1.5 s.
        let (reckoned, seconds) = shown(&stage)[0];
        assert!(
            (reckoned.seconds_per_thousand.unwrap() - 0.5).abs() < 1e-6,
            "{reckoned:?}"
        );
        assert!((seconds.unwrap() - 1.5).abs() < 1e-6, "{seconds:?}");
    }

    #[test]
    fn a_policy_that_looks_at_no_speeds_tells_of_none() {
        let mut stage = Stage::new(2, |policies| {
            policies.prefill_batch = Some(prefill_batch::Config::default())
        });
        stage.served(0, (1000, 51), (1000, 20));
        stage.work = work(300, 1);
        let (reckoned, seconds) = shown(&stage)[0];
        assert_eq!(
            (reckoned.pace, reckoned.seconds_per_thousand, seconds),
            (None, None, None)
        );
        assert!((reckoned.to_compute - 300.0).abs() < 1e-9);
    }

    #[test]
    fn who_reckons_with_nothing_of_it_says_nothing() {
        let stage = Stage::new(2, |policies| {
            policies.least_inflight = Some(least_inflight::Config::default())
        });
        let explanation = stage.explain();
        assert!(
            explanation
                .candidates
                .iter()
                .all(|candidate| candidate.reckoned.is_empty())
        );
        assert_eq!(explanation.candidates[0].parts[0].seconds(), None);
    }
}
