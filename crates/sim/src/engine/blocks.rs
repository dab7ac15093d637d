//! The KV cache in blocks: reference counts, reuse by content, least recently used first out.
//!
//! After vLLM's automatic prefix caching: a block that nobody holds keeps its content and its place in a queue of
//! free blocks. A prompt with the same beginning takes it back; otherwise it is overwritten when its turn comes.
//! Holders return their blocks last first, so the tail of a prompt goes before its head.
//!
//! Memory follows use: a block costs nothing until it is taken for the first time, so a fleet of a thousand engines
//! with large caches pays for what their work touches.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use weighbridge_core::prefix;
use weighbridge_core::signals::CacheChange;

/// Content of a block and of all blocks before it in its sequence.
pub type BlockHash = u64;

/// Index of a block in the pool.
pub(super) type BlockId = u32;

/// End of the free queue.
const NONE: BlockId = BlockId::MAX;

#[derive(Clone)]
struct Block {
    /// Means something only while `named`.
    content: BlockHash,
    holders: u32,
    before: BlockId,
    after: BlockId,
    named: bool,
}

/// Spreads block hashes, some of which are counters, over a table: one multiplication, its halves folded.
#[derive(Default)]
struct Fold(u64);

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// All blocks of a cache. The free ones form a doubly linked queue, so that a hit leaves its middle in constant time.
#[derive(Clone)]
pub(super) struct BlockPool {
    /// Those that were taken at least once; the others are free, without content, and the first to go.
    blocks: Vec<Block>,
    by_content: HashMap<BlockHash, BlockId, BuildHasherDefault<Fold>>,
    size: u32,
    oldest: BlockId,
    newest: BlockId,
    free: u32,
    /// What was stored and given up since somebody took it down last; none: nobody wants to know.
    told: Option<Vec<CacheChange>>,
}

impl BlockPool {
    pub(super) fn new(size: u32) -> Self {
        Self {
            blocks: Vec::new(),
            by_content: HashMap::default(),
            size,
            oldest: NONE,
            newest: NONE,
            free: size,
            told: None,
        }
    }

    pub(super) fn total(&self) -> u32 {
        self.size
    }

    /// Blocks that nobody holds, with or without content.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// How many of the leading `wanted` blocks are here, and how many of those nobody holds.
    pub(super) fn find(&self, wanted: &[BlockHash]) -> (u32, u32) {
        let (mut found, mut unheld) = (0, 0);
        for hash in wanted {
            let Some(&id) = self.by_content.get(hash) else {
                break;
            };
            found += 1;
            unheld += u32::from(self.blocks[id as usize].holders == 0);
        }
        (found, unheld)
    }

    /// Holds the block with this content, if it is here.
    pub(super) fn hold(&mut self, hash: BlockHash) -> Option<BlockId> {
        let id = *self.by_content.get(&hash)?;
        if self.blocks[id as usize].holders == 0 {
            self.unlink(id);
        }
        self.blocks[id as usize].holders += 1;
        Some(id)
    }

    /// Takes the free block that was used least recently; its content is lost. `None` when all are held.
    pub(super) fn take(&mut self) -> Option<BlockId> {
        let untouched = self.blocks.len() as u32;
        if untouched < self.size {
            self.blocks.push(Block {
                content: 0,
                holders: 1,
                before: NONE,
                after: NONE,
                named: false,
            });
            self.free -= 1;
            return Some(untouched);
        }
        let id = self.oldest;
        if id == NONE {
            return None;
        }
        self.unlink(id);
        let block = &mut self.blocks[id as usize];
        block.holders = 1;
        if std::mem::take(&mut block.named) {
            let content = block.content;
            self.by_content.remove(&content);
            self.tell_removed(content);
        }
        Some(id)
    }

    /// Says what a held block contains, and what the one before it in its prompt, so that others can find it. Content that is here
    /// already stays where it is.
    pub(super) fn name(&mut self, id: BlockId, (before, hash): (Option<BlockHash>, BlockHash)) {
        let block = &mut self.blocks[id as usize];
        if !block.named
            && let Entry::Vacant(place) = self.by_content.entry(hash)
        {
            place.insert(id);
            block.content = hash;
            block.named = true;
            self.tell_stored(before, hash);
        }
    }

    /// From here on it is kept what is stored and given up.
    pub(super) fn tell(&mut self) {
        self.told.get_or_insert_default();
    }

    /// What was stored and given up since the last call, in order.
    pub(super) fn take_told(&mut self) -> Vec<CacheChange> {
        self.told.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn tell_stored(&mut self, before: Option<BlockHash>, hash: BlockHash) {
        let Some(told) = &mut self.told else { return };
        let (before, hash) = (before.map(prefix::BlockHash), prefix::BlockHash(hash));
        match told.last_mut() {
            Some(CacheChange::Stored { blocks, .. })
                if before.is_some() && blocks.last() == before.as_ref() =>
            {
                blocks.push(hash);
            }
            _ => told.push(CacheChange::Stored {
                parent: before,
                blocks: vec![hash],
            }),
        }
    }

    fn tell_removed(&mut self, hash: BlockHash) {
        let Some(told) = &mut self.told else { return };
        match told.last_mut() {
            Some(CacheChange::Removed { blocks }) => blocks.push(prefix::BlockHash(hash)),
            _ => told.push(CacheChange::Removed {
                blocks: vec![prefix::BlockHash(hash)],
            }),
        }
    }

    /// Gives back one hold on each of `held`, last first.
    pub(super) fn release(&mut self, held: &mut Vec<BlockId>) {
        while let Some(id) = held.pop() {
            let block = &mut self.blocks[id as usize];
            block.holders = block.holders.saturating_sub(1);
            if block.holders == 0 {
                self.enqueue(id);
            }
        }
    }

    fn enqueue(&mut self, id: BlockId) {
        let before = self.newest;
        let block = &mut self.blocks[id as usize];
        block.before = before;
        block.after = NONE;
        match before {
            NONE => self.oldest = id,
            _ => self.blocks[before as usize].after = id,
        }
        self.newest = id;
        self.free += 1;
    }

    fn unlink(&mut self, id: BlockId) {
        let Block { before, after, .. } = self.blocks[id as usize];
        match before {
            NONE => self.oldest = after,
            _ => self.blocks[before as usize].after = after,
        }
        match after {
            NONE => self.newest = before,
            _ => self.blocks[after as usize].before = before,
        }
        self.free -= 1;
    }

    /// Sum of all holds, counted afresh.
    #[cfg(test)]
    pub(super) fn holds(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.holders)).sum()
    }

    /// Checks the queue and the index against the blocks.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let (mut id, mut queued, mut before) = (self.oldest, 0, NONE);
        while id != NONE {
            let block = &self.blocks[id as usize];
            assert_eq!(block.holders, 0, "a held block is in the free queue");
            assert_eq!(block.before, before, "the free queue's links disagree");
            (queued, before, id) = (queued + 1, id, block.after);
        }
        assert_eq!(self.newest, before);
        assert_eq!(queued + self.size - self.blocks.len() as u32, self.free);
        let unheld = self.blocks.iter().filter(|block| block.holders == 0).count();
        assert_eq!(unheld as u32, queued, "a block is neither held nor free");
        for (hash, &id) in &self.by_content {
            let block = &self.blocks[id as usize];
            assert_eq!((block.named, block.content), (true, *hash), "the index is stale");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_goes_first_and_the_tail_before_the_head() {
        let mut pool = BlockPool::new(4);
        let mut first: Vec<_> = (0..2).filter_map(|_| pool.take()).collect();
        pool.name(first[0], (None, 10));
        pool.name(first[1], (None, 11));
        let mut second: Vec<_> = (0..2).filter_map(|_| pool.take()).collect();
        pool.name(second[0], (None, 20));
        pool.name(second[1], (None, 21));
        pool.release(&mut first);
        pool.release(&mut second);
        pool.check();
        let mut held = vec![pool.take().unwrap()];
        assert_eq!(
            pool.find(&[10, 11]),
            (1, 1),
            "the tail of the older sequence went first"
        );
        held.extend(pool.hold(10));
        held.push(pool.take().unwrap());
        assert_eq!(pool.find(&[20, 21]), (1, 1));
        pool.release(&mut held);
        pool.check();
        assert_eq!((pool.free(), pool.holds()), (4, 0));
    }

    #[test]
    fn what_is_stored_and_given_up_is_told_in_order() {
        let mut pool = BlockPool::new(3);
        let mut before: Vec<_> = pool.take().into_iter().collect();
        pool.name(before[0], (None, 5));
        pool.release(&mut before);
        assert_eq!(pool.take_told(), [], "nobody asked");
        pool.tell();
        let mut held: Vec<_> = (0..2).filter_map(|_| pool.take()).collect();
        pool.name(held[0], (None, 10));
        pool.name(held[1], (Some(10), 11));
        // A copy of what is there is nothing new, and what comes behind it belongs behind what is there.
        let copy = pool.take().unwrap();
        pool.name(copy, (None, 10));
        pool.name(copy, (Some(11), 12));
        held.push(copy);
        pool.release(&mut held);
        held.extend((0..2).filter_map(|_| pool.take()));
        let hash = prefix::BlockHash;
        assert_eq!(
            pool.take_told(),
            [
                CacheChange::Stored {
                    parent: None,
                    blocks: vec![hash(10), hash(11)]
                },
                CacheChange::Removed {
                    blocks: vec![hash(5)]
                },
                CacheChange::Stored {
                    parent: Some(hash(11)),
                    blocks: vec![hash(12)]
                },
                CacheChange::Removed {
                    blocks: vec![hash(12), hash(11)]
                },
            ]
        );
        assert_eq!(pool.take_told(), [], "told once");
        pool.release(&mut held);
        pool.check();
    }

    #[test]
    fn equal_content_is_found_once_and_survives_its_copy() {
        let mut pool = BlockPool::new(2);
        let mut held: Vec<_> = (0..2).filter_map(|_| pool.take()).collect();
        pool.name(held[0], (None, 7));
        pool.name(held[1], (None, 7));
        pool.check();
        assert!(pool.take().is_none());
        pool.release(&mut held);
        assert_eq!(pool.find(&[7]), (1, 1));
    }
}
