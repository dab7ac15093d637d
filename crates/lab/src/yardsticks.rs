//! The field's routing algorithms, written from their descriptions, and the settings over which they are tuned.
//!
//! Each file says where its rule comes from and works it out by hand on examples; `tests/yardsticks/main.rs` lists the
//! published or measured figures that they reproduce.

pub mod aibrix;
pub mod characters;
pub mod choose;
pub mod clairvoyant;
pub mod d2lpm;
pub mod dynamo;
mod grids;
pub mod latency;
pub mod llm_d;
pub mod lmetric;
pub mod plain;
pub mod preble;
pub mod prefixes;
pub mod sglang;
pub mod skylb;
pub mod smg;
#[cfg(test)]
mod stage;
pub mod sticky;
pub mod under_way;

use std::sync::Arc;
use weighbridge_sim::drive::Baseline;

pub use grids::all;

/// Makes the router of one replica of the gateway: from the tokens of a block of the workload, and a seed.
pub type Make = Arc<dyn Fn(u32, u64) -> Box<dyn Baseline> + Send + Sync>;

/// A routing algorithm with settings.
#[derive(Clone)]
pub struct Yardstick {
    /// The algorithm by the name that it has in tables, `cache-aware, SMG 1.13`.
    pub family: &'static str,
    /// What its settings are, `match 0.3, imbalance 16/1.2`; empty where it has none.
    pub settings: String,
    /// Whether these are the settings that its project ships.
    pub shipped: bool,
    /// Whether engines must tell it what their caches hold.
    pub told: bool,
    /// Makes the router of one replica.
    pub make: Make,
}
