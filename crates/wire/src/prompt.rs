//! Reading the prompt of a request: what it weighs, what it needs, and the blocks by which a cached beginning of it is
//! known again.
//!
//! An engine caches what it computed for the beginning of a prompt, so a request is cheapest where the longest beginning
//! of it was served before. To know it again nobody has to tokenize: the text is put in the order in which a chat
//! template renders it (tools, then the system prompt, then messages, each with its role), cut into blocks of one size,
//! and hashed in a chain, so that a hash stands for its block and for all before it. Two prompts share as many hashes
//! as they share whole blocks from the start; what is shorter than a block at the end has no hash.
//!
//! **Blocks are of one size in bytes**, not in tokens. Where a block ends then depends on nothing but the text before it,
//! neither on how good an estimate is nor on which version of the gateway made it, and only a sample of a long prompt has
//! to be looked at for the estimate. Bytes do about as well: a token of today's vocabularies is 3 to 4.6 bytes of English,
//! code, JSON or Chinese. [`BLOCK_BYTES`] is some 64 tokens, a few blocks of the engines (16 tokens in vLLM): finer
//! would cost more room in every index than the last partial block is worth.
//!
//! **What is equal to a model is equal here**: strings are taken by their characters, whichever way they are escaped;
//! JSON without the space between its parts; a text as a string or as parts of type `text`; the role first,
//! wherever it stands in its message. Ids of calls, cache marks and signatures are left out. Images, audio and files count by a hash of
//! their bytes or URL, and take as many blocks as a medium of usual size takes tokens. A prompt of token ids counts by
//! them, 4 bytes each.
//!
//! The hash is XXH3 (64 bits), which is fast and keeps chance collisions away, not intended ones: whoever makes two
//! prompts collide gains a detour of their own request.

mod blocks;
mod facts;
mod media;
mod walk;

use crate::api::Api;
use crate::fields::{Malformed, each_field};
use blocks::Blocks;
use facts::Fields;
use walk::Walk;
use xxhash_rust::xxh3::xxh3_64;

pub use facts::Needs;

/// Bytes of a block where nothing else is wanted: about 64 tokens.
pub const BLOCK_BYTES: usize = 256;

/// How a prompt is cut into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// What the chain of hashes begins with: prompts of different seeds share nothing. Engines cache for each model and
    /// adapter apart, so it stands for these.
    pub seed: u64,
    /// The size of a block; at least [`BLOCK_BYTES_MIN`].
    pub block_bytes: usize,
}

/// Blocks of the longest beginning of a prompt that is known again: of the usual size, a million tokens.
pub const BLOCKS_MAX: usize = 16 * 1024;

/// Smaller blocks are made this large.
pub const BLOCK_BYTES_MIN: usize = 16;

/// What a request says that a choice of endpoint may depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The hashes of the prompt's whole blocks, each of its block and all before it. Empty where no cut was asked for.
    pub blocks: Vec<u64>,
    /// What opens the conversation; none where no cut was asked for, or there is no prompt.
    pub opening: Option<Opening>,
    /// Estimated tokens of the whole prompt, with those of its template; ids count one each.
    pub tokens: u64,
    /// What a model must be able to do.
    pub needs: Needs,
    /// `max_completion_tokens`, else `max_tokens`, else `max_output_tokens`. None where it is absent or no whole number.
    pub max_tokens: Option<u64>,
    /// Messages of the user. A prompt that is no conversation counts as one.
    pub turns: u32,
    /// Bytes of the rendered prompt, and the size of a block.
    cut_bytes: u64,
    block_bytes: u64,
    /// The block that is not whole yet; kept for its room.
    pending: Vec<u8>,
}

/// The beginning of a prompt that all turns of its conversation repeat: all that comes before the first answer, such as
/// tools, system prompt and the user's first message. A prompt that is no conversation is all opening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Whole blocks of it.
    pub blocks: usize,
    /// The hash of all of it, with what is no whole block at its end.
    pub hash: u64,
}

/// How the fields of a call are gone through.
type Reading = fn(&mut Walk<'_>, &Fields<'_>) -> Result<(), Malformed>;

impl Prompt {
    /// Reads the body of a call of `api`. All but the room of what was read before is replaced. A body that is no JSON
    /// object, and a call that has no prompt, say nothing: no blocks, no tokens, no needs. Texts to embed, to rank or to
    /// compare have tokens and no blocks.
    ///
    /// Linear in the length of the body, whatever it holds; allocates only where the room of earlier blocks is not enough.
    pub fn read(&mut self, json: &str, api: Api, cut: Option<Cut>) {
        self.clear();
        let read = match api {
            Api::ChatCompletions
            | Api::Completions
            | Api::Responses
            | Api::Messages
            | Api::CountTokens
            | Api::Passthrough => self.try_read(json, (cut, |walk, fields| walk.prompt(fields))),
            // They are read once and leave nothing behind in a cache.
            Api::Embeddings | Api::Rerank | Api::Score => {
                self.try_read(json, (None, |walk, fields| walk.texts(fields)))
            }
            _ => return,
        };
        if read == Err(Malformed) {
            self.clear();
        }
    }

    /// Estimated tokens of one block: the mean of the prompt's, rounded up, so that all blocks of a long prompt together are not
    /// short of it by as much as a block. 0 where there are no blocks.
    #[must_use]
    pub fn block_tokens(&self) -> u64 {
        let bytes = self.cut_bytes.max(1);
        self.tokens.saturating_mul(self.block_bytes).div_ceil(bytes)
    }

    /// Forgets everything but the room.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.opening = None;
        self.pending.clear();
        self.tokens = 0;
        self.needs = Needs::default();
        self.max_tokens = None;
        self.turns = 0;
        self.cut_bytes = 0;
        self.block_bytes = 0;
    }

    fn try_read(&mut self, json: &str, (cut, read): (Option<Cut>, Reading)) -> Result<(), Malformed> {
        let mut fields = Fields::default();
        each_field(json, |key, value| fields.take(key, value))?;
        self.max_tokens = fields.max_tokens();
        let mut blocks = Blocks::new(&mut self.blocks, &mut self.pending, cut);
        blocks.salt(&fields.salts)?;
        let mut walk = Walk::new(blocks);
        read(&mut walk, &fields)?;
        self.needs = walk.needs.and(fields.needs());
        self.turns = walk.turns;
        walk.end_opening();
        self.opening = walk.opening;
        (self.tokens, self.cut_bytes) = walk.into_counts();
        self.block_bytes = cut.map_or(0, |cut| cut.block_bytes.max(BLOCK_BYTES_MIN) as u64);
        Ok(())
    }
}

/// A seed for prompts to the model or adapter of this name.
#[must_use]
pub fn seed(name: &str) -> u64 {
    xxh3_64(name.as_bytes())
}

/// Estimates the tokens of the prompt of a call of `api` from its body. Not all of a long text is looked at. 0 for what is
/// no JSON object.
#[must_use]
pub fn prompt_tokens(api: Api, body: &[u8]) -> u64 {
    let mut prompt = Prompt::default();
    if let Ok(json) = std::str::from_utf8(body) {
        prompt.read(json, api, None);
    }
    prompt.tokens
}

#[cfg(test)]
mod tests;
