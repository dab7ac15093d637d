//! Which endpoint holds how many leading blocks of a prompt.

use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Chain hash of a block of a prompt: covers the block and all before it, so equal hashes are equal prompts so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockHash(pub u64);

/// Endpoints that hold leading blocks of a prompt, by slot, with how many.
#[derive(Clone, Debug, Default)]
pub struct Matches(pub Vec<(u32, u32)>);

/// Who holds which blocks.
#[derive(Clone, Debug, Default)]
pub struct PrefixIndex(BTreeMap<BlockHash, BTreeSet<u32>>);

impl PrefixIndex {
    /// The holder now holds all of `chain`.
    pub fn store(&mut self, holder: u32, chain: &[BlockHash], _now: Time) {
        for block in chain {
            self.0.entry(*block).or_default().insert(holder);
        }
    }

    /// Appends every holder of the first block with the blocks it holds in a row.
    pub fn matches(&self, chain: &[BlockHash], found: &mut Matches) {
        let holders = chain.first().and_then(|block| self.0.get(block));
        for holder in holders.into_iter().flatten() {
            let held = |block: &&BlockHash| self.0.get(block).is_some_and(|all| all.contains(holder));
            let blocks = chain.iter().take_while(held).count();
            found.0.push((*holder, u32::try_from(blocks).unwrap_or(u32::MAX)));
        }
    }

    /// Blocks were stored behind `parent`.
    pub fn stored(&mut self, holder: u32, _parent: Option<BlockHash>, blocks: &[BlockHash]) {
        self.store(holder, blocks, Time::ZERO);
    }

    /// Blocks were given up.
    pub fn removed(&mut self, holder: u32, blocks: &[BlockHash]) {
        for block in blocks {
            if let Some(holders) = self.0.get_mut(block) {
                holders.remove(&holder);
                if holders.is_empty() {
                    self.0.remove(block);
                }
            }
        }
    }

    /// The holder holds nothing any more.
    pub fn cleared(&mut self, holder: u32) {
        self.0.retain(|_, holders| {
            holders.remove(&holder);
            !holders.is_empty()
        });
    }
}
