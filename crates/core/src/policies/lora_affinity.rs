//! Prefers engines that have the adapter (LoRA) of the request loaded.

use super::{Candidates, Home, Request, Scorer};
use crate::explain::Abstained;
use crate::work::Needs;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
An engine scores 1 if it has the adapter that the request asks for, by the list in its metrics and what was sent there since; one
whose metrics do not list adapters, by what this gateway sent there (as many as it holds at once, 8 where it does not say). The others score
0. A request for no adapter makes the policy abstain (`no_facts`), one for an adapter that nobody has as well (`zero_sum`): then the other
policies choose who loads it.

**Right** where more adapters are in use than one engine holds: each change of adapters is a wait. **Wrong** where every engine
holds all of them: they score alike once all are loaded, and before that the first one gets everything. Pair it with a policy that sees load.

Example: engines with adapters {a, b}, {c} and none. A request for `c` scores 0, 1 and 0.
";

super::weight_only! {
    /// Settings of `lora_affinity`.
    "lora_affinity", Needs::ADAPTER.and(Needs::SIGNALS), LoraAffinity
}

struct LoraAffinity;

impl Scorer for LoraAffinity {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let adapter = request.work.and_then(|work| work.adapter.as_deref());
        let adapter = adapter.ok_or(Abstained::NoFacts)?;
        let now = candidates.now();
        for (score, candidate) in scores.iter_mut().zip(candidates.iter()) {
            *score = if candidate.engine.has_adapter(now, adapter) {
                1.0
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
    use crate::policies::least_inflight;
    use crate::policies::stage::Stage;
    use crate::signals::Reading;
    use crate::work::Work;
    use std::sync::Arc;

    fn loaded(adapters: &[&str]) -> Reading {
        Reading {
            adapters: Some(adapters.iter().map(|name| (*name).into()).collect()),
            ..Reading::default()
        }
    }

    fn stage() -> Stage {
        Stage::new(3, |policies| {
            policies.lora_affinity = Some(Config::default());
            policies.least_inflight = Some(least_inflight::Config::default());
        })
    }

    fn asks(stage: &mut Stage, adapter: &str) {
        stage.work = Some(Arc::new(Work {
            adapter: Some(adapter.into()),
            ..Work::default()
        }));
    }

    #[test]
    fn engines_tell_what_they_have() {
        let mut stage = stage();
        stage.read(0, loaded(&["a", "b"]));
        stage.read(1, loaded(&["c"]));
        stage.read(2, loaded(&[]));
        asks(&mut stage, "c");
        stage.busy(1, 1);
        assert_eq!(stage.scores("lora_affinity"), [0.0, 1.0, 0.0]);
        assert_eq!(stage.winner(), 1, "though it is the busiest");
        asks(&mut stage, "d");
        assert_eq!(stage.abstained("lora_affinity"), Some(Abstained::ZeroSum));
        stage.work = None;
        assert_eq!(stage.abstained("lora_affinity"), Some(Abstained::NoFacts));
    }

    #[test]
    fn what_was_sent_since_the_reading_is_loaded_and_a_new_reading_says_better() {
        let mut stage = stage();
        stage.read(0, loaded(&[]));
        asks(&mut stage, "a");
        stage.busy(0, 1);
        assert_eq!(stage.scores("lora_affinity"), [1.0, 0.0, 0.0]);
        stage.read(0, loaded(&["b"]));
        assert_eq!(
            stage.abstained("lora_affinity"),
            Some(Abstained::ZeroSum),
            "it was not kept"
        );
    }

    #[test]
    fn of_one_that_does_not_tell_the_newest_are_remembered() {
        let mut stage = stage();
        for number in 0..9 {
            asks(&mut stage, &format!("a{number}"));
            stage.busy(1, 1);
        }
        for (name, expect) in [("a0", None), ("a1", Some(1.0)), ("a8", Some(1.0))] {
            asks(&mut stage, name);
            let score = stage.scores("lora_affinity")[1];
            assert_eq!(Some(score).filter(|score| !score.is_nan()), expect, "{name}");
        }
        stage.read(
            1,
            Reading {
                max_adapters: Some(1),
                ..Reading::default()
            },
        );
        asks(&mut stage, "z");
        stage.busy(1, 1);
        asks(&mut stage, "a8");
        assert_eq!(stage.abstained("lora_affinity"), Some(Abstained::ZeroSum));
    }
}
