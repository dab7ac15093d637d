//! What is asked of a fleet: requests with their sizes, times and shared beginnings.

mod generate;
mod named;
mod order;
mod random;
mod read;
pub mod spec;
pub mod transform;
mod write;

pub use generate::generate;
pub use named::{NAMED, PrefixGroups, named, named_text};
pub use read::{BadRow, Format, Read, ReadError, read};
pub use write::write_mooncake;

use crate::engine::BlockHash;
use std::sync::Arc;
use std::time::Duration;

/// Most requests of one workload. Each takes some hundred bytes and its blocks.
pub const REQUESTS_MAX: usize = 20_000_000;
/// Most block hashes of all its requests: 4 GB.
pub const BLOCKS_MAX: usize = 500_000_000;

/// Requests in the order in which they are due, and what they have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// For reports: the file's name, or that of the generator.
    pub name: String,
    /// Requests; those that follow another come later than it in the list, the others in order of [`Request::at`].
    pub requests: Vec<Request>,
    /// Tokens of one entry of [`Request::blocks`]; engines that run this workload use blocks of this size. 0: the
    /// workload knows no shared beginnings.
    pub block_tokens: u32,
    /// Names that [`Request::tenant`] counts through; empty: nobody is told apart.
    pub tenants: Vec<Arc<str>>,
    /// Kinds of requests that [`Request::class`] counts through; empty: all are one kind.
    pub classes: Vec<Class>,
    /// Most requests that the clients have under way at once: a closed loop. Those that are due wait at the client, and
    /// their time counts from when they are sent. None: requests are sent when they are due.
    pub max_concurrency: Option<u32>,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// When it is due since the start; where it follows another, the time to think since that one's end.
    pub at: Duration,
    /// Place in the list of the request whose end it waits for: the turn before in a conversation.
    pub after: Option<u32>,
    /// Tokens of the prompt, at least 1.
    pub prompt_tokens: u32,
    /// Tokens of the answer. Known to the engine alone: the scheduler does not see it.
    pub output_tokens: u32,
    /// Chained hashes of the prompt's whole blocks and, where known, of the answer's after them.
    pub blocks: Arc<[BlockHash]>,
    /// Conversation or user it belongs to: what `session_affinity` sees as the session key.
    pub session: Option<u64>,
    /// Place in [`Workload::tenants`]; 0 where there are none.
    pub tenant: u16,
    /// Place in [`Workload::classes`]; 0 where there are none.
    pub class: u16,
}

impl Request {
    /// The hashes of the prompt's whole blocks, without the answer's: what a router may know.
    #[must_use]
    pub fn prompt_blocks(&self, block_tokens: u32) -> &[BlockHash] {
        let whole = self.prompt_tokens.checked_div(block_tokens).unwrap_or(0) as usize;
        &self.blocks[..whole.min(self.blocks.len())]
    }
}

/// A kind of request with its own promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Its name.
    pub name: Arc<str>,
    /// What counts as served in time.
    pub slo: Slo,
}

/// Bounds within which an answer counts for goodput; none: any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slo {
    /// Time to first token.
    pub first_token: Option<Duration>,
    /// Time per token after the first, the mean of one answer.
    pub per_token: Option<Duration>,
    /// From the request to the last token.
    pub end_to_end: Option<Duration>,
}
