//! A prefix cache of a fixed number of blocks, the least recently used one evicted first.

use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// What changed, in the engine's own names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Blocks were computed.
    Stored {
        /// Digests, one a block.
        names: Vec<[u8; 32]>,
        /// The block before the first.
        parent: Option<[u8; 32]>,
        /// Of all of them.
        tokens: Vec<u32>,
    },
    /// A block was evicted.
    Removed {
        /// Its digest.
        name: [u8; 32],
    },
    /// All blocks were.
    Cleared,
}

#[derive(Clone, Debug)]
struct Slot {
    name: [u8; 32],
    /// All tokens of the prompt up to the end of this block.
    prefix: Vec<u32>,
    used: u64,
}

/// An engine's prefix cache.
#[derive(Clone, Debug)]
pub struct Cache {
    block_size: usize,
    capacity: usize,
    slots: Vec<Slot>,
    now: u64,
    events: Vec<Event>,
}

impl Cache {
    /// An empty one of `capacity` blocks.
    #[must_use]
    pub fn new(block_size: usize, capacity: usize) -> Cache {
        Cache {
            block_size,
            capacity,
            slots: Vec::new(),
            now: 0,
            events: Vec::new(),
        }
    }

    /// Tokens of a block.
    #[must_use]
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Computes a prompt, as often as `copies` says at the same time: equal blocks are then there more than once, since
    /// a block is found by others only once it is full. Says how many tokens were cached.
    pub fn run(&mut self, prompt: &[u32], copies: usize) -> usize {
        self.now += 1;
        let names = self.names(prompt);
        let cached = names
            .iter()
            .take_while(|name| self.slots.iter().any(|slot| slot.name == **name))
            .count();
        for slot in &mut self.slots {
            if names[..cached].contains(&slot.name) {
                slot.used = self.now;
            }
        }
        for _ in 0..copies {
            self.store(prompt, &names, cached);
        }
        cached * self.block_size
    }

    fn store(&mut self, prompt: &[u32], names: &[[u8; 32]], cached: usize) {
        let mut stored = 0;
        for (place, name) in names.iter().enumerate().skip(cached) {
            if self.slots.len() >= self.capacity && !self.evict() {
                break;
            }
            let prefix = prompt[..(place + 1) * self.block_size].to_vec();
            self.slots.push(Slot {
                name: *name,
                prefix,
                used: self.now,
            });
            stored += 1;
        }
        if stored > 0 {
            self.events.push(Event::Stored {
                names: names[cached..cached + stored].to_vec(),
                parent: cached.checked_sub(1).map(|last| names[last]),
                tokens: prompt[cached * self.block_size..(cached + stored) * self.block_size].to_vec(),
            });
        }
    }

    /// Evicts the least recently used block, the deepest first; those of the prompt at hand are in use.
    fn evict(&mut self) -> bool {
        let oldest = (0..self.slots.len())
            .filter(|place| self.slots[*place].used < self.now)
            .min_by_key(|place| {
                (
                    self.slots[*place].used,
                    usize::MAX - self.slots[*place].prefix.len(),
                )
            });
        let Some(place) = oldest else { return false };
        let name = self.slots.swap_remove(place).name;
        self.events.push(Event::Removed { name });
        true
    }

    /// Evicts everything, as after a change of weights.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.events.push(Event::Cleared);
    }

    /// What changed since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// The tokens of every prefix that is held.
    #[must_use]
    pub fn prefixes(&self) -> HashSet<Vec<u32>> {
        self.slots.iter().map(|slot| slot.prefix.clone()).collect()
    }

    fn names(&self, prompt: &[u32]) -> Vec<[u8; 32]> {
        let mut parent = [0; 32];
        let mut names = Vec::new();
        for tokens in prompt.chunks_exact(self.block_size) {
            let mut digest = Sha256::new();
            digest.update(parent);
            for token in tokens {
                digest.update(token.to_le_bytes());
            }
            parent = digest.finalize().into();
            names.push(parent);
        }
        names
    }
}
