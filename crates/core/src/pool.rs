//! What the endpoints of a pool have in common and is learned.

use crate::engine::decay::{Average, Rate};
use crate::engine::{Forecast, Predicted};
use crate::policies::Cached;
use crate::prefix::Common;
use crate::work::Work;
use std::sync::Arc;

/// Tokens of a prompt of which nothing is known, in a pool of which nothing is known.
const PROMPT: f64 = 1024.0;
/// The same for its answer.
const OUTPUT: f64 = 256.0;

/// State of one pool; kept for as long as a pool of its name is configured.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub(crate) name: Arc<str>,
    /// What requests of the pool are like.
    pub(crate) means: Means,
    /// What most of its prompts begin with: in blocks of text, and in blocks of tokens.
    pub(crate) common: Common,
    pub(crate) common_exact: Common,
}

impl Pool {
    /// A pool of which nothing is known.
    pub(crate) fn new(name: &Arc<str>) -> Self {
        let mut pool = Self::default();
        pool.name.clone_from(name);
        pool
    }

    /// What requests of the pool are like.
    #[must_use]
    pub fn means(&self) -> &Means {
        &self.means
    }
}

/// Means over the answered requests of a pool, which forget as those of its endpoints do.
#[derive(Clone, Debug, Default)]
pub struct Means {
    /// Seconds to the first token.
    pub first_token: Average,
    /// Seconds per token after the first.
    pub per_token: Average,
    /// Seconds from sending to the last token.
    pub total: Average,
    /// Prompt tokens that were not cached.
    pub prompt: Average,
    /// Tokens of an answer.
    pub output: Average,
    /// Own requests that an endpoint answers at a time, as one that ends finds them.
    pub batch: Average,
    /// Prompt tokens a second, of an endpoint.
    pub prefill: Rate,
    /// Tokens of an answer a second, of a request.
    pub decode: Rate,
    /// Predicts the times of a request; none: nobody asked for it yet.
    pub forecast: Option<Box<Forecast>>,
}

impl Means {
    /// Prompt tokens of a request that an endpoint has to compute which is believed to have `cached`; of one whose tokens
    /// are not known, the mean.
    #[must_use]
    pub fn uncached(&self, work: Option<&Work>, cached: Cached) -> f64 {
        match work {
            Some(work) if work.prompt_tokens > 0 => {
                f64::from(work.prompt_tokens.saturating_sub(cached.tokens))
            }
            _ => self.usual_prompt(),
        }
    }

    /// Tokens of answer that a request is expected to get: what is predicted of it, else the mean, and never more than it
    /// asks for.
    #[must_use]
    pub fn expected(&self, work: Option<&Work>) -> f64 {
        let predicted = work.and_then(|work| work.expected_tokens).map(f64::from);
        let most = work.and_then(|work| work.max_tokens).map(f64::from);
        let expected = predicted.unwrap_or_else(|| self.usual_output());
        most.map_or(expected, |most| expected.min(most))
    }

    /// Times of a request of which nothing is known.
    pub(crate) fn usual(&self) -> Predicted {
        Predicted {
            first_token: self.first_token.mean().unwrap_or(0.0),
            per_token: self.per_token.mean().unwrap_or(0.0),
        }
    }

    pub(crate) fn forecast(&mut self) -> &mut Forecast {
        self.forecast.get_or_insert_default()
    }

    /// Prompt tokens to compute of a request of which nothing is known.
    pub(crate) fn usual_prompt(&self) -> f64 {
        self.prompt.mean().unwrap_or(PROMPT)
    }

    /// Tokens of answer of a request of which nothing is known.
    pub(crate) fn usual_output(&self) -> f64 {
        self.output.mean().unwrap_or(OUTPUT)
    }
}
