//! The memory forms: nothing survives the process.

use crate::{KeyRecord, Keys, Usage, UsageTotal};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

/// Keys in memory.
#[derive(Default)]
pub struct MemoryKeys {
    by_hash: RwLock<HashMap<[u8; 32], Arc<KeyRecord>>>,
}

impl Keys for MemoryKeys {
    fn find(&self, sha256: &[u8; 32]) -> Option<Arc<KeyRecord>> {
        self.by_hash
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(sha256)
            .cloned()
    }

    fn replace(&self, keys: Vec<KeyRecord>) {
        let by_hash = keys.into_iter().map(|key| (key.sha256, Arc::new(key))).collect();
        *self.by_hash.write().unwrap_or_else(PoisonError::into_inner) = by_hash;
    }

    fn len(&self) -> usize {
        self.by_hash.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Usage in memory.
#[derive(Default)]
pub struct MemoryUsage {
    by_key: RwLock<BTreeMap<Arc<str>, UsageTotal>>,
}

impl Usage for MemoryUsage {
    fn add(&self, key: &str, used: UsageTotal) {
        let mut by_key = self.by_key.write().unwrap_or_else(PoisonError::into_inner);
        if !by_key.contains_key(key) {
            by_key.insert(key.into(), UsageTotal::default());
        }
        if let Some(total) = by_key.get_mut(key) {
            total.requests = total.requests.saturating_add(used.requests);
            total.prompt_tokens = total.prompt_tokens.saturating_add(used.prompt_tokens);
            total.completion_tokens = total.completion_tokens.saturating_add(used.completion_tokens);
        }
    }

    fn total(&self, key: &str) -> UsageTotal {
        self.by_key
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(key)
            .copied()
            .unwrap_or_default()
    }

    fn all(&self) -> Vec<(Arc<str>, UsageTotal)> {
        let by_key = self.by_key.read().unwrap_or_else(PoisonError::into_inner);
        by_key.iter().map(|(key, total)| (key.clone(), *total)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_keys_keep_the_contract() {
        crate::contract::keys(&MemoryKeys::default());
    }

    #[test]
    fn memory_usage_keeps_the_contract() {
        crate::contract::usage(&MemoryUsage::default());
    }
}
