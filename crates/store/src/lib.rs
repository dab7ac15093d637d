//! What must outlive a request, behind traits: client keys, usage, and where stored responses are.
//!
//! Every form of a store passes the same contract tests (see `contract`); the memory form is the default on one machine.

pub mod contract;
mod homes;
mod memory;

pub use homes::MemoryHomes;
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

/// Where a response is that its engine has stored. By names, which mean the same to every replica and after a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    /// The route that served the request.
    pub route: Arc<str>,
    /// The pool of the engine that holds the response.
    pub pool: Arc<str>,
    /// The engine.
    pub endpoint: Arc<str>,
    /// Number of the upstream key that it was made with, from 0.
    pub upstream_key: u16,
    /// Whose it is; none: everybody's, where no key is asked for.
    pub owner: Option<Owner>,
}

/// Who may ask for a response: every key of the tenant that made it, or the key itself where it belongs to none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// The keys of this tenant.
    Tenant(Arc<str>),
    /// The keys of this name.
    Key(Arc<str>),
}

impl Owner {
    /// The owner of what `key` makes.
    #[must_use]
    pub fn of(key: &KeyRecord) -> Self {
        match &key.tenant {
            Some(tenant) => Self::Tenant(tenant.clone()),
            None => Self::Key(key.name.clone()),
        }
    }
}

/// Where stored responses are, by their ids. Bounded: where there are too many, the owner with the most loses its oldest;
/// and all are forgotten after a time.
pub trait Homes: Send + Sync {
    /// Notes where the response `id` of `owner` is, as of `unix_seconds`. Two owners may have responses of one id.
    fn put(&self, id: &str, home: Home, unix_seconds: i64);
    /// The home of the response `id` of `owner`, unless it has expired at `unix_seconds`.
    fn find(&self, id: &str, owner: Option<&Owner>, unix_seconds: i64) -> Option<Home>;
    /// The response `id` of `owner` has been deleted.
    fn forget(&self, id: &str, owner: Option<&Owner>);
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
