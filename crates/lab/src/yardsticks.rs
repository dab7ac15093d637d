//! The field's routing algorithms, written from their descriptions, and the settings over which they are tuned.

use std::sync::Arc;
use weighbridge_sim::drive::Baseline;

/// Makes the router of one replica of the gateway: from the tokens of a block of the workload, and a seed.
pub type Make = Arc<dyn Fn(u32, u64) -> Box<dyn Baseline> + Send + Sync>;

/// A routing algorithm with settings.
#[derive(Clone)]
pub struct Yardstick {
    /// The algorithm, `smg`.
    pub family: &'static str,
    /// What its settings are, `threshold 0.3`; empty where it has none.
    pub settings: String,
    /// Whether these are the settings that its project ships.
    pub shipped: bool,
    /// Makes the router of one replica.
    pub make: Make,
}

/// All algorithms that choose an engine, each over its grid; the shipped settings of a family come first.
#[must_use]
pub fn all() -> Vec<Yardstick> {
    Vec::new()
}
