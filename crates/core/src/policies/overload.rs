//! Lowers the totals of candidates that are overloaded, unless all are.

use super::{Candidate, Candidates, Modifier, ModifierConfig};
use crate::time::Time;
use crate::work::Needs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
No score of its own: it multiplies the total of a candidate by `factor` if its KV usage is over `kv_usage` (its GPU memory, where the
engine reports no KV usage), or its GPU utilisation over `gpu_utilisation`. Where all live candidates are over, it does nothing. One that
does not tell is not over. Explanations show the factor beside the total.

**Right** beside policies that hold on to an engine, such as `session_affinity` and `prefix_cache`: they let go of one that has no
room left, before it preempts. **Wrong** as a limit: it is a demotion and not a filter, since busy fleets are over everywhere. GPU
utilisation is near 1 whenever anything is computed: where `gpu_metrics` are read and engines are busy all day, raise it to 1.

Example: totals of 1.2 and 0.8, the first at 90 % KV usage: 0.6 and 0.8, so the second wins. With both over, the first.
";

/// Settings of `overload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// What totals of overloaded candidates are multiplied by, from 0 to 1.
    pub factor: f64,
    /// Share of the KV cache in use above which a candidate is overloaded, from 0 to 1.
    pub kv_usage: f64,
    /// Utilisation of the GPU above which it is, from 0 to 1.
    pub gpu_utilisation: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            factor: 0.5,
            kv_usage: 0.85,
            gpu_utilisation: 0.9,
        }
    }
}

impl ModifierConfig for Config {
    fn name(&self) -> &'static str {
        "overload"
    }

    fn check(&self) -> Result<(), String> {
        super::check_share("factor", self.factor)?;
        super::check_share("kv_usage", self.kv_usage)?;
        super::check_share("gpu_utilisation", self.gpu_utilisation)
    }

    fn needs(&self) -> Needs {
        Needs::SIGNALS
    }

    fn build(&self) -> Box<dyn Modifier> {
        Box::new(Overload(self.clone()))
    }
}

struct Overload(Config);

impl Modifier for Overload {
    fn modify(&self, candidates: &Candidates<'_>, factors: &mut [f64]) {
        let now = candidates.now();
        if candidates.iter().all(|candidate| self.is_over(&candidate, now)) {
            return;
        }
        for (factor, candidate) in factors.iter_mut().zip(candidates.iter()) {
            if self.is_over(&candidate, now) {
                *factor *= self.0.factor;
            }
        }
    }
}

impl Overload {
    fn is_over(&self, candidate: &Candidate<'_>, now: Time) -> bool {
        let Some(told) = candidate.engine.fresh(now) else {
            return false;
        };
        let memory = candidate.engine.kv_usage(now).or(told.gpu_memory);
        memory.is_some_and(|share| share > self.0.kv_usage)
            || (told.gpu_utilisation).is_some_and(|share| share > self.0.gpu_utilisation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::least_inflight;
    use crate::policies::stage::Stage;
    use crate::signals::Reading;

    fn stage() -> Stage {
        Stage::new(2, |policies| {
            policies.least_inflight = Some(least_inflight::Config::default());
            policies.overload = Some(Config::default());
        })
    }

    fn used(kv_usage: f64) -> Reading {
        Reading {
            kv_usage: Some(kv_usage),
            ..Reading::default()
        }
    }

    fn factors(stage: &Stage) -> Vec<f64> {
        stage
            .explain()
            .candidates
            .iter()
            .map(|candidate| candidate.factor)
            .collect()
    }

    #[test]
    fn an_overloaded_favourite_loses() {
        let mut stage = stage();
        stage.busy(1, 1);
        // Shares of 2/3 and 1/3; half of the first is 1/3 as well.
        assert_eq!(stage.winner(), 0);
        stage.read(0, used(0.9));
        assert!(stage.explain().decision.tie);
        assert_eq!(factors(&stage), [0.5, 1.0]);
        let first = &stage.explain().candidates[0];
        assert!(
            (first.total - 1.0 / 3.0).abs() < 1e-12 && first.parts[0].weighted > 0.66,
            "parts are as given"
        );
        stage.busy(0, 1);
        assert_eq!(stage.winner(), 1);
    }

    #[test]
    fn where_all_are_over_nothing_changes() {
        let mut stage = stage();
        stage.read(0, used(0.9));
        stage.read(1, used(0.95));
        assert_eq!(factors(&stage), [1.0, 1.0]);
    }

    #[test]
    fn memory_stands_in_for_the_cache_and_utilisation_counts() {
        let mut stage = stage();
        let memory = |kv_usage, gpu_memory, gpu_utilisation| Reading {
            kv_usage,
            gpu_memory,
            gpu_utilisation,
            ..Reading::default()
        };
        for (reading, factor) in [
            (memory(None, Some(0.86), None), 0.5),
            (memory(None, Some(0.85), None), 1.0),
            (memory(Some(0.1), Some(0.99), None), 1.0),
            (memory(Some(0.1), None, Some(0.91)), 0.5),
            (memory(None, None, Some(0.9)), 1.0),
        ] {
            stage.read(0, reading.clone());
            assert_eq!(factors(&stage), [factor, 1.0], "{reading:?}");
        }
        stage.read(0, used(0.99));
        stage.pass(3_001);
        assert_eq!(factors(&stage), [1.0, 1.0], "too old to count");
    }
}
