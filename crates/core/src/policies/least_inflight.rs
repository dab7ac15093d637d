//! Prefers endpoints with fewer requests in flight: 1 / (1 + in flight + ramp penalty).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of `least_inflight`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, > 0.
    pub weight: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { weight: 1.0 }
    }
}

impl super::ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "least_inflight"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn build(&self) -> Box<dyn super::Scorer> {
        Box::new(LeastInflight)
    }
}

struct LeastInflight;

impl super::Scorer for LeastInflight {
    fn score(
        &self,
        _request: &super::RequestFacts,
        candidates: &[super::Candidate<'_>],
        scores: &mut [f64],
    ) -> Result<(), crate::explain::Abstained> {
        for (score, candidate) in scores.iter_mut().zip(candidates) {
            *score = 1.0 / (1.0 + f64::from(candidate.inflight) + candidate.penalty);
        }
        Ok(())
    }
}
