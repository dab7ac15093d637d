//! Prefers the smallest product of prompt tokens to compute and requests running:
//! 1 / ((1 + uncached tokens) · (1 + running)).

use super::reckoned::{By, figures};
use super::{Candidates, Home, Request, Scorer};
use crate::explain::{Abstained, Reckoned};

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
The product rule of LMetric (arXiv 2603.15202): the prompt tokens that would be to compute there, of requests that wait and of this one
as far as it is not believed cached, times the requests that run there. A cached prompt makes the first factor small, a busy
endpoint the second large; there is nothing to tune, since the units of a product do not matter.

**Right** as the one policy of a route with shared prefixes on equal engines. **Wrong** on engines of different speed, which it
takes for equal (see `expected_wait` and `least_work`), and for answers of very different length, since running requests are
counted, not weighed.

Example: of a prompt of 999 tokens one endpoint has 900 cached and runs 7 requests, another has nothing cached and runs none: (1 + 99)
· (1 + 7) = 800 against (1 + 999) · 1 = 1,000, so 1/800 against 1/1,000, and the first wins; with 9 running there it would tie.
";

super::weight_only! {
    /// Settings of `prefill_batch`.
    "prefill_batch", super::WORK_AND_COURSE, PrefillBatch
}

struct PrefillBatch;

impl Scorer for PrefillBatch {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let now = candidates.now();
        for (place, score) in scores.iter_mut().enumerate() {
            let candidate = candidates.get(place);
            let (engine, means) = (candidate.engine, candidate.learned.means());
            let tokens = engine.prefill_ahead(now, means)
                + engine.uncached(now, (request.work, candidate.cached), means);
            *score = 1.0 / ((1.0 + tokens) * (1.0 + engine.running(now)));
        }
        Ok(None)
    }

    fn reckoned(&self, request: &Request<'_>, candidates: &Candidates<'_>, place: usize) -> Option<Reckoned> {
        Some(figures(By::Tokens, request, (candidates, place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::{Stage, near, prompt, work};
    use crate::signals::Reading;

    fn running(count: u32) -> Reading {
        Reading {
            running: Some(count),
            ..Reading::default()
        }
    }

    fn products(stage: &Stage) -> Vec<f64> {
        let scores = stage.scores("prefill_batch");
        scores.into_iter().map(|score| 1.0 / score).collect()
    }

    #[test]
    fn a_cached_prompt_is_weighed_against_a_batch() {
        let mut stage = Stage::new(2, |policies| {
            policies.prefill_batch = Some(Config::default());
        });
        stage.holds(0, &prompt(3, 300));
        let mut asked = (*prompt(3, 300)).clone();
        asked.prompt_tokens = 999;
        stage.work = Some(asked.into());
        stage.read(0, running(7));
        assert!(near(&products(&stage), &[800.0, 1000.0]));
        assert_eq!(stage.winner(), 0);
        stage.read(0, running(10));
        assert!(near(&products(&stage), &[1100.0, 1000.0]));
        assert_eq!(stage.winner(), 1);
    }

    #[test]
    fn what_waits_there_is_to_compute_too() {
        let mut stage = Stage::new(2, |policies| {
            policies.prefill_batch = Some(Config::default());
        });
        stage.work = work(400, 10);
        let sent = stage.busy(0, 1);
        assert!(near(&products(&stage), &[801.0, 401.0]));
        stage.first_token(sent[0]);
        assert!(near(&products(&stage), &[802.0, 401.0]), "computed, and running");
    }

    #[test]
    fn without_work_it_counts_requests() {
        let mut stage = Stage::new(2, |policies| {
            policies.prefill_batch = Some(Config::default());
        });
        stage.busy(0, 1);
        assert!(near(&products(&stage), &[2049.0, 1025.0]));
    }
}
