//! One piece of work inside the engine.

use super::blocks::{BlockId, BlockPool};
use super::{Time, Work};
use crate::coefficients::Batch;

/// Work with what is computed of it.
#[derive(Clone)]
pub(super) struct Sequence {
    pub(super) work: Work,
    pub(super) arrived: Time,
    pub(super) generated: u32,
    /// Tokens whose cache entries exist, or will at the end of the iteration in flight less `step`.
    pub(super) computed: u32,
    /// Tokens that the iteration in flight computes.
    pub(super) step: u32,
    pub(super) held: Vec<BlockId>,
    /// The first admission: when, and prompt tokens found in the cache.
    pub(super) admitted: Option<(Time, u32)>,
}

impl Sequence {
    pub(super) fn new(work: Work, arrived: Time) -> Self {
        Self {
            work,
            arrived,
            generated: 0,
            computed: 0,
            step: 0,
            held: Vec::new(),
            admitted: None,
        }
    }

    /// Prompt and what is generated so far.
    pub(super) fn known_tokens(&self) -> u32 {
        self.work.prompt_tokens.saturating_add(self.generated)
    }

    /// Leading blocks that may come out of the cache. The last token is always computed, since the next one comes
    /// out of it.
    pub(super) fn reusable(&self, block_size: u32) -> &[super::BlockHash] {
        let whole = ((self.known_tokens() - 1) / block_size) as usize;
        &self.work.blocks[..self.work.blocks.len().min(whole)]
    }

    /// Whether the iteration in flight computes the one token that follows generated ones.
    pub(super) fn decodes(&self) -> bool {
        self.step == 1 && self.generated > 0 && self.computed + 1 == self.known_tokens()
    }

    /// Makes sure that blocks for `step` more tokens are held, and names those that become full. False when there are
    /// too few; those found so far stay held.
    pub(super) fn reserve(&mut self, step: u32, block_size: u32, pool: &mut BlockPool) -> bool {
        let tokens = self.computed + step;
        while (self.held.len() as u32) < tokens.div_ceil(block_size) {
            let Some(block) = pool.take() else {
                return false;
            };
            self.held.push(block);
        }
        let full = (self.computed / block_size) as usize..(tokens / block_size) as usize;
        for place in full {
            self.fill(place, pool);
        }
        true
    }

    /// Names the block at `place` of those held, now that it is full. Where the work does not say what stands there nothing happens.
    pub(super) fn fill(&self, place: usize, pool: &mut BlockPool) {
        if let (Some(block), Some(hash)) = (self.held.get(place), self.work.blocks.get(place)) {
            let before = place
                .checked_sub(1)
                .and_then(|before| self.work.blocks.get(before));
            pool.name(*block, (before.copied(), *hash));
        }
    }

    /// Enters the share of an iteration into its batch.
    pub(super) fn book(&mut self, step: u32, batch: &mut Batch) {
        self.step = step;
        let (known, computed) = (self.known_tokens(), self.computed);
        batch.tokens += u64::from(step);
        batch.sequences += u64::from(step > 0 && computed + step == known);
        // One token that follows generated ones is a decode; anything longer, or the prompt's end, is prefill.
        if self.decodes() {
            batch.context_tokens += u64::from(known);
        } else if step > 0 {
            batch.prefill_tokens += u64::from(step);
            batch.prefill_pairs += f64::from(step) * (f64::from(computed) + (f64::from(step) + 1.0) / 2.0);
        }
    }
}
