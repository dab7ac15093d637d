//! What a request asks of an engine, as far as the policies of its route look at it.
//!
//! The driver fills in what [`Needs`] of the route names and leaves the rest empty, so that a route without such policies
//! pays nothing. It holds hashes and numbers, never text.

use crate::prefix::BlockHash;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Facts of one request that routing looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// Tokens of the prompt: counted, or estimated from the text.
    pub prompt_tokens: u32,
    /// Most tokens the client wants in answer; none: it does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Tokens of answer that are expected, where something predicts them; none: the mean of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_tokens: Option<u32>,
    /// Chain hashes of the prompt's full blocks, the first block first. Each covers its block and all before it.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub blocks: Box<[BlockHash]>,
    /// Prompt tokens that one of `blocks` stands for; 0 where there are none.
    pub block_tokens: u32,
    /// Bytes of text of one of `blocks`, the same for all prompts; 0 where it is not known.
    #[serde(skip_serializing_if = "is_zero")]
    pub block_bytes: u32,
    /// Where what opens the conversation ends; none: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opening: Option<Opening>,
    /// The same prompt in the blocks of the engines, hashed over its tokens, where they are known.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub exact: Box<[BlockHash]>,
    /// Prompt tokens of one of `exact`; 0 where there are none.
    pub exact_tokens: u32,
    /// Abilities that the model must have.
    pub wants: Abilities,
    /// The adapter (LoRA) asked for; none: the base model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Arc<str>>,
    /// Labels that the endpoint must carry, by the request's header: name and value.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub labels: Box<[(Arc<str>, Arc<str>)]>,
    /// What the request is about, as a word of the targets' `strengths`; none: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Arc<str>>,
    /// P0 (most urgent) to P3.
    pub priority: u8,
    /// Objectives that the client, or its route, sets.
    pub objective: Objective,
}

impl Work {
    /// Tokens that the request may take of a cache: its prompt and the longest answer that it may get.
    #[must_use]
    pub fn most_tokens(&self) -> u64 {
        u64::from(self.prompt_tokens) + u64::from(self.max_tokens.unwrap_or(0))
    }

    /// Hash of the head of the prompt: of its opening, or of its first `bytes` if that is longer. It is the same on all
    /// replicas of the gateway and for all turns of a conversation, as far as their beginnings are not cut off.
    ///
    /// `bytes` are rounded to whole blocks, at least one. Of a prompt that is shorter and of which no opening is known, all
    /// whole blocks count; none where there is none.
    #[must_use]
    pub fn head(&self, bytes: u64) -> Option<BlockHash> {
        let most = bytes.checked_div(u64::from(self.block_bytes)).unwrap_or(u64::MAX);
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(1);
        match self.opening {
            Some(opening) if (opening.blocks as usize) < most => Some(opening.hash),
            _ => self.blocks.get(..most).unwrap_or(&self.blocks).last().copied(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The opening of a conversation: the prompt up to the end of its first user message. Later turns repeat it and go on from
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Whole blocks of it.
    pub blocks: u32,
    /// Hash of all of it, with what is no whole block at its end.
    pub hash: BlockHash,
}

/// Latency objectives of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Objective {
    /// Longest wait for the first token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token: Option<Duration>,
    /// Longest mean time per token after the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_token: Option<Duration>,
}

/// Set of abilities beyond text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abilities(pub u8);

impl Abilities {
    /// None: text alone.
    pub const NONE: Self = Self(0);
    /// Images in the prompt.
    pub const IMAGE: Self = Self(1);
    /// Audio in the prompt.
    pub const AUDIO: Self = Self(2);
    /// Calls of tools.
    pub const TOOLS: Self = Self(4);
    /// Answers that follow a JSON schema.
    pub const JSON_SCHEMA: Self = Self(8);
    /// Files (documents) in the prompt.
    pub const FILE: Self = Self(16);
    /// Everything there is.
    pub const ALL: Self = Self(31);

    /// Each with its word in the config.
    pub const WORDS: [(Self, &'static str); 5] = [
        (Self::IMAGE, "image"),
        (Self::AUDIO, "audio"),
        (Self::FILE, "file"),
        (Self::TOOLS, "tools"),
        (Self::JSON_SCHEMA, "json_schema"),
    ];

    /// The abilities of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of the set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `wanted` are in the set.
    #[must_use]
    pub const fn covers(self, wanted: Self) -> bool {
        self.0 & wanted.0 == wanted.0
    }
}

/// Set of facts that policies and filters look at: what the driver has to find out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs(pub u16);

impl Needs {
    /// Nothing but what every request comes with.
    pub const NONE: Self = Self(0);
    /// [`Work::prompt_tokens`] and [`Work::max_tokens`].
    pub const TOKENS: Self = Self(1);
    /// [`Work::blocks`].
    pub const BLOCKS: Self = Self(2);
    /// [`Work::wants`].
    pub const ABILITIES: Self = Self(4);
    /// [`Work::labels`].
    pub const LABELS: Self = Self(8);
    /// [`Work::adapter`].
    pub const ADAPTER: Self = Self(16);
    /// [`Work::objective`].
    pub const OBJECTIVE: Self = Self(32);
    /// [`Work::class`].
    pub const CLASS: Self = Self(64);
    /// [`crate::Event::FirstToken`] and [`crate::event::Ended::spent`].
    pub const LIVE: Self = Self(128);
    /// [`crate::Event::Scraped`].
    pub const SIGNALS: Self = Self(256);
    /// [`Work::head`].
    pub const HEAD: Self = Self(512);

    /// What either needs.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether something of `other` is needed.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether anything of [`Work`] is needed.
    #[must_use]
    pub const fn work(self) -> bool {
        self.0 & !(Self::LIVE.0 | Self::SIGNALS.0) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_ends_with_the_opening_or_the_bytes_whichever_come_first() {
        let mut work = Work {
            blocks: [1, 2, 3, 4].map(BlockHash).into(),
            block_bytes: 256,
            ..Work::default()
        };
        assert_eq!(work.head(512), Some(BlockHash(2)));
        assert_eq!(work.head(1), Some(BlockHash(1)), "at least one block");
        assert_eq!(work.head(1 << 20), Some(BlockHash(4)), "all there is");
        work.opening = Some(Opening {
            blocks: 2,
            hash: BlockHash(9),
        });
        assert_eq!(work.head(1 << 20), Some(BlockHash(9)));
        assert_eq!(
            work.head(768),
            Some(BlockHash(9)),
            "the third block is not whole in it"
        );
        assert_eq!(work.head(512), Some(BlockHash(2)));
        work.blocks = [].into();
        work.opening = Some(Opening {
            blocks: 0,
            hash: BlockHash(9),
        });
        assert_eq!(work.head(512), Some(BlockHash(9)), "a short prompt");
        assert_eq!(Work::default().head(512), None);
    }
}
