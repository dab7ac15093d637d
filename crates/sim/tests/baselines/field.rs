//! The yardsticks by name, with their defaults.

use crate::aibrix::PrefixCache;
use crate::choose::Chance;
use crate::dlpm::D2lpm;
use crate::dynamo::Dynamo;
use crate::latency::{ByLatency, Kind};
use crate::llm_d::{Index, LlmD, Weights};
use crate::lmetric::LMetric;
use crate::plain::{LeastInflight, PowerOfTwo, Random, RoundRobin};
use crate::preble::{Preble, Speed};
use crate::prefixes::{Blocks, Memories};
use crate::sglang::CacheAware;
use crate::skylb::SkyLb;
use crate::smg::Smg;
use weighbridge_sim::drive::Baseline;

/// Service units that D²LPM gives a client at an engine in one go: a prompt and answer of usual length, some ten times.
const QUANTUM: f64 = 50_000.0;

/// What some yardsticks are told beforehand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// The workload's blocks.
    pub(crate) blocks: Blocks,
    /// Weights of llm-d's scorers.
    pub(crate) weights: Weights,
    /// What Preble knows of an engine.
    pub(crate) speed: Speed,
    /// For chance.
    pub(crate) seed: u64,
}

impl Known {
    pub(crate) fn new(block_tokens: u32, seed: u64) -> Self {
        Self {
            blocks: Blocks { tokens: block_tokens },
            weights: Weights::SHIPPED,
            speed: Speed::ROUGH,
            seed,
        }
    }
}

/// A yardstick by the name that it has in tables.
pub(crate) type Named = (&'static str, fn(Known) -> Box<dyn Baseline>);

/// All that choose an endpoint.
pub(crate) const ALL: [Named; 17] = [
    ("round robin", |_| Box::new(RoundRobin::default())),
    ("random", |known| Box::new(Random(Chance::new(known.seed)))),
    ("least in-flight", |known| {
        Box::new(LeastInflight(Chance::new(known.seed)))
    }),
    ("power of two", |known| {
        Box::new(PowerOfTwo(Chance::new(known.seed)))
    }),
    ("cache-aware, SGLang 0.3", |known| {
        Box::new(CacheAware::new(known.blocks))
    }),
    ("cache-aware, SMG 1.13", |known| Box::new(Smg::new(known.blocks))),
    ("llm-d, load only", |known| {
        Box::new(LlmD::new(known.blocks, known.weights, Index::None, known.seed))
    }),
    ("llm-d, approximate", |known| {
        let index = Index::Approximate(Memories::default());
        Box::new(LlmD::new(known.blocks, known.weights, index, known.seed))
    }),
    ("llm-d, precise", |known| {
        Box::new(LlmD::new(known.blocks, known.weights, Index::Precise, known.seed))
    }),
    ("Dynamo KV router", |known| {
        Box::new(Dynamo::new(known.blocks, 0.0, known.seed))
    }),
    ("LMetric", |known| {
        Box::new(LMetric::new(known.blocks, known.seed))
    }),
    ("Preble", |known| Box::new(Preble::new(known.blocks, known.speed))),
    ("AIBrix prefix-cache", |known| {
        Box::new(PrefixCache::new(known.blocks, known.seed))
    }),
    ("SkyLB", |known| Box::new(SkyLb::new(known.blocks, known.seed))),
    ("D²LPM", |known| {
        Box::new(D2lpm::new(known.blocks, QUANTUM, known.seed))
    }),
    ("latency of two", |known| {
        Box::new(ByLatency::new(Kind::Average, known.seed))
    }),
    ("peak EWMA of two", |known| {
        Box::new(ByLatency::new(Kind::Peak, known.seed))
    }),
];

/// The one of this name.
pub(crate) fn named(name: &str, known: Known) -> Box<dyn Baseline> {
    let found = ALL.iter().find(|(of, _)| *of == name);
    found.unwrap_or_else(|| panic!("no yardstick {name:?}")).1(known)
}
