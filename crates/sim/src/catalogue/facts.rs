//! Facts of models and GPUs, from their configurations and data sheets.

use super::CatalogueError;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Bytes of a weight and of a cached value: bf16.
pub(super) const BYTES: f64 = 2.0;

/// A transformer's sizes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name in lower case, without its publisher.
    pub name: String,
    /// Layers.
    pub layers: u32,
    /// Width of the hidden state.
    pub hidden: u32,
    /// Width inside a feed-forward part, of one expert.
    pub ffn: u32,
    /// Matrices of a feed-forward part: 3 with a gate, else 2.
    pub ffn_matrices: u32,
    /// Attention heads.
    pub heads: u32,
    /// Heads of keys and values.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Entries of the vocabulary.
    pub vocab: u32,
    /// Longest sequence, in tokens.
    pub context: u32,
    /// Experts of a layer; 1: dense.
    pub experts: u32,
    /// Experts that a token passes through.
    pub active_experts: u32,
    /// Whether embedding and output head are one matrix.
    pub tied: bool,
    /// Kernels that a layer launches, without attention.
    pub kernels_per_layer: u32,
}

impl Model {
    fn layer_weights(&self, experts: u32) -> f64 {
        let heads = f64::from(2 * self.heads + 2 * self.kv_heads) * f64::from(self.head_dim);
        let expert = f64::from(self.ffn_matrices) * f64::from(self.ffn);
        f64::from(self.layers) * f64::from(self.hidden) * (heads + f64::from(experts) * expert)
    }

    /// Weights of all layers.
    pub fn weights(&self) -> f64 {
        self.layer_weights(self.experts)
    }

    /// Weights that one token passes through.
    pub fn active_weights(&self) -> f64 {
        self.layer_weights(self.active_experts)
    }

    /// Weights of the output head.
    pub fn head_weights(&self) -> f64 {
        f64::from(self.hidden) * f64::from(self.vocab)
    }

    /// All weights in bytes.
    pub fn bytes(&self) -> f64 {
        let tables = if self.tied { 1.0 } else { 2.0 };
        BYTES * (self.weights() + tables * self.head_weights())
    }

    /// Bytes that one token takes in the cache.
    pub fn kv_bytes(&self) -> f64 {
        2.0 * BYTES * f64::from(self.kv_heads) * f64::from(self.head_dim) * f64::from(self.layers)
    }

    /// Width of all queries of all layers.
    pub(super) fn query_width(&self) -> f64 {
        f64::from(self.heads) * f64::from(self.head_dim) * f64::from(self.layers)
    }

    /// Whether it computes the same: names and longest sequence aside.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let bare = |model: &Self| Self {
            name: String::new(),
            context: 0,
            ..model.clone()
        };
        bare(self) == bare(other)
    }
}

/// A GPU's data sheet.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Name in lower case.
    pub name: String,
    /// Other names that it is known by.
    pub aliases: Vec<String>,
    /// Memory bandwidth, GB/s.
    pub bandwidth_gb_s: f64,
    /// Dense bf16 arithmetic, TFLOP/s.
    pub bf16_tflops: f64,
    /// Memory that a process finds, GiB.
    pub memory_gib: f64,
    /// What a sum over several GPUs gets out of the link between them, one way, GB/s: NVLink's nominal rate; 16 without
    /// NVLink, as the configuration of the measured runs states.
    pub link_gb_s: f64,
    /// Latency of such a sum, µs.
    pub link_latency_us: f64,
    /// What an hour costs, in round figures of late 2026 and US dollars: a default to be replaced by yours.
    pub gpu_hour: f64,
    /// Whether vLLM takes larger batches by default: 8,192 tokens and 1,024 sequences instead of 2,048 and 256.
    pub large_batches: bool,
    /// The measured GPU whose efficiencies stand in for its own.
    pub like: String,
}

impl Gpu {
    /// Its name, then the others.
    pub(super) fn names(&self) -> Vec<String> {
        [std::slice::from_ref(&self.name), &self.aliases].concat()
    }

    /// Whether this is one of them.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names().iter().any(|own| same_name(own, name))
    }

    /// Memory in bytes.
    pub fn memory(&self) -> f64 {
        self.memory_gib * f64::from(1 << 30)
    }
}

pub(super) fn table<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, CatalogueError> {
    serde_json::from_str(text).map_err(|e| CatalogueError::BuiltIn(format!("{name}: {e}")))
}

/// The models that are known.
///
/// # Errors
/// [`CatalogueError::BuiltIn`], a bug of ours.
pub fn models() -> Result<Vec<Model>, CatalogueError> {
    table("models.json", include_str!("models.json"))
}

/// The GPUs that are known.
///
/// # Errors
/// [`CatalogueError::BuiltIn`], a bug of ours.
pub fn gpus() -> Result<Vec<Gpu>, CatalogueError> {
    table("gpus.json", include_str!("gpus.json"))
}

/// Whether two names differ in nothing but hyphens: `rtx4090` is `rtx-4090`.
pub(super) fn same_name(a: &str, b: &str) -> bool {
    let letters = |name: &'_ str| name.bytes().filter(|byte| *byte != b'-').collect::<Vec<_>>();
    letters(a) == letters(b)
}
