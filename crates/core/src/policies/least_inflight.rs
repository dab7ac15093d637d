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
        super::check_weight(self.weight)
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
    ) -> Result<Option<super::Home>, crate::explain::Abstained> {
        for (score, candidate) in scores.iter_mut().zip(candidates) {
            *score = 1.0 / (1.0 + f64::from(candidate.inflight) + candidate.penalty);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::{Candidate, RequestFacts, ScorerConfig};

    #[test]
    fn one_over_one_plus_load() {
        let candidate = |inflight, penalty| Candidate {
            key: b"a\0a",
            inflight,
            penalty,
        };
        let candidates = [candidate(0, 0.0), candidate(3, 0.0), candidate(1, 2.0)];
        let mut scores = [0.0; 3];
        let scorer = Config::default().build();
        assert_eq!(
            scorer.score(&RequestFacts::default(), &candidates, &mut scores),
            Ok(None)
        );
        assert_eq!(scores, [1.0, 0.25, 0.25]);
    }

    #[test]
    fn refuses_weights_that_mean_nothing() {
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Config { weight }.check().is_err(), "{weight}");
        }
        assert_eq!(Config { weight: 0.5 }.check(), Ok(()));
    }
}
