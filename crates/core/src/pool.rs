//! What the endpoints of a pool have in common and is learned.

use crate::prefix::PrefixIndex;
use std::sync::Arc;

/// State of one pool; kept for as long as a pool of its name is configured.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub(crate) name: Arc<str>,
    /// Which endpoint holds which blocks of prompts, by slot: learned from what was sent there.
    pub(crate) learned: PrefixIndex,
    /// The same by the engines' own events.
    pub(crate) exact: PrefixIndex,
}
