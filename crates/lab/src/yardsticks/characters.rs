//! Approximate trees over characters, one for each worker, as SGLang's router has them and SMG took them over.

use super::prefixes::{Blocks, Memories};
use std::ops::Deref;
use std::time::Duration;
use weighbridge_sim::workload::Request;

/// Characters of a token of English text.
const CHARACTERS: u32 = 4;
/// Most characters of one tree.
pub const TREE_MAX: u64 = 67_108_864;
/// How often trees are cut to that.
const EVICTED_EVERY: Duration = Duration::from_secs(120);

/// The trees.
#[derive(Clone, Debug, Default)]
pub struct Trees {
    memories: Memories,
    evicted: Duration,
}

impl Trees {
    /// Cuts all of them, the least recently used leaves first, where it is time for that.
    pub fn evict(&mut self, now: Duration) {
        if now >= self.evicted + EVICTED_EVERY {
            self.evicted = now;
            self.memories.all().for_each(|tree| tree.shrink_to(TREE_MAX));
        }
    }

    /// Records the text of request number `index` with a worker.
    pub fn record(&mut self, endpoint: usize, (index, request): (usize, &Request), blocks: Blocks) {
        let whole = blocks.of(request);
        let tail = request.prompt_tokens - whole.len() as u32 * blocks.tokens;
        let tree = self.memories.at(endpoint);
        tree.note_tail(index, tail * CHARACTERS);
        tree.note(whole, blocks.tokens * CHARACTERS);
    }
}

impl Deref for Trees {
    type Target = Memories;

    fn deref(&self) -> &Memories {
        &self.memories
    }
}
