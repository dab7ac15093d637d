//! How long one iteration of an engine takes.

mod llama_3_1_8b_rtx_pro_6000;

pub use llama_3_1_8b_rtx_pro_6000::LLAMA_3_1_8B_RTX_PRO_6000;

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one iteration computes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// Tokens that pass through the dense layers, prompt and output together.
    pub tokens: u64,
    /// Sequences that get a token out of this iteration.
    pub sequences: u64,
    /// Tokens in the cache that the decoding sequences attend to, summed over them.
    pub context_tokens: u64,
    /// Prompt tokens among `tokens`.
    pub prefill_tokens: u64,
    /// Pairs of a prompt token and a token it attends to.
    pub prefill_pairs: f64,
}

/// The coefficients of [`Coefficients::iteration`], all in seconds.
///
/// `t = overhead + max(memory + memory_per_token·tokens, compute + compute_per_token·tokens)
///    + sampling + per_sequence·sequences + per_context_token·context_tokens
///    + (prefill if the batch holds prompt tokens) + per_prefill_pair·prefill_pairs`
///
/// The maximum is the roofline of Williams, Waterman and Patterson (2009): few tokens wait for the weights to be
/// read, many for the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficients {
    /// Dense layers, memory bound: reading the weights once.
    pub memory_s: f64,
    /// Dense layers, memory bound: each token.
    pub memory_per_token_s: f64,
    /// Dense layers, compute bound: intercept.
    pub compute_s: f64,
    /// Dense layers, compute bound: each token.
    pub compute_per_token_s: f64,
    /// Output head and sampler: once an iteration.
    pub sampling_s: f64,
    /// Output head and sampler: each sequence that gets a token.
    pub per_sequence_s: f64,
    /// Attention of a prompt token to one token before it.
    pub per_prefill_pair_s: f64,
    /// Scheduling, launches and whatever else each iteration costs.
    pub overhead_s: f64,
    /// What an iteration that holds prompt tokens costs on top.
    pub prefill_s: f64,
    /// Reading one cached token for a decoding sequence.
    pub per_context_token_s: f64,
}

impl Coefficients {
    /// All with their names.
    pub fn named(&self) -> [(&'static str, f64); 10] {
        [
            ("memory_s", self.memory_s),
            ("memory_per_token_s", self.memory_per_token_s),
            ("compute_s", self.compute_s),
            ("compute_per_token_s", self.compute_per_token_s),
            ("sampling_s", self.sampling_s),
            ("per_sequence_s", self.per_sequence_s),
            ("per_prefill_pair_s", self.per_prefill_pair_s),
            ("overhead_s", self.overhead_s),
            ("prefill_s", self.prefill_s),
            ("per_context_token_s", self.per_context_token_s),
        ]
    }

    /// Duration of one iteration over `batch`, in whole nanoseconds: at least a microsecond, so that time always moves
    /// on, and at most a day, so that sums of many do not overflow.
    pub fn iteration(&self, batch: &Batch) -> Duration {
        Duration::from_nanos(self.iteration_ns(batch, 1.0))
    }

    /// [`iteration`](Self::iteration) in nanoseconds, on an engine that takes `slowdown` times as long.
    #[inline]
    pub(crate) fn iteration_ns(&self, batch: &Batch, slowdown: f64) -> u64 {
        let tokens = batch.tokens as f64;
        let memory_s = self.memory_s + self.memory_per_token_s * tokens;
        let compute_s = self.compute_s + self.compute_per_token_s * tokens;
        let prefill_s = if batch.prefill_tokens > 0 {
            self.prefill_s
        } else {
            0.0
        };
        let seconds = self.overhead_s
            + memory_s.max(compute_s)
            + self.sampling_s
            + self.per_sequence_s * batch.sequences as f64
            + self.per_context_token_s * batch.context_tokens as f64
            + prefill_s
            + self.per_prefill_pair_s * batch.prefill_pairs;
        // A cast from a float takes what is not a number to zero.
        ((seconds * slowdown * 1e9 + 0.5) as u64).clamp(1_000, DAY_NS)
    }
}

const DAY_NS: u64 = 86_400_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sequence_decodes_at_the_rate_of_the_measured_run() {
        let batch = Batch {
            tokens: 1,
            sequences: 1,
            context_tokens: 1500,
            ..Batch::default()
        };
        let per_second = 1.0 / LLAMA_3_1_8B_RTX_PRO_6000.iteration(&batch).as_secs_f64();
        // The run's last seconds, with one sequence left, show 87 tokens/s.
        assert!((70.0..95.0).contains(&per_second), "{per_second}");
    }

    #[test]
    fn nonsense_coefficients_still_move_time_on() {
        let c = Coefficients {
            overhead_s: f64::NAN,
            ..LLAMA_3_1_8B_RTX_PRO_6000
        };
        assert_eq!(c.iteration(&Batch::default()), Duration::from_micros(1));
        let c = Coefficients {
            overhead_s: -5.0,
            ..LLAMA_3_1_8B_RTX_PRO_6000
        };
        assert_eq!(c.iteration(&Batch::default()), Duration::from_micros(1));
    }
}
