//! What an engine can say of its load.

use std::ops::RangeInclusive;

/// One quantity of an engine. Shares are 0 to 1; what is cumulative counts since the engine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Signal {
    /// Requests that wait for admission.
    Waiting,
    /// Requests in the running batch.
    Running,
    /// Share of the KV cache in use.
    KvUsage,
    /// Prompt tokens (some engines: blocks or requests) looked up in the prefix cache, cumulative.
    PrefixQueries,
    /// Those of them that were found, cumulative.
    PrefixHits,
    /// Those of them that were not, cumulative. Only a step towards [`Self::PrefixQueries`].
    PrefixMisses,
    /// Share of lookups that hit, where the engine computes it.
    PrefixHitRate,
    /// Share of the GPU's memory in use.
    GpuMemory,
    /// Share of time the GPU works.
    GpuUtilisation,
    /// Tokens per block of the KV cache.
    BlockSize,
    /// Blocks of the KV cache.
    CacheBlocks,
    /// Tokens the KV cache holds.
    CacheTokens,
    /// Blocks of the KV cache in use. Only a step towards [`Self::KvUsage`].
    UsedBlocks,
    /// Blocks of the KV cache that are free. Only a step towards [`Self::KvUsage`].
    FreeBlocks,
    /// Sequences that can run at once.
    MaxSequences,
    /// Adapters that can be loaded at once.
    MaxAdapters,
    /// Sequences that lost their cache and started over, cumulative.
    Preemptions,
    /// Prompt tokens processed, cumulative.
    PromptTokens,
    /// Tokens generated, cumulative.
    GenerationTokens,
    /// Seconds to the first token, summed over requests, cumulative.
    FirstTokenSum,
    /// Requests in [`Self::FirstTokenSum`].
    FirstTokenCount,
    /// Seconds between tokens, summed, cumulative.
    InterTokenSum,
    /// Gaps in [`Self::InterTokenSum`].
    InterTokenCount,
}

/// How values of several series are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Together {
    Sum,
    Mean,
    Max,
}

impl Signal {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();

    /// All, in order.
    pub const ALL: [Self; 23] = [
        Self::Waiting,
        Self::Running,
        Self::KvUsage,
        Self::PrefixQueries,
        Self::PrefixHits,
        Self::PrefixMisses,
        Self::PrefixHitRate,
        Self::GpuMemory,
        Self::GpuUtilisation,
        Self::BlockSize,
        Self::CacheBlocks,
        Self::CacheTokens,
        Self::UsedBlocks,
        Self::FreeBlocks,
        Self::MaxSequences,
        Self::MaxAdapters,
        Self::Preemptions,
        Self::PromptTokens,
        Self::GenerationTokens,
        Self::FirstTokenSum,
        Self::FirstTokenCount,
        Self::InterTokenSum,
        Self::InterTokenCount,
    ];

    /// The word for it in the config, the API and our own metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::KvUsage => "kv_usage",
            Self::PrefixQueries => "prefix_queries",
            Self::PrefixHits => "prefix_hits",
            Self::PrefixMisses => "prefix_misses",
            Self::PrefixHitRate => "prefix_hit_rate",
            Self::GpuMemory => "gpu_memory",
            Self::GpuUtilisation => "gpu_utilisation",
            Self::BlockSize => "block_size",
            Self::CacheBlocks => "cache_blocks",
            Self::CacheTokens => "cache_tokens",
            Self::UsedBlocks => "used_blocks",
            Self::FreeBlocks => "free_blocks",
            Self::MaxSequences => "max_sequences",
            Self::MaxAdapters => "max_adapters",
            Self::Preemptions => "preemptions",
            Self::PromptTokens => "prompt_tokens",
            Self::GenerationTokens => "generation_tokens",
            Self::FirstTokenSum => "first_token_seconds_sum",
            Self::FirstTokenCount => "first_token_seconds_count",
            Self::InterTokenSum => "inter_token_seconds_sum",
            Self::InterTokenCount => "inter_token_seconds_count",
        }
    }

    /// The signal of this word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.as_str() == word)
    }

    pub(super) const fn together(self) -> Together {
        match self {
            Self::KvUsage | Self::PrefixHitRate | Self::GpuMemory | Self::GpuUtilisation => Together::Mean,
            Self::BlockSize | Self::MaxAdapters => Together::Max,
            _ => Together::Sum,
        }
    }

    /// Whether it describes how the engine was started: said once for all ranks of a URL, it holds for each.
    pub(super) const fn is_setting(self) -> bool {
        matches!(
            self,
            Self::BlockSize | Self::CacheBlocks | Self::CacheTokens | Self::MaxSequences | Self::MaxAdapters
        )
    }

    const fn is_share(self) -> bool {
        matches!(
            self,
            Self::KvUsage | Self::PrefixHitRate | Self::GpuMemory | Self::GpuUtilisation
        )
    }

    /// What a page's value says of it; nothing where it is not known.
    pub(super) fn accept(self, value: f64) -> Option<f64> {
        known(value).and_then(|value| match self.is_share() {
            // Engines that count in parallel overshoot a little; far above 1 it is no share at all.
            true if value > SHARE_MAX => None,
            true => Some(value.min(1.0)),
            false => self.bounds().contains(&value).then_some(value),
        })
    }

    /// What a number may be. Beyond it something else is wrong, and a policy that believed it would judge by nonsense.
    const fn bounds(self) -> RangeInclusive<f64> {
        match self {
            Self::Waiting
            | Self::Running
            | Self::CacheBlocks
            | Self::UsedBlocks
            | Self::FreeBlocks
            | Self::MaxSequences
            | Self::MaxAdapters => 0.0..=COUNT_MAX,
            Self::BlockSize => 1.0..=COUNT_MAX,
            Self::CacheTokens => 1.0..=CACHE_TOKENS_MAX,
            _ => 0.0..=f64::MAX,
        }
    }
}

/// A share up to this is taken to be 1.
const SHARE_MAX: f64 = 1.5;
/// Most requests, blocks, tokens of a block, sequences or adapters that an engine may have.
const COUNT_MAX: f64 = 1e9;
/// Most tokens that an engine's cache may hold.
const CACHE_TOKENS_MAX: f64 = 1e12;

/// Placeholders by which NVIDIA's DCGM says that it has no value ("blank", "not found", "not supported", "not
/// permitted"), of 32-bit, 64-bit and floating point fields: four each, from these on.
const BLANKS: [f64; 3] = [
    2_147_483_632.0,
    9_223_372_036_854_775_792.0,
    140_737_488_355_328.0,
];

/// The value, unless it is one that means "not known": no number, infinite, negative (vLLM says −1 for a rate of
/// nothing), or a placeholder.
pub(super) fn known(value: f64) -> Option<f64> {
    let blank = BLANKS.iter().any(|first| (*first..=first + 3.0).contains(&value));
    (value.is_finite() && value >= 0.0 && !blank).then_some(value)
}

/// A value, or none, for each signal.
#[derive(Clone, PartialEq)]
pub struct Values([Option<f64>; Signal::COUNT]);

impl Default for Values {
    fn default() -> Self {
        Self([None; Signal::COUNT])
    }
}

impl Values {
    /// The value; none: not known.
    #[must_use]
    pub fn get(&self, signal: Signal) -> Option<f64> {
        self.0.get(signal as usize).copied().flatten()
    }

    /// Sets or forgets a value.
    pub fn set(&mut self, signal: Signal, value: Option<f64>) {
        if let Some(slot) = self.0.get_mut(signal as usize) {
            *slot = value;
        }
    }

    /// Those that are known.
    pub fn known(&self) -> impl Iterator<Item = (Signal, f64)> + '_ {
        Signal::ALL
            .into_iter()
            .filter_map(|signal| Some((signal, self.get(signal)?)))
    }
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.known().map(|(signal, value)| (signal.as_str(), value)))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_not_known() {
        for signal in [
            Signal::Waiting,
            Signal::Running,
            Signal::UsedBlocks,
            Signal::MaxSequences,
            Signal::MaxAdapters,
            Signal::BlockSize,
        ] {
            assert_eq!(signal.accept(1e9), Some(1e9), "{signal:?}");
            assert_eq!(signal.accept(1.1e9), None, "{signal:?}");
        }
        assert_eq!(Signal::BlockSize.accept(0.0), None);
        assert_eq!(Signal::BlockSize.accept(0.5), None);
        assert_eq!(Signal::BlockSize.accept(1.0), Some(1.0));
        assert_eq!(Signal::CacheTokens.accept(0.0), None);
        assert_eq!(Signal::CacheTokens.accept(16e9), Some(16e9));
        assert_eq!(Signal::CacheTokens.accept(1e18), None);
        assert_eq!(
            Signal::GenerationTokens.accept(1e14),
            Some(1e14),
            "totals only grow"
        );
    }

    #[test]
    fn what_means_not_known_is_not_known() {
        for value in [
            f64::NAN,
            f64::INFINITY,
            -1.0,
            9_223_372_036_854_775_794.0,
            2_147_483_634.0,
            140_737_488_355_328.0,
        ] {
            assert_eq!(Signal::Waiting.accept(value), None, "{value}");
        }
        assert_eq!(
            Signal::PromptTokens.accept(2_147_483_636.0),
            Some(2_147_483_636.0)
        );
        assert_eq!(Signal::Waiting.accept(0.0), Some(0.0));
    }

    #[test]
    fn a_share_is_at_most_one() {
        assert_eq!(Signal::KvUsage.accept(1.02), Some(1.0));
        assert_eq!(Signal::KvUsage.accept(0.5), Some(0.5));
        assert_eq!(Signal::KvUsage.accept(87.0), None);
        assert_eq!(Signal::Running.accept(87.0), Some(87.0));
    }

    #[test]
    fn places_and_words_agree() {
        for (place, signal) in Signal::ALL.into_iter().enumerate() {
            assert_eq!(signal as usize, place);
            assert_eq!(Signal::from_word(signal.as_str()), Some(signal));
        }
        assert_eq!(Signal::from_word("waitng"), None);
    }
}
