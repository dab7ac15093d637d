//! What the events of a pool's engines say of their blocks.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};
use weighbridge_wire::kv_events::{Follower, chain};

/// Of one pool, whose engines are alike.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Tokens of a block; 0: not known yet.
    block_tokens: AtomicU32,
    /// Roots of the adapters that blocks were stored for.
    adapters: RwLock<Vec<u64>>,
}

impl Told {
    /// Takes over what one engine told.
    pub(crate) fn note(&self, follower: &Follower) {
        if let Some(tokens) = follower.block_size() {
            self.block_tokens.store(tokens, Ordering::Relaxed);
        }
        let known = self.adapters.read().unwrap_or_else(PoisonError::into_inner);
        let news = follower.adapters().iter().any(|root| !known.contains(root));
        drop(known);
        if news {
            let mut known = self.adapters.write().unwrap_or_else(PoisonError::into_inner);
            known.extend(follower.adapters());
            known.sort_unstable();
            known.dedup();
        }
    }

    /// Tokens of a block; 0: not known yet.
    pub(crate) fn block_tokens(&self) -> u32 {
        self.block_tokens.load(Ordering::Relaxed)
    }

    /// Where the blocks of a prompt to `model` begin: as those of an adapter, if blocks were stored for one of this name.
    pub(crate) fn root(&self, model: &str) -> u64 {
        let adapter = chain::root(Some(model));
        let known = self.adapters.read().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&adapter) {
            adapter
        } else {
            chain::root(None)
        }
    }
}
