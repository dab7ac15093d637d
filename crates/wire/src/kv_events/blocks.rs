//! From an engine's names of its blocks to those that requests compute ([`chain`]).
//!
//! Kept is one entry for each block that the engine holds: its name there and here. vLLM does not merge equal blocks
//! that were computed at the same time: it says that a block is stored once a copy, and removed once a copy. So copies
//! are counted, and a block is gone with its last one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::batch::{Batch, Event, Stored};
use super::chain;

/// A change of what an engine's cache holds, in names of [`chain`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// These blocks came in, each behind the one before.
    Stored {
        /// The block before the first one; none at the beginning of a prompt.
        parent: Option<u64>,
        /// Never empty.
        blocks: Vec<u64>,
    },
    /// These blocks are gone.
    Removed {
        /// Never empty.
        blocks: Vec<u64>,
    },
    /// Nothing is held any more. From here on everything is known.
    Cleared,
    /// What is held is not known any more; what follows is a part of it.
    Lost,
}

/// What became of blocks that were not taken on, and of what was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placed {
    /// Blocks stored, copies included.
    pub stored: u64,
    /// Blocks removed, copies included.
    pub removed: u64,
    /// Blocks behind one that is not known: stored before the view began, or behind another such.
    pub orphans: u64,
    /// Blocks of another size than the engine's first one.
    pub other_size: u64,
    /// Blocks whose engine gives the name of another block to them.
    pub ambiguous: u64,
    /// Blocks beyond the most that are kept.
    pub over: u64,
    /// Removed blocks that were not known.
    pub strangers: u64,
}

/// A block that the engine holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    name: u64,
    /// Copies of it.
    copies: u32,
    /// The engine gives its name to other blocks as well, so nothing can be put behind it.
    ambiguous: bool,
}

/// Most groups of layers that are told apart; models have a handful.
const GROUPS_MAX: usize = 64;
/// Most adapters that are remembered.
const ADAPTERS_MAX: usize = 256;

/// The blocks that one engine holds.
#[derive(Debug)]
pub struct Blocks {
    held: HashMap<u64, Held, BuildHasherDefault<Mixer>>,
    block_size: Option<u32>,
    blocks_max: usize,
    /// Groups of layers that do not keep whole prefixes: their removals say nothing of a prefix. Few.
    windowed: Vec<u32>,
    /// Roots of the adapters that blocks were stored for.
    adapters: Vec<u64>,
    placed: Placed,
}

impl Blocks {
    /// No blocks yet, and never more than `blocks_max`.
    #[must_use]
    pub fn new(blocks_max: usize) -> Self {
        Self {
            held: HashMap::default(),
            block_size: None,
            blocks_max,
            windowed: Vec::new(),
            adapters: Vec::new(),
            placed: Placed::default(),
        }
    }

    /// How many different blocks are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Tokens of a block, once one was stored.
    #[must_use]
    pub fn block_size(&self) -> Option<u32> {
        self.block_size
    }

    /// [`chain::root`]s of the adapters that blocks were stored for, the first few hundred.
    #[must_use]
    pub fn adapters(&self) -> &[u64] {
        &self.adapters
    }

    /// What became of all blocks so far.
    #[must_use]
    pub fn placed(&self) -> Placed {
        self.placed
    }

    /// Forgets all blocks and what is known of the engine.
    pub fn clear(&mut self) {
        self.held.clear();
        self.held.shrink_to(self.blocks_max / 8);
        self.block_size = None;
        self.windowed.clear();
    }

    /// Takes on a batch.
    pub fn apply(&mut self, batch: Batch, changes: &mut Vec<Change>) {
        for event in batch.events {
            match event {
                Event::Stored(stored) => self.store(&stored, changes),
                Event::Removed { names, group } => {
                    if !group.is_some_and(|group| self.windowed.contains(&group)) {
                        self.remove(&names, changes);
                    }
                }
                Event::Cleared => {
                    self.held.clear();
                    changes.push(Change::Cleared);
                }
            }
        }
    }

    fn store(&mut self, stored: &Stored, changes: &mut Vec<Change>) {
        let count = stored.names.len() as u64;
        if !stored.whole {
            if let Some(group) = stored.group
                && !self.windowed.contains(&group)
                && self.windowed.len() < GROUPS_MAX
            {
                self.windowed.push(group);
            }
            return;
        }
        if *self.block_size.get_or_insert(stored.block_size) != stored.block_size {
            self.placed.other_size += count;
            return;
        }
        self.note_adapter(stored.root);
        let mut parent = match stored.parent.map(|name| self.held.get(&name)) {
            None => None,
            Some(Some(held)) if !held.ambiguous => Some(held.name),
            Some(_) => {
                self.placed.orphans += count;
                return;
            }
        };
        let mut run = Run {
            parent,
            blocks: Vec::new(),
        };
        let tokens = stored.tokens.chunks_exact(stored.block_size as usize);
        for (place, (theirs, tokens)) in stored.names.iter().zip(tokens).enumerate() {
            let added = stored.added.get(place).copied().unwrap_or(0);
            let name = chain::block(parent.unwrap_or(stored.root), tokens, added);
            match self.hold(*theirs, name) {
                Fate::New => run.blocks.push(name),
                Fate::Known => run.end(Some(name), changes),
                Fate::Refused(counter) => {
                    *counter(&mut self.placed) += 1;
                    self.placed.orphans += count - place as u64 - 1;
                    break;
                }
            }
            self.placed.stored += 1;
            parent = Some(name);
        }
        run.end(None, changes);
    }

    fn note_adapter(&mut self, root: u64) {
        let news = root != chain::root(None) && !self.adapters.contains(&root);
        if news && self.adapters.len() < ADAPTERS_MAX {
            self.adapters.push(root);
        }
    }

    fn hold(&mut self, theirs: u64, name: u64) -> Fate {
        let full = self.held.len() >= self.blocks_max;
        match self.held.entry(theirs) {
            std::collections::hash_map::Entry::Occupied(mut there) => {
                let held = there.get_mut();
                if held.name == name {
                    held.copies = held.copies.saturating_add(1);
                    return Fate::Known;
                }
                held.ambiguous = true;
                Fate::Refused(|placed| &mut placed.ambiguous)
            }
            std::collections::hash_map::Entry::Vacant(_) if full => Fate::Refused(|placed| &mut placed.over),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(Held {
                    name,
                    copies: 1,
                    ambiguous: false,
                });
                Fate::New
            }
        }
    }

    fn remove(&mut self, names: &[u64], changes: &mut Vec<Change>) {
        let mut blocks = Vec::new();
        for theirs in names {
            let Some(held) = self.held.get_mut(theirs) else {
                self.placed.strangers += 1;
                continue;
            };
            self.placed.removed += 1;
            // Of blocks that share a name, which one is gone is not known: all count as gone.
            held.copies = if held.ambiguous { 0 } else { held.copies - 1 };
            if held.copies == 0 {
                blocks.push(held.name);
                self.held.remove(theirs);
            }
        }
        if !blocks.is_empty() {
            changes.push(Change::Removed { blocks });
        }
    }
}

/// What happened to a stored block.
enum Fate {
    New,
    Known,
    /// It is not held, for the reason that this counter counts.
    Refused(fn(&mut Placed) -> &mut u64),
}

/// New blocks in a row.
struct Run {
    parent: Option<u64>,
    blocks: Vec<u64>,
}

impl Run {
    /// Says what came in so far; the next one stands behind `parent`.
    fn end(&mut self, parent: Option<u64>, changes: &mut Vec<Change>) {
        if !self.blocks.is_empty() {
            changes.push(Change::Stored {
                parent: self.parent,
                blocks: std::mem::take(&mut self.blocks),
            });
        }
        self.parent = parent;
    }
}

/// Engines' names are hashes already, or numbers that an engine chose: one multiplication spreads them.
#[derive(Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (number ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[cfg(test)]
mod tests;
