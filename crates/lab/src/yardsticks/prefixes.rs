//! Beginnings of prompts, and routers' memories of where they went.
//!
//! Routers of this field keep a tree over characters or tokens, or a table of chained block hashes. The workload's
//! chained hashes serve for both: equal hashes mean equal text up to there, so a set of them is the tree.

use std::borrow::Cow;
use std::time::Duration;
use weighbridge_sim::cache::ByBlock;
use weighbridge_sim::engine::BlockHash;
use weighbridge_sim::text::mix;
use weighbridge_sim::workload::Request;

/// Size of a workload's blocks.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// Tokens of one.
    pub tokens: u32,
}

impl Blocks {
    /// Blocks of a workload that counts so many tokens each; of 16, a usual engine's, where it has no blocks.
    #[must_use]
    pub fn new(tokens: u32) -> Self {
        Self {
            tokens: if tokens == 0 { 16 } else { tokens },
        }
    }

    /// The whole blocks of a prompt; what follows them is the answer's.
    pub fn of(self, request: &Request) -> &[BlockHash] {
        let whole = (request.prompt_tokens / self.tokens.max(1)) as usize;
        &request.blocks[..whole.min(request.blocks.len())]
    }

    /// The prompt in blocks of at least `tokens`, and how many tokens those have: a router's own blocks, which are no
    /// finer than the workload tells.
    pub fn coarse(self, request: &Request, tokens: u32) -> (Cow<'_, [BlockHash]>, u32) {
        let of = (tokens / self.tokens.max(1)).max(1) as usize;
        if of == 1 {
            return (self.of(request).into(), self.tokens);
        }
        // The last hash of each group stands for all before it too.
        let groups = self.of(request).chunks_exact(of);
        (
            groups.map(|group| group[of - 1]).collect(),
            of as u32 * self.tokens,
        )
    }

    /// Prompt tokens that `found` leading blocks save: all but the last, which is always computed.
    pub fn saved(self, found: usize, request: &Request) -> u32 {
        (found as u32)
            .saturating_mul(self.tokens)
            .min(request.prompt_tokens.saturating_sub(1))
    }
}

/// End of a list.
const NONE: u32 = u32::MAX;

/// A block in the list from the least to the most recently sent.
#[derive(Clone, Copy, Debug)]
struct Place {
    block: BlockHash,
    size: u32,
    older: u32,
    newer: u32,
    sent: Duration,
}

/// What a router believes that one endpoint holds: blocks that were sent there, the least recently sent forgotten first.
///
/// A prompt's tail is older than its head. So the head of a chain is there whenever its tail is.
#[derive(Clone, Debug)]
pub struct Memory {
    list: Vec<Place>,
    /// Places of the list that hold nothing.
    free: Vec<u32>,
    of: ByBlock<u32>,
    oldest: u32,
    newest: u32,
    size: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            free: Vec::new(),
            of: ByBlock::default(),
            oldest: NONE,
            newest: NONE,
            size: 0,
        }
    }
}

impl Memory {
    /// How many of the leading blocks are here.
    #[must_use]
    pub fn leading(&self, blocks: &[BlockHash]) -> usize {
        blocks.partition_point(|block| self.of.contains_key(block))
    }

    /// Notes a prompt: its blocks, each of `size`.
    pub fn note(&mut self, blocks: &[BlockHash], size: u32) {
        self.note_at(Duration::ZERO, blocks, size);
    }

    /// The same with the time, for [`Memory::forget_before`].
    pub fn note_at(&mut self, sent: Duration, blocks: &[BlockHash], size: u32) {
        for block in blocks.iter().rev() {
            let at = match self.of.get(block) {
                Some(at) => {
                    let at = *at;
                    self.unlink(at);
                    at
                }
                None => self.add(*block, size),
            };
            self.append(at, sent);
        }
    }

    /// Notes the rest of prompt number `index`, which nobody else has.
    pub fn note_tail(&mut self, index: usize, size: u32) {
        self.note(&[mix(!(index as u64))], size);
    }

    /// Sum of the sizes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Forgets until no more than `size` is left.
    pub fn shrink_to(&mut self, size: u64) {
        while self.size > size && self.oldest != NONE {
            self.forget_oldest();
        }
    }

    /// Forgets what was last sent before `time`.
    pub fn forget_before(&mut self, time: Duration) {
        while self
            .list
            .get(self.oldest as usize)
            .is_some_and(|oldest| oldest.sent < time)
        {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let at = self.oldest;
        self.unlink(at);
        let Place { block, size, .. } = self.list[at as usize];
        self.of.remove(&block);
        self.free.push(at);
        self.size -= u64::from(size);
    }

    /// A place outside of the list for a block that is not here.
    fn add(&mut self, block: BlockHash, size: u32) -> u32 {
        let place = Place {
            block,
            size,
            older: NONE,
            newer: NONE,
            sent: Duration::ZERO,
        };
        self.size += u64::from(size);
        let at = if let Some(at) = self.free.pop() {
            self.list[at as usize] = place;
            at
        } else {
            self.list.push(place);
            self.list.len() as u32 - 1
        };
        self.of.insert(block, at);
        at
    }

    fn unlink(&mut self, at: u32) {
        let Place { older, newer, .. } = self.list[at as usize];
        match self.list.get_mut(older as usize) {
            Some(place) => place.newer = newer,
            None => self.oldest = newer,
        }
        match self.list.get_mut(newer as usize) {
            Some(place) => place.older = older,
            None => self.newest = older,
        }
    }

    fn append(&mut self, at: u32, sent: Duration) {
        let newest = std::mem::replace(&mut self.newest, at);
        match self.list.get_mut(newest as usize) {
            Some(place) => place.newer = at,
            None => self.oldest = at,
        }
        let place = &mut self.list[at as usize];
        (place.older, place.newer, place.sent) = (newest, NONE, sent);
    }
}

/// A memory for each endpoint.
#[derive(Clone, Debug, Default)]
pub struct Memories(Vec<Memory>);

impl Memories {
    /// That of an endpoint.
    pub fn at(&mut self, endpoint: usize) -> &mut Memory {
        if self.0.len() <= endpoint {
            self.0.resize_with(endpoint + 1, Memory::default);
        }
        &mut self.0[endpoint]
    }

    /// How many of the leading blocks an endpoint has.
    #[must_use]
    pub fn leading(&self, endpoint: usize, blocks: &[BlockHash]) -> usize {
        self.0.get(endpoint).map_or(0, |memory| memory.leading(blocks))
    }

    /// What an endpoint's memory holds.
    #[must_use]
    pub fn size(&self, endpoint: usize) -> u64 {
        self.0.get(endpoint).map_or(0, Memory::size)
    }

    /// All of them.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Memory> {
        self.0.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_oldest_tail_is_forgotten_first() {
        let mut memory = Memory::default();
        memory.note(&[1, 2, 3], 10);
        memory.note(&[1, 4], 10);
        assert_eq!(memory.size(), 40);
        memory.shrink_to(30);
        assert_eq!((memory.leading(&[1, 2, 3]), memory.leading(&[1, 4])), (2, 2));
        memory.shrink_to(15);
        assert_eq!((memory.leading(&[1, 2, 3]), memory.leading(&[1, 4])), (1, 1));
        memory.shrink_to(0);
        assert_eq!((memory.size(), memory.leading(&[1])), (0, 0));
    }

    #[test]
    fn coarse_blocks_are_whole_groups_of_the_prompt() {
        let request = crate::yardsticks::stage::prompt(&[1, 2, 3, 4, 5], 7);
        let blocks = Blocks { tokens: 16 };
        assert_eq!(blocks.coarse(&request, 32), (vec![2, 4].into(), 32));
        assert_eq!(blocks.coarse(&request, 8), (vec![1, 2, 3, 4, 5].into(), 16));
        assert_eq!(blocks.saved(2, &request), 32);
        let answered = Request {
            prompt_tokens: 40,
            ..request
        };
        assert_eq!(
            (blocks.of(&answered), blocks.saved(9, &answered)),
            ([1, 2].as_slice(), 39)
        );
    }

    #[test]
    fn what_was_sent_too_long_ago_is_forgotten() {
        let mut memory = Memory::default();
        let at = Duration::from_secs;
        memory.note_at(at(1), &[1, 2, 3], 10);
        memory.note_at(at(5), &[1, 2], 10);
        memory.forget_before(at(5));
        assert_eq!((memory.size(), memory.leading(&[1, 2, 3])), (20, 2));
        memory.forget_before(at(6));
        assert_eq!((memory.size(), memory.leading(&[1])), (0, 0));
    }

    proptest! {
        /// Against the definition: what was sent last, as far as it fits.
        #[test]
        fn holds_what_was_sent_last(
            most in 0_u64..12,
            chains in prop::collection::vec((0_u64..4, 0_usize..6), 0..30),
        ) {
            let (mut memory, mut sent) = (Memory::default(), Vec::new());
            for (text, blocks) in chains {
                // The first two blocks are the same in all texts.
                let chain: Vec<u64> =
                    (0..blocks as u64).map(|block| if block < 2 { block } else { text * 100 + block }).collect();
                memory.note(&chain, 1);
                memory.shrink_to(most);
                sent.retain(|block| !chain.contains(block));
                sent.extend(chain.iter().rev());
                let over = sent.len().saturating_sub(most as usize);
                sent.drain(..over);
                prop_assert_eq!(memory.size(), sent.len() as u64);
                for block in &sent {
                    prop_assert_eq!(memory.leading(&[*block]), 1);
                }
                let known = chain.iter().take_while(|block| sent.contains(block)).count();
                prop_assert_eq!(memory.leading(&chain), known);
            }
        }
    }
}
