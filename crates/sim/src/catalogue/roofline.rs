//! From facts of a model and a GPU, and measured efficiencies, to the coefficients of an iteration.
//!
//! Everything follows from quantities that can be counted: bytes read, multiplications, kernels launched, bytes sent
//! between GPUs. The efficiencies say which share of the data sheet's rates software reaches, and what the host adds;
//! they come from a run of another model, or of a related GPU. `scripts/engine_fit/physics.py` is the same arithmetic
//! and its inverse.

use super::facts::{BYTES, Gpu, Model};
use crate::coefficients::Coefficients;
use serde::{Deserialize, Serialize};

/// Kernels of a layer besides the dense ones: attention, and the write to the cache.
const ATTENTION_KERNELS: f64 = 2.0;

/// What software reaches of a GPU's rates, and what it adds. Shares are of the data sheet; those above 1 belong to lines
/// whose intercept carries part of the time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Efficiency {
    /// Seconds that a kernel takes without work.
    pub launch_s: f64,
    /// Share of the bandwidth at which weights are read.
    pub weights: f64,
    /// Share of the arithmetic rate for tokens on top, while reading weights binds.
    pub decode_flops: f64,
    /// Share of the bandwidth that the intercept of the compute-bound line is worth.
    pub prefill_weights: f64,
    /// Share of the arithmetic rate while arithmetic binds.
    pub prefill_flops: f64,
    /// Share of the bandwidth at which the output head is read.
    pub head: f64,
    /// Seconds of head and sampler per sequence and entry of the vocabulary.
    pub logit_s: f64,
    /// Share of the bandwidth at which the cache is read.
    pub context: f64,
    /// Seconds of the host per iteration.
    pub overhead_s: f64,
    /// Seconds that an iteration with prompt tokens takes more, per layer.
    pub prefill_layer_s: f64,
}

/// Coefficients of `model` split over `tp` GPUs (tensor parallelism).
pub fn coefficients(model: &Model, gpu: &Gpu, tp: u32, e: &Efficiency) -> Coefficients {
    let split = f64::from(tp.max(1));
    let (layers, bandwidth, flops) = (
        f64::from(model.layers),
        gpu.bandwidth_gb_s * 1e9,
        gpu.bf16_tflops * 1e12,
    );
    let link = Link::of(model, gpu, split);
    let launches_s = layers * f64::from(model.kernels_per_layer) * e.launch_s;
    let read_s = BYTES * model.weights() / split / bandwidth;
    let token_s = 2.0 * model.active_weights() / split / flops;
    Coefficients {
        memory_s: launches_s + read_s / e.weights,
        memory_per_token_s: token_s / e.decode_flops + link.token_s,
        compute_s: launches_s + read_s / e.prefill_weights,
        compute_per_token_s: token_s / e.prefill_flops + link.token_s,
        sampling_s: BYTES * model.head_weights() / split / bandwidth / e.head,
        per_sequence_s: f64::from(model.vocab) * e.logit_s + link.sequence_s,
        // Scores and weighted sum: two multiplications and two additions per query dimension and pair.
        per_prefill_pair_s: 4.0 * model.query_width() / split / flops / e.prefill_flops,
        overhead_s: e.overhead_s + layers * ATTENTION_KERNELS * e.launch_s + link.iteration_s,
        prefill_s: layers * e.prefill_layer_s,
        per_context_token_s: model.kv_bytes() / split / bandwidth / e.context,
    }
}

/// What splitting a model costs.
struct Link {
    iteration_s: f64,
    token_s: f64,
    sequence_s: f64,
}

impl Link {
    /// Two sums over the GPUs a layer and one after the embedding, each a ring: a latency, and 2 (tp − 1) / tp of the
    /// hidden state over the link; and the gathering of the logits.
    fn of(model: &Model, gpu: &Gpu, split: f64) -> Self {
        if split <= 1.0 {
            return Self {
                iteration_s: 0.0,
                token_s: 0.0,
                sequence_s: 0.0,
            };
        }
        let (share, rate, layers) = (
            (split - 1.0) / split,
            gpu.link_gb_s * 1e9,
            f64::from(model.layers),
        );
        Self {
            iteration_s: (2.0 * layers + 2.0) * gpu.link_latency_us * 1e-6,
            token_s: (2.0 * layers + 1.0) * f64::from(model.hidden) * BYTES * 2.0 * share / rate,
            sequence_s: f64::from(model.vocab) * BYTES * share / rate,
        }
    }
}
