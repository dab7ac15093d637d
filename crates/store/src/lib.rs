//! What must outlive a request, behind traits: client keys and usage now.
//!
//! Every form of a store passes the same contract tests (see `contract`); the memory form is the default on one machine.

pub mod contract;
mod memory;

pub use memory::{MemoryKeys, MemoryUsage};

use std::sync::Arc;

/// A client key, as looked up by the hash of what the client sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// For logs and metrics.
    pub name: Arc<str>,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
    /// When it ends, Unix seconds; none: never.
    pub expires: Option<i64>,
    /// Whom it belongs to.
    pub tenant: Option<Arc<str>>,
    /// Route names it may use, a `*` at the end matches any rest; none: all.
    pub models: Option<Vec<Arc<str>>>,
}

impl KeyRecord {
    /// Whether the key may use `route`.
    #[must_use]
    pub fn allows(&self, route: &str) -> bool {
        self.models.as_ref().is_none_or(|models| {
            models.iter().any(|model| match model.strip_suffix('*') {
                Some(head) => route.starts_with(head),
                None => &**model == route,
            })
        })
    }

    /// Whether the key has ended at `unix_seconds`.
    #[must_use]
    pub fn expired(&self, unix_seconds: i64) -> bool {
        self.expires.is_some_and(|end| unix_seconds >= end)
    }
}

/// SHA-256 of a key, the only form in which keys are kept.
#[must_use]
pub fn hash_key(key: &[u8]) -> [u8; 32] {
    use sha2::Digest;
    sha2::Sha256::digest(key).into()
}

/// Client keys.
pub trait Keys: Send + Sync {
    /// The key with this hash, expired or not.
    fn find(&self, sha256: &[u8; 32]) -> Option<Arc<KeyRecord>>;
    /// Replaces all keys at once.
    fn replace(&self, keys: Vec<KeyRecord>);
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Tokens that a key used, in total since the store began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTotal {
    /// Requests that were answered.
    pub requests: u64,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Output tokens.
    pub completion_tokens: u64,
}

/// Usage per key name.
pub trait Usage: Send + Sync {
    /// Adds to what `key` used.
    fn add(&self, key: &str, used: UsageTotal);
    /// What `key` used so far.
    fn total(&self, key: &str) -> UsageTotal;
    /// All keys with their totals, by name.
    fn all(&self) -> Vec<(Arc<str>, UsageTotal)>;
}
