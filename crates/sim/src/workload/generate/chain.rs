//! Chained hashes of what is said, as far as it goes.

use crate::engine::BlockHash;
use crate::text::mix;
use std::sync::Arc;

/// A text that grows: its length, and the hashes of its whole blocks. Texts with equal beginnings have equal hashes up to
/// the block in which they part.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    block_tokens: u32,
    tokens: u32,
    state: u64,
    blocks: Vec<BlockHash>,
}

impl Chain {
    pub(super) fn new(block_tokens: u32, salt: u64) -> Self {
        Self {
            block_tokens,
            tokens: 0,
            state: mix(salt),
            blocks: Vec::new(),
        }
    }

    /// Adds `tokens` of the content that `content` stands for.
    pub(super) fn say(&mut self, content: u64, tokens: u32) {
        if tokens == 0 {
            return;
        }
        self.tokens = self.tokens.saturating_add(tokens);
        // Enters the state before the first block that holds any of it.
        self.state = mix(self.state ^ mix(content));
        let whole = (self.tokens / self.block_tokens) as usize;
        while self.blocks.len() < whole {
            self.state = mix(self.state);
            self.blocks.push(self.state);
        }
    }

    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    pub(super) fn blocks(&self) -> Arc<[BlockHash]> {
        self.blocks.as_slice().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_share_the_whole_blocks_of_their_common_beginning() {
        let text = |parts: &[(u64, u32)]| {
            let mut chain = Chain::new(16, 1);
            for (content, tokens) in parts {
                chain.say(*content, *tokens);
            }
            chain.blocks().to_vec()
        };
        let (a, b) = (text(&[(1, 40), (2, 40)]), text(&[(1, 40), (3, 40)]));
        assert_eq!((a.len(), &a[..2]), (5, &b[..2]));
        assert!(a[2..].iter().all(|block| !b.contains(block)));
        assert_eq!(text(&[(1, 40), (2, 40), (4, 9)])[..5], a[..]);
        assert_eq!(text(&[(1, 15)]).len(), 0);
        assert_ne!(text(&[(1, 16)]), text(&[(2, 16)]));
    }
}
