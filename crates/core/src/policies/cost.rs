//! Prefers targets where the request costs less.

use super::unknown::fill_in;
use super::{Candidates, Home, Request, Scorer, ScorerConfig};
use crate::explain::Abstained;
use crate::work::Needs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
The price of the request at a target is prompt tokens · `price.input` + output tokens · `price.output`. Output tokens are those that are
expected, at most `max_tokens`; where nothing predicts them, `max_tokens`, and where that is not given, `output_tokens` of the
policy. The score is 1 / (1 + price / median of the prices over the live candidates). A pool without a price takes the mean of the
others; if none has one, or the prompt was not counted, the policy abstains (`no_facts`).

**Right** between models that would do equally well: own engines (`price: {input: 0, output: 0}`) before a provider, a cheap
provider before a dear one. **Wrong** alone: it sends everything to the cheapest, however busy. It knows nothing of quality: pair it with
`capability`, and with a policy that sees load.

Example: prices of 0.1, 0.3 and 0.3 cents have the median 0.3 and score 1 / (1 + 1/3) = 3/4, 1/2 and 1/2.
";

/// Settings of `cost`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, above 0 and at most 1000000.
    pub weight: f64,
    /// Output tokens of a request that says nothing of them.
    pub output_tokens: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            output_tokens: 256,
        }
    }
}

impl ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "cost"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        super::check_weight(self.weight)
    }

    fn needs(&self) -> Needs {
        Needs::TOKENS
    }

    fn build(&self) -> Box<dyn Scorer> {
        Box::new(Cost {
            output_tokens: self.output_tokens,
        })
    }
}

struct Cost {
    output_tokens: u32,
}

impl Scorer for Cost {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let work = request.work.ok_or(Abstained::NoFacts)?;
        let most = work.max_tokens.unwrap_or(u32::MAX);
        let output = (work.expected_tokens)
            .or(work.max_tokens)
            .unwrap_or(self.output_tokens)
            .min(most);
        let (prompt, output) = (f64::from(work.prompt_tokens), f64::from(output));
        for (score, candidate) in scores.iter_mut().zip(candidates.iter()) {
            let price = candidate.pool.price;
            *score = price.map_or(f64::NAN, |price| prompt * price.input + output * price.output);
        }
        let median = median(scores).ok_or(Abstained::NoFacts)?;
        for score in scores.iter_mut() {
            // Where the median is nothing, so is what is not dear.
            let dear = if *score == 0.0 { 0.0 } else { *score / median };
            *score = 1.0 / (1.0 + dear);
        }
        fill_in(scores, Abstained::NoFacts)?;
        Ok(None)
    }
}

/// The median of the prices that are known. Candidates of one target have one price, so there are few different ones, and they
/// are counted upwards without a copy.
fn median(prices: &[f64]) -> Option<f64> {
    let known = prices.iter().filter(|price| !price.is_nan()).count();
    let low = nth(prices, known.checked_sub(1)? / 2)?;
    let high = nth(prices, known / 2)?;
    Some(f64::midpoint(low, high))
}

/// The price at this place in ascending order.
fn nth(prices: &[f64], place: usize) -> Option<f64> {
    let mut below = 0;
    let mut last = f64::NEG_INFINITY;
    loop {
        let above = prices.iter().copied().filter(|price| *price > last);
        let next = above.reduce(f64::min)?;
        below += prices.iter().filter(|price| **price == next).count();
        if below > place {
            return Some(next);
        }
        last = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::Stage;
    use crate::spec::{EndpointSpec, PoolSpec, Price};
    use crate::work::Work;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn stage(prices: &[Option<(f64, f64)>]) -> Stage {
        let pools = prices.iter().enumerate().map(|(place, price)| PoolSpec {
            price: price.map(|(input, output)| Price { input, output }),
            ..PoolSpec::new(
                format!("p{place}"),
                vec![EndpointSpec::new("e", format!("{place}"))],
            )
        });
        let mut stage = Stage::over(pools.collect(), |route| {
            route.policies.cost = Some(Config::default())
        });
        asks(&mut stage, None);
        stage
    }

    fn asks(stage: &mut Stage, max_tokens: Option<u32>) {
        stage.work = Some(Arc::new(Work {
            prompt_tokens: 256,
            max_tokens,
            ..Work::default()
        }));
    }

    #[test]
    fn what_costs_the_median_scores_a_half() {
        let stage = stage(&[Some((0.1, 0.0)), Some((0.1, 0.2)), Some((0.0, 0.3)), None]);
        // Prices 25.6, 76.8, 76.8: ratios 1/3, 1, 1.
        let scores = stage.scores("cost");
        for (score, expect) in scores.iter().zip([0.75, 0.5, 0.5, 1.75 / 3.0]) {
            assert!((score - expect).abs() < 1e-12, "{scores:?}");
        }
        assert_eq!(stage.winner(), 0);
    }

    #[test]
    fn the_length_of_the_answer_changes_the_winner() {
        // Cheap to read and dear to write, and the other way round.
        let mut stage = stage(&[Some((1.0, 4.0)), Some((2.0, 2.0))]);
        asks(&mut stage, Some(10));
        assert_eq!(stage.winner(), 0);
        asks(&mut stage, Some(1000));
        assert_eq!(stage.winner(), 1);
    }

    #[test]
    fn what_is_free_beats_what_is_not() {
        let stage = stage(&[Some((0.0, 0.0)), Some((0.0, 0.0)), Some((1.0, 1.0))]);
        assert_eq!(stage.scores("cost"), [1.0, 1.0, 0.0]);
    }

    #[test]
    fn without_prices_or_tokens_it_abstains() {
        assert_eq!(stage(&[None, None]).abstained("cost"), Some(Abstained::NoFacts));
        let mut unknown = stage(&[Some((1.0, 1.0))]);
        unknown.work = None;
        assert_eq!(unknown.abstained("cost"), Some(Abstained::NoFacts));
    }

    proptest! {
        #[test]
        fn the_median_is_that_of_the_sorted(mut prices in prop::collection::vec(0u8..9, 1..20)) {
            let floats: Vec<f64> = prices.iter().copied().map(f64::from).collect();
            prices.sort_unstable();
            let middle = |place: usize| f64::from(prices[place]);
            let expect = (middle((prices.len() - 1) / 2) + middle(prices.len() / 2)) / 2.0;
            prop_assert_eq!(median(&floats), Some(expect));
        }
    }
}
