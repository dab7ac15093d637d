//! Prefers endpoints with more headroom under the latency objectives, as an online model predicts it.

use super::{Candidates, Home, Request, Scorer, ScorerConfig};
use crate::explain::Abstained;
use crate::units::Span;
use crate::work::{Needs, Objective};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where nothing of an objective is left: this part of how far it is missed.
const MISSED: f64 = 0.01;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Every pool learns, as answers come, to predict the time to the first token and the time per token from what is known when a request
is sent: the seconds that the prompts ahead and its own take at the endpoint's measured speed, requests that wait and run, the KV
cache, the length expected of the answer, and how the endpoint did of late. Two models of eight inputs each, recursive least squares
for weights that drift; they need no training and no sidecar, and are sound after some hundred requests.

Under an objective the score is the share of it that the prediction leaves: (objective − predicted) / objective, the smaller one
where both are set; once nothing is left, a hundredth of objective / predicted, so that whoever misses it least is still preferred.
The request's own objectives (headers `x-slo-ttft-ms` and `x-slo-tpot-ms`) come before `ttft` and `tpot`. Without any the score is
1 / (0.001 + seconds predicted until its last token).

Each model is tested on every request before it learns from it. While its mean error over the last hundred is not below 0.8 of what
the pool's mean errs (0.95 to stay), the pool's mean is used instead; while that is so for both, the policy abstains.

**Right** where objectives count and requests and endpoints differ. **Wrong** where nothing that it looks at explains the times, where
it says nothing, and with a handful of requests a minute, where it has forgotten before it has learned.

Example: with an objective of 1 s to the first token, predictions of 0.2 s, 0.6 s and 2 s leave 0.8, 0.4 and 0.005.
";

/// Settings of `predicted_latency`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, above 0 and at most 1000000.
    pub weight: f64,
    /// Longest time to the first token of requests that do not say; none: no objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft: Option<Span>,
    /// Longest mean time per token after the first of requests that do not say; none: no objective.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpot: Option<Span>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            ttft: None,
            tpot: None,
        }
    }
}

impl ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "predicted_latency"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        super::check_weight(self.weight)?;
        for (key, objective) in [("ttft", self.ttft), ("tpot", self.tpot)] {
            if objective.is_some_and(|objective| objective.0.is_zero()) {
                return Err(format!("{key}: 0 is no objective; leave it out for none"));
            }
        }
        Ok(())
    }

    fn needs(&self) -> Needs {
        super::WORK_AND_COURSE.and(Needs::OBJECTIVE)
    }

    fn predicts(&self) -> bool {
        true
    }

    fn build(&self) -> Box<dyn Scorer> {
        Box::new(PredictedLatency {
            usual: Objective {
                first_token: self.ttft.map(|objective| objective.0),
                per_token: self.tpot.map(|objective| objective.0),
            },
        })
    }
}

struct PredictedLatency {
    /// Of requests that do not say.
    usual: Objective,
}

impl Scorer for PredictedLatency {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let now = candidates.now();
        let asked = request.work.map(|work| work.objective).unwrap_or_default();
        let first = asked
            .first_token
            .or(self.usual.first_token)
            .map(|most| most.as_secs_f64());
        let each = asked
            .per_token
            .or(self.usual.per_token)
            .map(|most| most.as_secs_f64());
        let mut known = false;
        for (place, score) in scores.iter_mut().enumerate() {
            let candidate = candidates.get(place);
            let (engine, means) = (candidate.engine, candidate.learned.means());
            let output = means.expected(request.work);
            let prefill = engine.uncached(now, (request.work, candidate.cached), means);
            let facts = engine.facts(now, (prefill, output), means);
            let forecast = means.forecast.as_deref();
            let (predicted, is_believed) = match forecast.and_then(|model| model.predict(&facts, means)) {
                Some(predicted) => (predicted, true),
                None => (means.usual(), false),
            };
            known |= is_believed;
            *score = match (first, each) {
                (None, None) => {
                    let all = predicted.first_token + predicted.per_token * (output - 1.0).max(0.0);
                    1.0 / (0.001 + all)
                }
                _ => {
                    let first = first.map_or(1.0, |most| headroom(predicted.first_token, most));
                    first.min(each.map_or(1.0, |most| headroom(predicted.per_token, most)))
                }
            };
        }
        if known { Ok(None) } else { Err(Abstained::NoModel) }
    }
}

/// Share of an objective of `most` seconds that is left; once nothing is, a little that falls with the excess.
fn headroom(seconds: f64, most: f64) -> f64 {
    if seconds < most {
        (1.0 - seconds / most).max(MISSED)
    } else {
        MISSED * most / seconds.max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::least_inflight;
    use crate::policies::stage::{Stage, near, work};
    use crate::work::Work;
    use std::time::Duration;

    #[test]
    fn headroom_by_hand() {
        let left = [0.2, 0.6, 1.0, 2.0].map(|seconds| headroom(seconds, 1.0));
        assert!(near(&left, &[0.8, 0.4, 0.01, 0.005]));
        let seconds = (0..400).map(|tick| headroom(f64::from(tick) / 100.0, 1.0));
        assert!(seconds.is_sorted_by(|sooner, later| sooner >= later));
    }

    /// Two endpoints whose prompts take a millisecond a token, after `requests` of them, one at a time.
    fn taught(config: Config, requests: u32) -> Stage {
        let mut stage = Stage::new(2, |policies| {
            policies.predicted_latency = Some(config);
        });
        for number in 0..requests {
            let prompt = 100 + number * 389 % 2000;
            stage.served(number as usize % 2, (prompt, 2), (u64::from(prompt), 20));
        }
        stage
    }

    fn with_objective(prompt: u32, first_token: Option<u64>) -> Option<std::sync::Arc<Work>> {
        let mut work = (*work(prompt, 1)?).clone();
        work.objective.first_token = first_token.map(Duration::from_millis);
        Some(work.into())
    }

    #[test]
    fn the_seconds_that_are_predicted_decide() {
        let mut stage = taught(Config::default(), 300);
        stage.work = work(2000, 1);
        stage.busy(0, 1);
        stage.work = with_objective(500, None);
        let [behind, free] = stage.scores("predicted_latency")[..] else {
            panic!("two candidates")
        };
        assert!((1.0 / free - 0.5).abs() < 0.05, "{free}");
        assert!(free > behind && stage.winner() == 1, "{behind} {free}");
    }

    #[test]
    fn under_an_objective_it_is_what_is_left_of_it() {
        let mut stage = taught(Config::default(), 300);
        stage.work = with_objective(500, Some(2000));
        let scores = stage.scores("predicted_latency");
        assert!(
            scores.iter().all(|score| (score - 0.75).abs() < 0.03),
            "{scores:?}"
        );
        stage.work = with_objective(500, Some(250));
        let scores = stage.scores("predicted_latency");
        assert!(
            scores.iter().all(|score| (score - 0.005).abs() < 0.001),
            "{scores:?}"
        );
    }

    #[test]
    fn the_routes_own_objective_stands_where_the_request_says_nothing() {
        let config = Config {
            ttft: Some(Span(Duration::from_secs(1))),
            ..Config::default()
        };
        let mut stage = taught(config, 300);
        stage.work = with_objective(500, None);
        assert!((stage.scores("predicted_latency")[0] - 0.5).abs() < 0.06);
        stage.work = with_objective(500, Some(5000));
        assert!((stage.scores("predicted_latency")[0] - 0.9).abs() < 0.03);
    }

    #[test]
    fn it_changes_the_winner_against_counts() {
        let mut stage = taught(Config::default(), 300);
        let mut route = Stage::new(2, |policies| {
            policies.least_inflight = Some(least_inflight::Config::default());
        });
        for stage in [&mut stage, &mut route] {
            stage.work = work(50, 1);
            stage.busy(0, 2);
            stage.work = work(2000, 1);
            stage.busy(1, 1);
            stage.work = work(100, 1);
        }
        assert_eq!((stage.winner(), route.winner()), (0, 1));
    }

    #[test]
    fn it_says_nothing_before_it_has_learned() {
        let stage = taught(Config::default(), 40);
        assert_eq!(stage.abstained("predicted_latency"), Some(Abstained::NoModel));
        let stage = taught(Config::default(), 200);
        assert_eq!(stage.abstained("predicted_latency"), None);
    }

    #[test]
    fn times_that_nothing_explains_are_not_predicted() {
        let mut stage = Stage::new(2, |policies| {
            policies.predicted_latency = Some(Config::default());
        });
        for number in 0..600_u32 {
            let random = crate::rng::splitmix(u64::from(number)) % 2000;
            stage.served(number as usize % 2, (100 + number * 389 % 2000, 2), (random, 20));
        }
        assert_eq!(stage.abstained("predicted_latency"), Some(Abstained::NoModel));
    }

    #[test]
    fn refuses_objectives_that_mean_nothing() {
        let config = Config {
            tpot: Some(Span(Duration::ZERO)),
            ..Config::default()
        };
        assert!(config.check().is_err_and(|why| why.starts_with("tpot: ")));
        assert_eq!(Config::default().check(), Ok(()));
    }
}
