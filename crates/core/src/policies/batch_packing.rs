//! Prefers the fullest engine that still has room and no queue.

use super::{Candidates, Home, Request, Scorer, ScorerConfig};
use crate::explain::Abstained;
use crate::work::Needs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
An engine is as full as it has requests: those that it computes, by its metrics, with those that were sent since, and never
fewer than this gateway has in flight there. It has room below `max_batch` (or the engine's own limit of sequences, if that is less)
while none of its requests waits. The score of one that has room is (1 + requests) / (1 + limit), of the others 0; where none
has room, the policy abstains.

**Right** for throughput work that nobody waits for: GPUs compute larger batches for nearly the same time, and the engines that are
left empty can be switched off, or sleep. **Wrong** for chats: it makes the busiest engine busier, and each token later. Never pair it
with `least_inflight`, which wants the opposite.

Example: limit 4, engines with 3, 1 and 4 requests score 4/5, 2/5 and 0. With one waiting at the first, the second wins.
";

/// Settings of `batch_packing`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, above 0 and at most 1000000.
    pub weight: f64,
    /// Most sequences of one batch.
    pub max_batch: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            max_batch: 256,
        }
    }
}

impl ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "batch_packing"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        super::check_weight(self.weight)?;
        if self.max_batch == 0 {
            return Err("max_batch: at least 1".into());
        }
        Ok(())
    }

    fn needs(&self) -> Needs {
        Needs::SIGNALS.and(Needs::LIVE)
    }

    fn build(&self) -> Box<dyn Scorer> {
        Box::new(BatchPacking {
            max_batch: self.max_batch,
        })
    }
}

struct BatchPacking {
    max_batch: u32,
}

impl Scorer for BatchPacking {
    fn score(
        &self,
        _request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let now = candidates.now();
        for (score, candidate) in scores.iter_mut().zip(candidates.iter()) {
            let engine = candidate.engine;
            let told = engine.fresh(now);
            // What was sent since the reading waits for its first token, but not in a queue.
            let queues = told
                .and_then(|told| told.waiting)
                .is_some_and(|waiting| waiting > 0);
            let own_limit = told.and_then(|told| told.max_sequences).unwrap_or(u32::MAX);
            let limit = f64::from(self.max_batch.min(own_limit));
            let requests = (engine.running(now) + engine.waiting(now)).max(f64::from(candidate.inflight));
            let has_room = !queues && requests < limit;
            *score = if has_room {
                (1.0 + requests) / (1.0 + limit)
            } else {
                0.0
            };
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::Stage;
    use crate::signals::Reading;

    fn running(count: u32) -> Reading {
        Reading {
            running: Some(count),
            waiting: Some(0),
            ..Reading::default()
        }
    }

    fn stage(max_batch: u32) -> Stage {
        let mut stage = Stage::new(3, |policies| {
            policies.batch_packing = Some(Config {
                max_batch,
                ..Config::default()
            });
        });
        for (place, count) in [(0, 3), (1, 1), (2, 4)] {
            stage.read(place, running(count));
        }
        stage
    }

    #[test]
    fn the_fullest_with_room_wins() {
        let mut stage = stage(4);
        assert_eq!(stage.scores("batch_packing"), [0.8, 0.4, 0.0]);
        assert_eq!(stage.winner(), 0);
        stage.read(
            0,
            Reading {
                waiting: Some(1),
                ..running(3)
            },
        );
        assert_eq!(
            stage.scores("batch_packing"),
            [0.0, 0.4, 0.0],
            "a queue is no room"
        );
    }

    #[test]
    fn one_engine_is_filled_before_the_next() {
        let mut stage = Stage::new(3, |policies| {
            policies.batch_packing = Some(Config {
                max_batch: 3,
                ..Config::default()
            });
        });
        let mut sent = [0; 3];
        for place in 0..3 {
            stage.read(place, running(0));
        }
        for _ in 0..7 {
            sent[stage.send().1] += 1;
        }
        sent.sort_unstable();
        assert_eq!(sent, [1, 3, 3]);
    }

    #[test]
    fn the_engines_own_limit_counts_where_it_is_less() {
        let mut stage = stage(256);
        assert_eq!(stage.winner(), 2);
        stage.read(
            2,
            Reading {
                max_sequences: Some(4),
                ..running(4)
            },
        );
        assert_eq!(stage.winner(), 0);
    }

    #[test]
    fn without_room_anywhere_it_abstains() {
        assert_eq!(stage(1).abstained("batch_packing"), Some(Abstained::ZeroSum));
    }
}
