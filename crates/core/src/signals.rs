//! What engines tell of themselves.

use crate::prefix::BlockHash;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One reading of an engine's metrics. None: the engine does not report it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reading {
    /// Requests that wait for admission.
    pub waiting: Option<u32>,
    /// Requests that are computed.
    pub running: Option<u32>,
    /// Share of the KV cache in use, in [0, 1].
    pub kv_usage: Option<f64>,
    /// Share of the GPU's memory in use, in [0, 1].
    pub gpu_memory: Option<f64>,
    /// Utilisation of the GPU, in [0, 1].
    pub gpu_utilisation: Option<f64>,
    /// Tokens of a block of the KV cache.
    pub block_tokens: Option<u32>,
    /// Tokens that the KV cache holds.
    pub cache_tokens: Option<u64>,
    /// Most sequences that are computed at once.
    pub max_sequences: Option<u32>,
    /// Prompt tokens looked up in the prefix cache since the engine started.
    pub prefix_queries: Option<u64>,
    /// Of these, found there.
    pub prefix_hits: Option<u64>,
    /// Times that a running request lost its cache, since the engine started.
    pub preemptions: Option<u64>,
    /// Prompt tokens processed since the engine started.
    pub prompt_tokens: Option<u64>,
    /// Tokens generated since the engine started.
    pub generated_tokens: Option<u64>,
    /// Adapters (LoRA) that are loaded; none: it does not tell.
    pub adapters: Option<Vec<Arc<str>>>,
    /// Most adapters that fit at once.
    pub max_adapters: Option<u32>,
    /// Digest of all that its source said, also of what nobody looks at: where it changes, the source is alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<u64>,
}

impl Reading {
    /// The same with shares in [0, 1]; what is no number counts as not reported.
    #[must_use]
    pub(crate) fn made_sound(mut self) -> Self {
        for share in [
            &mut self.kv_usage,
            &mut self.gpu_memory,
            &mut self.gpu_utilisation,
        ] {
            *share = share
                .filter(|share| !share.is_nan())
                .map(|share| share.clamp(0.0, 1.0));
        }
        self
    }
}

/// Something that happened in the prefix cache of an engine, by its own events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheChange {
    /// Blocks were stored behind `parent`, each behind the one before.
    Stored {
        /// The block before the first; none: they begin a prompt.
        parent: Option<BlockHash>,
        /// Chain hashes, see [`BlockHash`].
        blocks: Vec<BlockHash>,
    },
    /// Blocks were given up, in any order.
    Removed {
        /// Their chain hashes.
        blocks: Vec<BlockHash>,
    },
    /// Nothing is held any more. From here on everything is told.
    Cleared,
    /// Something was not told: what is held is not known any more, and what follows is a part of it.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_shares() {
        let told = |kv_usage| Reading {
            kv_usage: Some(kv_usage),
            ..Reading::default()
        };
        let sound = |share| told(share).made_sound().kv_usage;
        assert_eq!(
            [0.4, -1.0, 1e308, f64::INFINITY].map(sound),
            [0.4, 0.0, 1.0, 1.0].map(Some)
        );
        assert_eq!(sound(f64::NAN), None);
    }
}
