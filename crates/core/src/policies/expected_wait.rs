//! Prefers endpoints that would give this request its first token sooner: 1 / (0.01 + seconds).

use super::reckoned::{By, figures};
use super::{Candidates, Home, Request, Scorer};
use crate::engine::pressure;
use crate::explain::{Abstained, Reckoned};

/// Seconds that a half-full KV cache adds; a full one adds 15 s (SMG 1.13).
const PRESSURE: f64 = 0.15;

/// Seconds that are added to all, so that none is infinitely better than others.
pub(crate) const LEAST: f64 = 0.01;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Reckons the time until this request would have its first token: the prompt tokens that wait there and those of its own that are not
believed cached there, over the prompt tokens that the endpoint was measured to compute in a second, plus 0.15 · k / (1 − k)
seconds for a KV cache of which a share k is in use. So one figure weighs a cached prompt against a queue, in seconds.

**Right** for chat, where the first token is what people wait for, and for prompts that are partly cached. **Wrong** alone where
answers are long and prompts short: an endpoint with a hundred answers under way has no queue. Pair it with `least_inflight` or
`least_work`. An engine that tells nothing of its KV cache, or whose last word is too old, is taken for the mean of the others.

Example: 1,000 tokens wait at one endpoint and none at another, both compute 2,000 a second, and of a prompt of 3,000 tokens the
first has 2,500 cached: (1,000 + 500) / 2,000 = 0.75 s against 1.5 s, so 1/0.76 against 1/1.51, and the first wins, queue and all.
";

super::weight_only! {
    /// Settings of `expected_wait`.
    "expected_wait", super::WORK_AND_COURSE, ExpectedWait
}

struct ExpectedWait;

impl Scorer for ExpectedWait {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let now = candidates.now();
        let wait = |place: usize, usage: f64| {
            let candidate = candidates.get(place);
            let (engine, means) = (candidate.engine, candidate.learned.means());
            let tokens = engine.prefill_ahead(now, means)
                + engine.uncached(now, (request.work, candidate.cached), means);
            1.0 / (LEAST + tokens / engine.prefill_rate(now, means) + PRESSURE * pressure(usage))
        };
        let usage = |place: usize| candidates.get(place).engine.kv_usage(now);
        let (mut sum, mut known) = (0.0, 0_u32);
        for (place, score) in scores.iter_mut().enumerate() {
            let usage = usage(place);
            if let Some(usage) = usage {
                sum += usage;
                known += 1;
            }
            *score = wait(place, usage.unwrap_or(0.0));
        }
        if known == 0 || known as usize == scores.len() {
            return Ok(None);
        }
        // Who does not tell of its cache is taken for neither full nor empty, but for the mean of the others.
        let usual = sum / f64::from(known);
        for (place, score) in scores.iter_mut().enumerate() {
            if usage(place).is_none() {
                *score = wait(place, usual);
            }
        }
        Ok(None)
    }

    fn reckoned(&self, request: &Request<'_>, candidates: &Candidates<'_>, place: usize) -> Option<Reckoned> {
        Some(figures(By::Rate, request, (candidates, place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::{Stage, near, prompt, work};
    use crate::signals::Reading;

    /// Two endpoints that compute 2,000 prompt tokens a second.
    fn stage() -> Stage {
        let mut stage = Stage::new(2, |policies| {
            policies.expected_wait = Some(Config::default());
        });
        for place in [0, 1] {
            stage.served(place, (2000, 51), (1000, 20));
        }
        stage
    }

    fn seconds(stage: &Stage) -> Vec<f64> {
        let scores = stage.scores("expected_wait");
        scores.into_iter().map(|score| 1.0 / score - 0.01).collect()
    }

    #[test]
    fn a_cached_prompt_outweighs_a_queue() {
        let mut stage = stage();
        stage.holds(0, &prompt(5, 500));
        stage.work = work(1000, 1);
        stage.busy(0, 1);
        let mut asked = (*prompt(5, 500)).clone();
        asked.prompt_tokens = 3000;
        stage.work = Some(asked.into());
        assert!(near(&seconds(&stage), &[0.75, 1.5]));
        assert_eq!(stage.winner(), 0);
        stage.work = work(3000, 1);
        assert!(
            near(&seconds(&stage), &[2.0, 1.5]),
            "a prompt that is cached nowhere waits"
        );
        assert_eq!(stage.winner(), 1);
    }

    #[test]
    fn a_full_cache_adds_seconds() {
        let mut stage = stage();
        stage.work = work(2000, 1);
        let usage = |kv_usage| Reading {
            kv_usage: Some(kv_usage),
            ..Reading::default()
        };
        stage.read(0, usage(0.5));
        stage.read(1, usage(0.9));
        assert!(near(&seconds(&stage), &[1.15, 1.0 + 0.15 * 9.0]));
        stage.read(1, usage(1.0));
        assert!(near(&seconds(&stage), &[1.15, 1.0 + 0.15 * 99.0]));
    }

    #[test]
    fn who_does_not_tell_of_its_cache_is_taken_for_its_peers() {
        let mut stage = stage();
        stage.work = work(2000, 1);
        let reading = Reading {
            kv_usage: Some(0.8),
            ..Reading::default()
        };
        stage.read(0, reading);
        assert!(near(&seconds(&stage), &[1.6, 1.6]));
        stage.pass(3_001);
        assert!(near(&seconds(&stage), &[1.0, 1.0]));
    }

    #[test]
    fn without_work_it_counts_requests() {
        let mut stage = Stage::new(3, |policies| {
            policies.expected_wait = Some(Config::default());
        });
        stage.busy(0, 2);
        stage.busy(1, 1);
        let one = 1024.0 / 2000.0;
        assert!(near(&seconds(&stage), &[3.0 * one, 2.0 * one, one]));
    }
}
