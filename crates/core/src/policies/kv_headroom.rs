//! Prefers engines with more of their KV cache free: 1 − KV cache usage.

use super::unknown::fill_in;
use super::{Candidates, Home, Request, Scorer};
use crate::explain::Abstained;
use crate::work::Needs;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Looks at the share of the KV cache that running requests hold, as the engine's metrics tell, with the prompts that were sent
since. An engine that does not tell takes the mean of those that do; if none tells, the policy abstains (`no_signal`).

**Right** where memory and not computing is what runs out: long prompts, long answers, small GPUs. An engine whose cache is full
preempts answers that run, and computes them again. **Wrong** as the only policy while caches are nearly empty: all score about
1, and chance decides. It sees tokens, not requests: pair it with `least_inflight` or `queue_depth`.

Example: usages of 0.8, 0.2 and 0.5 score 0.2, 0.8 and 0.5, of which the shares are 2/15, 8/15 and 1/3.
";

super::weight_only! {
    /// Settings of `kv_headroom`.
    "kv_headroom", Needs::SIGNALS.and(Needs::TOKENS), KvHeadroom
}

struct KvHeadroom;

impl Scorer for KvHeadroom {
    fn score(
        &self,
        _request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let now = candidates.now();
        for (score, candidate) in scores.iter_mut().zip(candidates.iter()) {
            *score = candidate
                .engine
                .kv_usage(now)
                .map_or(f64::NAN, |usage| 1.0 - usage);
        }
        fill_in(scores, Abstained::NoSignal)?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::Stage;
    use crate::signals::Reading;
    use crate::work::Work;
    use std::sync::Arc;

    fn used(share: f64) -> Reading {
        Reading {
            kv_usage: Some(share),
            cache_tokens: Some(10_000),
            ..Reading::default()
        }
    }

    fn stage() -> Stage {
        let mut stage = Stage::new(3, |policies| policies.kv_headroom = Some(Config::default()));
        for (place, share) in [(0, 0.75), (1, 0.25), (2, 0.5)] {
            stage.read(place, used(share));
        }
        stage
    }

    #[test]
    fn what_is_free_decides() {
        assert_eq!(stage().scores("kv_headroom"), [0.25, 0.75, 0.5]);
        assert_eq!(stage().winner(), 1);
    }

    #[test]
    fn it_changes_the_winner_of_least_inflight() {
        let mut stage = Stage::new(2, |policies| {
            policies.least_inflight = Some(crate::policies::least_inflight::Config::default());
            policies.kv_headroom = Some(Config::default());
        });
        stage.read(0, used(0.75));
        stage.read(1, used(0.25));
        stage.busy(1, 1);
        // In flight: 1 and 1/2, shares 2/3 and 1/3. Headroom: 1/4 and 3/4.
        let totals: Vec<f64> = stage.explain().candidates.iter().map(|c| c.total).collect();
        assert!(
            (totals[0] - (2.0 / 3.0 + 0.25)).abs() < 1e-12 && (totals[1] - (1.0 / 3.0 + 0.75)).abs() < 1e-12
        );
        assert_eq!(stage.winner(), 1);
    }

    #[test]
    fn prompts_sent_since_the_reading_take_their_room() {
        let mut stage = stage();
        stage.work = Some(Arc::new(Work {
            prompt_tokens: 5000,
            ..Work::default()
        }));
        assert_eq!(stage.send().1, 1);
        assert_eq!(stage.scores("kv_headroom"), [0.25, 0.25, 0.5]);
        assert_eq!(stage.winner(), 2);
    }

    #[test]
    fn who_does_not_tell_takes_the_mean_and_nobody_abstains() {
        let mut stage = stage();
        stage.read(1, Reading::default());
        assert_eq!(stage.scores("kv_headroom"), [0.25, 0.375, 0.5]);
        stage.pass(3_001);
        assert_eq!(stage.abstained("kv_headroom"), Some(Abstained::NoSignal));
    }
}
