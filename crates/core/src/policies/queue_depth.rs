//! Prefers engines with fewer requests waiting: 1 / (1 + waiting).

use super::{Candidates, Home, Request, Scorer};
use crate::engine::Engine;
use crate::explain::Abstained;
use crate::work::Needs;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Looks at the requests that wait in the engine for admission, as its metrics tell, with those that were sent since. An engine
that does not tell, or whose last word is too old, counts as its peers that do, with as many more or fewer as it has more or
fewer requests of this gateway without a first token than they; where no engine tells, these requests alone count.

**Right** where others than this gateway send requests to the same engines, and where engines admit few sequences at once: a
queue there is time that nobody is served. **Wrong** as the only policy below saturation: no engine has a queue then, all
score 1, and chance decides. Pair it with `least_inflight` or `kv_headroom`.

Example: engines with 0, 3 and 1 waiting score 1, 1/4 and 1/2, of which the shares are 4/7, 1/7 and 2/7.
";

super::weight_only! {
    /// Settings of `queue_depth`.
    "queue_depth", Needs::SIGNALS.and(Needs::LIVE), QueueDepth
}

struct QueueDepth;

impl Scorer for QueueDepth {
    fn score(
        &self,
        _request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let now = candidates.now();
        candidates.as_told(scores, |engine| engine.told_waiting(now), Engine::own_waiting);
        for score in scores {
            *score = 1.0 / (1.0 + *score);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::Stage;
    use crate::signals::Reading;

    fn waiting(count: u32) -> Reading {
        Reading {
            waiting: Some(count),
            ..Reading::default()
        }
    }

    fn stage() -> Stage {
        let mut stage = Stage::new(3, |policies| policies.queue_depth = Some(Config::default()));
        for (place, count) in [(0, 0), (1, 3), (2, 1)] {
            stage.read(place, waiting(count));
        }
        stage
    }

    #[test]
    fn one_over_one_plus_waiting() {
        let stage = stage();
        assert_eq!(stage.scores("queue_depth"), [1.0, 0.25, 0.5]);
        assert_eq!(stage.winner(), 0);
    }

    #[test]
    fn what_was_sent_since_the_reading_waits_too() {
        let mut stage = stage();
        stage.busy(0, 2);
        assert_eq!(stage.scores("queue_depth"), [1.0 / 3.0, 0.25, 0.5]);
        assert_eq!(stage.winner(), 2);
        stage.read(0, waiting(0));
        assert_eq!(
            stage.scores("queue_depth")[0],
            1.0,
            "the engine has admitted them"
        );
    }

    #[test]
    fn a_burst_between_two_readings_is_spread() {
        let mut stage = stage();
        let mut sent = [0; 3];
        for _ in 0..5 {
            sent[stage.send().1] += 1;
        }
        // 0 goes until it equals 2, then they take turns until all have 3.
        assert_eq!((sent[0] + sent[2], sent[1]), (5, 0));
        assert_eq!(stage.scores("queue_depth"), [0.25, 0.25, 0.25]);
    }

    #[test]
    fn an_old_reading_counts_as_none() {
        let mut stage = stage();
        stage.busy(1, 1);
        stage.pass(3_000);
        assert_eq!(stage.scores("queue_depth"), [1.0, 0.2, 0.5]);
        stage.pass(1);
        assert_eq!(
            stage.scores("queue_depth"),
            [1.0, 0.5, 1.0],
            "its own counts alone"
        );
    }
}
