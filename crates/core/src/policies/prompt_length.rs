//! Prefers targets that are meant for prompts of this length.

use super::{Candidates, Home, Request, Scorer, ScorerConfig};
use crate::explain::Abstained;
use crate::work::Needs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Compares the prompt's tokens with `serves_tokens` of the targets: 1 inside the range, outside the square of the ratio to the nearest
end (twice as long as the range allows: 1/4). A target without a range serves every length. `tighten` moves all ends of ranges
down under load: by that share where the engines of the targets with an upper end are busy all through (the larger of KV usage
and waiting / 10, from 50 % on; in full at 90 %). With `tighten: 0.4` a limit of 5,000 falls to 3,000.

**Right** where long prompts hold up short ones: each prefill is a wait for all that run beside it. Give the small engines
`{up_to: 5000}` and the big ones `{over: 5000}`. **Wrong** where engines are all alike and few: half a fleet idles while the
other half is full. Pair it with a policy that sees load.

Example: targets `{up_to: 5000}` and `{over: 5000}`. A prompt of 10,000 tokens scores 1/4 and 1; one of 2,500 tokens 1 and about 1/4.
";

/// Settings of `prompt_length`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, above 0 and at most 1000000.
    pub weight: f64,
    /// Share by which the ends of ranges move down under load, from 0 to 1.
    pub tighten: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            tighten: 0.0,
        }
    }
}

impl ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "prompt_length"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        super::check_weight(self.weight)?;
        super::check_share("tighten", self.tighten)
    }

    fn needs(&self) -> Needs {
        let load = if self.tighten > 0.0 {
            Needs::SIGNALS.and(Needs::LIVE)
        } else {
            Needs::NONE
        };
        Needs::TOKENS.and(load)
    }

    fn build(&self) -> Box<dyn Scorer> {
        Box::new(PromptLength {
            tighten: self.tighten,
        })
    }
}

struct PromptLength {
    tighten: f64,
}

/// Load at which ranges begin to tighten, and at which they are as tight as they get.
const TIGHTENS: (f64, f64) = (0.5, 0.9);

/// Requests that wait where a queue counts as full.
const QUEUE: f64 = 10.0;

impl Scorer for PromptLength {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let tokens = request.work.map_or(0, |work| work.prompt_tokens);
        let ranges = || {
            candidates
                .iter()
                .filter_map(|candidate| candidate.target.serves_tokens)
        };
        if tokens == 0 || ranges().next().is_none() {
            return Err(Abstained::NoFacts);
        }
        let ends = 1.0 - self.tighten * tightness(candidates, self.tighten);
        let tokens = f64::from(tokens);
        for (score, candidate) in scores.iter_mut().zip(candidates.iter()) {
            let fit = candidate.target.serves_tokens.map_or(1.0, |(from, up_to)| {
                let (from, up_to) = (f64::from(from) * ends, f64::from(up_to) * ends);
                (tokens / from).min(up_to / tokens).min(1.0)
            });
            *score = fit * fit;
        }
        Ok(None)
    }
}

/// How tight ranges are, from 0 to 1: by the mean load of the candidates whose range has an upper end.
fn tightness(candidates: &Candidates<'_>, tighten: f64) -> f64 {
    if tighten <= 0.0 {
        return 0.0;
    }
    let now = candidates.now();
    let (mut sum, mut count) = (0.0, 0.0);
    for candidate in candidates.iter() {
        let ends = candidate
            .target
            .serves_tokens
            .is_some_and(|(_, up_to)| up_to < u32::MAX);
        if ends {
            let queue = (candidate.engine.waiting(now) / QUEUE).min(1.0);
            sum += candidate.engine.kv_usage(now).unwrap_or(0.0).max(queue);
            count += 1.0;
        }
    }
    if count == 0.0 {
        return 0.0;
    }
    let (from, full) = TIGHTENS;
    ((sum / count - from) / (full - from)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::Stage;
    use crate::signals::Reading;
    use crate::spec::{EndpointSpec, PoolSpec};
    use crate::work::Work;
    use std::sync::Arc;

    /// Targets for up to 5,000 tokens, for more, and for any.
    fn stage(tighten: f64) -> Stage {
        let pool = |name: &str| PoolSpec::new(name, vec![EndpointSpec::new("e", name)]);
        Stage::over(vec![pool("a"), pool("b"), pool("c")], |route| {
            route.targets[0].serves_tokens = Some((0, 5000));
            route.targets[1].serves_tokens = Some((5001, u32::MAX));
            route.policies.prompt_length = Some(Config {
                tighten,
                ..Config::default()
            });
        })
    }

    fn scores(stage: &mut Stage, prompt_tokens: u32) -> Vec<f64> {
        stage.work = Some(Arc::new(Work {
            prompt_tokens,
            ..Work::default()
        }));
        stage.scores("prompt_length")
    }

    #[test]
    fn one_inside_and_the_square_of_the_ratio_outside() {
        let mut stage = stage(0.0);
        assert_eq!(scores(&mut stage, 10_000), [0.25, 1.0, 1.0]);
        assert_eq!(scores(&mut stage, 5000)[0], 1.0);
        let short = scores(&mut stage, 2500);
        assert!(
            short[0] == 1.0 && (short[1] - (2500.0f64 / 5001.0).powi(2)).abs() < 1e-12 && short[2] == 1.0
        );
    }

    #[test]
    fn limits_tighten_under_load() {
        let mut stage = stage(0.4);
        let used = |share| Reading {
            kv_usage: Some(share),
            waiting: Some(0),
            ..Reading::default()
        };
        for (usage, limit) in [(0.5, 5000), (0.7, 4000), (0.9, 3000), (1.0, 3000)] {
            stage.read(0, used(usage));
            assert_eq!(scores(&mut stage, limit)[0], 1.0, "{usage}");
            let beyond = scores(&mut stage, limit + 2);
            assert!(beyond[0] < 1.0 && beyond[1] > 1.0 - 1e-3, "{usage}: {beyond:?}");
        }
        stage.read(
            0,
            Reading {
                waiting: Some(9),
                ..used(0.1)
            },
        );
        assert!(scores(&mut stage, 3001)[0] < 1.0, "a queue is load as well");
    }

    #[test]
    fn without_lengths_it_abstains() {
        let mut stage = stage(0.0);
        assert_eq!(stage.abstained("prompt_length"), Some(Abstained::NoFacts));
        let mut plain = Stage::new(2, |policies| policies.prompt_length = Some(Config::default()));
        plain.work = Some(Arc::new(Work {
            prompt_tokens: 5,
            ..Work::default()
        }));
        assert_eq!(plain.abstained("prompt_length"), Some(Abstained::NoFacts));
        assert_eq!(scores(&mut stage, 5001)[1], 1.0);
    }

    #[test]
    fn a_share_to_tighten_by_is_one() {
        let check = |tighten| {
            Config {
                tighten,
                ..Config::default()
            }
            .check()
        };
        assert_eq!(check(0.4), Ok(()));
        assert!(check(1.5).is_err() && check(f64::NAN).is_err());
    }
}
