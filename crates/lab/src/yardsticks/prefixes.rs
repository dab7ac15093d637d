//! Beginnings of prompts, and routers' memories of where they went.
//!
//! Routers of this field keep a tree over characters or tokens, or a table of chained block hashes. The workload's
//! chained hashes serve for both: equal hashes mean equal text up to there, so a set of them is the tree.

use std::collections::{BTreeMap, HashMap};
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
    pub fn coarse(self, request: &Request, tokens: u32) -> (Vec<BlockHash>, u32) {
        let of = (tokens / self.tokens.max(1)).max(1) as usize;
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

/// What a router believes that one endpoint holds: blocks that were sent there, the least recently sent forgotten first.
///
/// A prompt's tail is older than its head. So the head of a chain is there whenever its tail is.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    uses: u64,
    last_use: HashMap<BlockHash, (u64, u32)>,
    by_use: BTreeMap<u64, BlockHash>,
    size: u64,
}

impl Memory {
    /// How many of the leading blocks are here.
    pub fn leading(&self, blocks: &[BlockHash]) -> usize {
        blocks.partition_point(|block| self.last_use.contains_key(block))
    }

    /// Notes a prompt: its blocks, each of `size`.
    pub fn note(&mut self, blocks: &[BlockHash], size: u32) {
        for block in blocks.iter().rev() {
            self.uses += 1;
            match self.last_use.insert(*block, (self.uses, size)) {
                Some((before, _)) => {
                    self.by_use.remove(&before);
                }
                None => self.size += u64::from(size),
            }
            self.by_use.insert(self.uses, *block);
        }
    }

    /// Notes the rest of prompt number `index`, which nobody else has.
    pub fn note_tail(&mut self, index: usize, size: u32) {
        self.note(&[mix(!(index as u64))], size);
    }

    /// Sum of the sizes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Forgets until no more than `size` is left.
    pub fn shrink_to(&mut self, size: u64) {
        while self.size > size {
            let Some((_, block)) = self.by_use.pop_first() else {
                return;
            };
            if let Some((_, size)) = self.last_use.remove(&block) {
                self.size -= u64::from(size);
            }
        }
    }
}

/// A memory for each endpoint.
#[derive(Clone, Debug, Default)]
pub struct Memories(BTreeMap<usize, Memory>);

impl Memories {
    /// That of an endpoint.
    pub fn at(&mut self, endpoint: usize) -> &mut Memory {
        self.0.entry(endpoint).or_default()
    }

    /// How many of the leading blocks an endpoint has.
    pub fn leading(&self, endpoint: usize, blocks: &[BlockHash]) -> usize {
        self.0.get(&endpoint).map_or(0, |memory| memory.leading(blocks))
    }

    /// All of them.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Memory> {
        self.0.values_mut()
    }
}

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
    let request = super::stage::prompt(&[1, 2, 3, 4, 5], 7);
    let blocks = Blocks { tokens: 16 };
    assert_eq!(blocks.coarse(&request, 32), (vec![2, 4], 32));
    assert_eq!(blocks.coarse(&request, 8), (vec![1, 2, 3, 4, 5], 16));
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
