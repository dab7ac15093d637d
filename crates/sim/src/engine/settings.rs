//! Sizes of an engine, and what it cannot take.

use crate::coefficients::{Coefficients, LLAMA_3_1_8B_RTX_PRO_6000};
use std::fmt;

/// Sizes and speed of a [`BatchingEngine`](super::BatchingEngine). The names are vLLM's.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How long an iteration takes.
    pub coefficients: Coefficients,
    /// Tokens in a cache block.
    pub block_size: u32,
    /// Blocks in the cache.
    pub kv_blocks: u32,
    /// Sequences that may run at once.
    pub max_num_seqs: u32,
    /// Tokens that one iteration may compute.
    pub max_num_batched_tokens: u32,
    /// Tokens of prompt and output together that one sequence may have.
    pub max_model_len: u32,
}

impl Default for Settings {
    /// Llama-3.1-8B on one RTX PRO 6000 as in the run the coefficients come from. The cache is what vLLM would find:
    /// 96 GB × 0.9 less 16 GB of weights and 2 GB of activations, at 128 KiB a token.
    fn default() -> Self {
        Self {
            coefficients: LLAMA_3_1_8B_RTX_PRO_6000,
            block_size: 16,
            kv_blocks: 32_600,
            max_num_seqs: 128,
            max_num_batched_tokens: 2048,
            max_model_len: 131_072,
        }
    }
}

impl Settings {
    /// Raises sizes of zero to one, which no arithmetic of the engine could bear.
    pub(super) fn made_usable(mut self) -> Self {
        for size in [
            &mut self.block_size,
            &mut self.kv_blocks,
            &mut self.max_num_seqs,
            &mut self.max_num_batched_tokens,
        ] {
            *size = (*size).max(1);
        }
        self
    }

    /// Tokens that the whole cache holds.
    pub fn kv_tokens(&self) -> u64 {
        u64::from(self.block_size) * u64::from(self.kv_blocks)
    }

    /// The longest sequence, prompt and output together, that can ever finish.
    pub fn longest_sequence(&self) -> u64 {
        self.kv_tokens().min(u64::from(self.max_model_len))
    }

    /// Whether work of this size can finish.
    ///
    /// # Errors
    /// An empty prompt, or more tokens than [`longest_sequence`](Self::longest_sequence).
    pub fn check(&self, prompt_tokens: u32, output_tokens: u32) -> Result<(), Refusal> {
        if prompt_tokens == 0 {
            return Err(Refusal::EmptyPrompt);
        }
        let tokens = u64::from(prompt_tokens) + u64::from(output_tokens);
        let limit = self.longest_sequence();
        if tokens > limit {
            Err(Refusal::TooLong { tokens, limit })
        } else {
            Ok(())
        }
    }
}

/// Why work was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The prompt has no token.
    EmptyPrompt,
    /// Prompt and output together are longer than one sequence may be.
    TooLong {
        /// Tokens asked for, prompt and output together.
        tokens: u64,
        /// Tokens that are possible.
        limit: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyPrompt => write!(f, "the prompt is empty"),
            Self::TooLong { tokens, limit } => {
                write!(
                    f,
                    "prompt and output together are {tokens} tokens, at most {limit} are possible"
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}
