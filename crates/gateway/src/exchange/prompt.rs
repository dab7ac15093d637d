//! What a stream remembers of its prompt, for the case that nobody says what it cost.

use bytes::Bytes;
use weighbridge_core::work::Work;
use weighbridge_wire::{Api, prompt_tokens};

/// Largest body that is kept until the stream ends. Few streams need it, so the work is left to these, and the memory of
/// many open streams stays small.
const KEPT_MAX: usize = 4 * 1024;

/// A prompt whose tokens may have to be estimated.
pub(crate) enum Prompt {
    Body(Api, Box<[u8]>),
    Estimated(u64),
}

impl Prompt {
    /// Of a request: its body, and what was found out of it already.
    pub(crate) fn of((api, body): (Api, &Bytes), work: Option<&Work>) -> Self {
        if let Some(work) = work.filter(|work| work.prompt_tokens > 0) {
            Self::Estimated(u64::from(work.prompt_tokens))
        } else if body.len() <= KEPT_MAX {
            // A copy, because the piece may keep all of a much larger buffer.
            Self::Body(api, (&**body).into())
        } else {
            Self::Estimated(prompt_tokens(api, body))
        }
    }

    /// Where nothing is estimated.
    pub(crate) fn none() -> Self {
        Self::Estimated(0)
    }

    /// Its tokens.
    pub(crate) fn tokens(&self) -> u64 {
        match self {
            Self::Body(api, body) => prompt_tokens(*api, body),
            Self::Estimated(tokens) => *tokens,
        }
    }
}
