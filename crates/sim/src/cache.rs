//! A prefix cache in its simplest form: which blocks are there, the least recently used goes first.
//!
//! No time passes in it and nothing is held by running requests, so hit ratios of ways to route can be compared on a
//! trace without an engine: a request hits the leading run of its blocks that are resident, then all its blocks become
//! the most recent, its tail before its head. So a head outlives its tails, as it does in engines that give back the
//! blocks of a sequence last first.
//!
//! A content that has been used is one of the `capacity` most recently used, or it is gone: nothing else decides.

use crate::engine::BlockHash;
use crate::text::mix;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// End of the list.
const NONE: u32 = u32::MAX;

/// Spreads block hashes, which may be small numbers, over the table. They come from the user's own traces, so there is
/// nobody who makes them collide.
#[derive(Clone, Default)]
pub struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, block: u64) {
        self.0 = mix(self.0 ^ block);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Something for each of some blocks.
pub type ByBlock<T> = HashMap<BlockHash, T, BuildHasherDefault<Spread>>;

/// A block's place in the list from the least to the most recently used.
#[derive(Clone, Debug)]
struct Slot {
    block: BlockHash,
    older: u32,
    newer: u32,
}

/// Blocks of one instance's cache.
#[derive(Clone, Debug)]
pub struct PrefixCache {
    capacity: usize,
    slots: Vec<Slot>,
    places: ByBlock<u32>,
    oldest: u32,
    newest: u32,
}

impl PrefixCache {
    /// Holds at most `blocks`, and never more than 2^32 − 1; with 0 it never holds any.
    #[must_use]
    pub fn with_capacity(blocks: usize) -> Self {
        Self {
            capacity: blocks.min(NONE as usize),
            slots: Vec::new(),
            places: ByBlock::default(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// Never evicts: the most that a trace can hit.
    #[must_use]
    pub fn unbounded() -> Self {
        Self::with_capacity(usize::MAX)
    }

    /// How many of the leading `blocks` are here. Changes nothing.
    #[must_use]
    pub fn leading(&self, blocks: &[BlockHash]) -> usize {
        blocks
            .iter()
            .take_while(|block| self.places.contains_key(block))
            .count()
    }

    /// All of `blocks` are now here and the most recent, the first of them most of all; what exceeds the capacity goes.
    pub fn insert(&mut self, blocks: &[BlockHash]) {
        if self.capacity == 0 {
            return;
        }
        for block in blocks.iter().rev() {
            let place = match self.places.get(block) {
                Some(place) => self.unlink(*place),
                None => self.place_for(*block),
            };
            self.append(place);
        }
    }

    /// A slot outside of the list that holds `block`: a new one, or that of the oldest block.
    fn place_for(&mut self, block: BlockHash) -> u32 {
        let place = if self.slots.len() < self.capacity {
            self.slots.push(Slot {
                block,
                older: NONE,
                newer: NONE,
            });
            self.slots.len() as u32 - 1
        } else {
            let oldest = self.unlink(self.oldest);
            self.places.remove(&self.slots[oldest as usize].block);
            self.slots[oldest as usize].block = block;
            oldest
        };
        self.places.insert(block, place);
        place
    }

    fn unlink(&mut self, place: u32) -> u32 {
        let Slot { older, newer, .. } = self.slots[place as usize];
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        place
    }

    fn append(&mut self, place: u32) {
        let newest = std::mem::replace(&mut self.newest, place);
        match self.slots.get_mut(newest as usize) {
            Some(slot) => slot.newer = place,
            None => self.oldest = place,
        }
        let slot = &mut self.slots[place as usize];
        (slot.older, slot.newer) = (newest, NONE);
    }

    /// Blocks that are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// Prompt tokens that `blocks` cached leading blocks save: never the last one, which an engine computes in any case to
/// have something to continue from.
#[must_use]
pub fn hit_tokens(blocks: usize, block_tokens: u32, prompt_tokens: u32) -> u32 {
    let tokens = u64::try_from(blocks)
        .unwrap_or(u64::MAX)
        .saturating_mul(u64::from(block_tokens));
    u32::try_from(tokens)
        .unwrap_or(u32::MAX)
        .min(prompt_tokens.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tails_go_before_heads() {
        let mut cache = PrefixCache::with_capacity(4);
        cache.insert(&[1, 2, 3]);
        cache.insert(&[7, 8]);
        assert_eq!(cache.leading(&[1, 2, 3]), 2);
        assert_eq!(cache.leading(&[7, 8]), 2);
        cache.insert(&[1]);
        cache.insert(&[9]);
        assert_eq!(cache.leading(&[1, 2]), 1, "2 was the oldest");
        assert_eq!((cache.leading(&[8]), cache.len()), (1, 4));
    }

    #[test]
    fn a_run_ends_at_the_first_gap_and_the_last_token_is_computed() {
        let mut cache = PrefixCache::unbounded();
        assert!(cache.is_empty());
        cache.insert(&[1, 3]);
        assert_eq!(cache.leading(&[1, 2, 3]), 1);
        assert_eq!(hit_tokens(2, 512, 2000), 1024);
        assert_eq!(hit_tokens(2, 512, 1024), 1023);
        assert_eq!(hit_tokens(3, 512, 1030), 1029);
        assert_eq!(hit_tokens(0, 512, 1), 0);
    }

    proptest! {
        /// Against the definition: the last `capacity` contents that were used.
        #[test]
        fn holds_what_was_used_last(
            capacity in 0_usize..12,
            chains in prop::collection::vec(prop::collection::vec(0_u64..20, 0..6), 0..30),
        ) {
            let (mut cache, mut used) = (PrefixCache::with_capacity(capacity), Vec::new());
            for chain in &chains {
                cache.insert(chain);
                used.extend(chain.iter().rev());
            }
            let mut recent = Vec::new();
            for block in used.into_iter().rev() {
                if !recent.contains(&block) {
                    recent.push(block);
                }
            }
            recent.truncate(capacity);
            prop_assert_eq!(cache.len(), recent.len());
            for block in 0..20 {
                prop_assert_eq!(cache.leading(&[block]) == 1, recent.contains(&block));
            }
        }
    }
}
