//! What the endpoints of a pool have in common and is learned.

use crate::engine::decay::{Average, Line, Rate, Share};
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
    /// How many of its prompts go on with a conversation.
    pub(crate) turns: Turns,
}

/// Bytes by which questions about one text are known as such: 4,000 tokens.
const HEAD_BYTES: u64 = 16 << 10;

/// The share of prompts that go on after an answer, of late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    seen: u16,
    later: f32,
}

impl Turns {
    /// How much of the share a new prompt is.
    const NEWEST: f32 = 1.0 / 64.0;
    /// From this share on prompts are taken for turns of conversations: two turns each, or half of all with many.
    const CONVERSATIONS: f32 = 0.4;

    /// A prompt was sent.
    pub(crate) fn observe(&mut self, work: &Work) {
        let Some(opening) = work.opening else { return };
        // At first all prompts count alike.
        self.seen = self.seen.saturating_add(1);
        let newest = Self::NEWEST.max(1.0 / f32::from(self.seen));
        let later = work.blocks.len() > opening.blocks as usize;
        self.later += newest * (f32::from(u8::from(later)) - self.later);
    }
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

    /// Most bytes of a prompt by which requests that share a cache are known, see [`Work::head`]: where most prompts are turns of
    /// conversations all that opens them, so that no system prompt is too long; else what questions about one text share.
    #[must_use]
    pub fn head_bytes(&self) -> u64 {
        if self.turns.later >= Turns::CONVERSATIONS {
            u64::MAX
        } else {
            HEAD_BYTES
        }
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
    /// Prompt tokens and the seconds that an endpoint took for them: their quotient, and a line.
    pub prefill: Line,
    /// Of the prompt tokens that were believed cached, those that engines say were.
    pub held: Share,
    /// Tokens of an answer a second, of a request.
    pub decode: Rate,
    /// Share of the answers whose first token was not told of, as those that come in one piece.
    pub untold: Average,
    /// Requests at an endpoint as its engine tells, and own ones there at that moment.
    pub told: Average,
    /// See [`Self::told`].
    pub own: Average,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::BlockHash;
    use crate::work::Opening;

    #[test]
    fn conversations_are_known_by_all_that_opens_them_and_questions_by_their_beginning() {
        let prompt = |opening: Option<u32>| Work {
            blocks: (0..10).map(BlockHash).collect(),
            opening: opening.map(|blocks| Opening {
                blocks,
                hash: BlockHash(99),
            }),
            ..Work::default()
        };
        let mut pool = Pool::default();
        let see =
            |pool: &mut Pool, work: &Work, times: u32| (0..times).for_each(|_| pool.turns.observe(work));
        assert_eq!(pool.head_bytes(), HEAD_BYTES, "nothing is known");
        see(&mut pool, &prompt(Some(10)), 6);
        see(&mut pool, &prompt(None), 100);
        assert_eq!(pool.head_bytes(), HEAD_BYTES, "all begin");
        see(&mut pool, &prompt(Some(4)), 4);
        assert_eq!(pool.head_bytes(), u64::MAX, "four of ten go on");
        see(&mut pool, &prompt(Some(10)), 64);
        assert_eq!(pool.head_bytes(), HEAD_BYTES, "that was long ago");
    }
}
