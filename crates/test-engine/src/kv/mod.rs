//! An engine's prefix cache as vLLM keeps it, and the publisher that tells of it.
//!
//! [`Cache`] says what changed, [`Numbering`] makes numbered batches of that and keeps the newest, as both engines'
//! publishers do; neither has a socket, so that a test can lose, swap and repeat what is sent. [`Publisher`] is the same
//! on real sockets.

mod cache;
mod encode;
mod publisher;

pub use cache::{Cache, Event};
pub use encode::Style;
pub use publisher::{Numbering, Place, Publisher, Sent};

/// Random numbers that a seed repeats (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// From a seed.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end.max(1)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A prompt out of a tree of prompts, so that prefixes are shared: blocks of `block_size` equal tokens, and a few
    /// tokens more.
    pub fn prompt(&mut self, block_size: usize) -> Vec<u32> {
        let mut tokens = Vec::new();
        for depth in 0..1 + self.below(6) {
            // Fewer ways near the root.
            let token = u32::try_from(self.below(2 + depth)).expect("small");
            tokens.extend(std::iter::repeat_n(token, block_size));
        }
        let tail = usize::try_from(self.below(block_size as u64)).expect("small");
        tokens.extend(std::iter::repeat_n(9, tail));
        tokens
    }
}
