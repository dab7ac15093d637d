//! All yardsticks that choose an engine, each over its grid.

use super::aibrix::PrefixCache;
use super::choose::Chance;
use super::d2lpm::{D2lpm, QUANTUM};
use super::dynamo::Dynamo;
use super::latency::{ByLatency, Kind};
use super::llm_d::{Index, LlmD, Weights};
use super::lmetric::LMetric;
use super::plain::{LeastInflight, PowerOfTwo, Random, RoundRobin};
use super::preble::{Preble, Speed};
use super::prefixes::{Blocks, Memories};
use super::sglang::CacheAware;
use super::skylb::SkyLb;
use super::smg::Smg;
use super::{Make, Yardstick};
use std::sync::Arc;
use weighbridge_sim::drive::Baseline;

/// How a variant is made: from the workload's blocks and a seed.
fn make<B: Baseline + 'static>(new: impl Fn(Blocks, u64) -> B + Send + Sync + 'static) -> Make {
    Arc::new(move |tokens, seed| Box::new(new(Blocks::new(tokens), seed)))
}

/// An algorithm with one set of settings.
fn shipped(family: &'static str, make: Make) -> Yardstick {
    Yardstick {
        family,
        settings: String::new(),
        shipped: true,
        make,
    }
}

/// llm-d's picker over its weights.
fn llm_d(family: &'static str, index: fn() -> Index) -> impl Iterator<Item = Yardstick> {
    let grid = [Weights::SHIPPED, Weights::EXPERIMENT].into_iter().enumerate();
    grid.map(move |(place, weights)| Yardstick {
        family,
        settings: format!("weights {}, {}, {}", weights.queue, weights.kv, weights.prefix),
        shipped: place == 0,
        make: make(move |blocks, seed| LlmD::new(blocks, weights, index(), seed)),
    })
}

/// All algorithms that choose an engine, each over its grid; the shipped settings of a family come first.
#[must_use]
pub fn all() -> Vec<Yardstick> {
    let mut all = vec![
        shipped("round robin", make(|_, _| RoundRobin::default())),
        shipped("random", make(|_, seed| Random(Chance::new(seed)))),
        shipped(
            "least in-flight",
            make(|_, seed| LeastInflight(Chance::new(seed))),
        ),
        shipped("power of two", make(|_, seed| PowerOfTwo(Chance::new(seed)))),
        shipped(
            "cache-aware, SGLang 0.3",
            make(|blocks, _| CacheAware::new(blocks)),
        ),
        shipped("cache-aware, SMG 1.13", make(|blocks, _| Smg::new(blocks))),
    ];
    all.extend(llm_d("llm-d, load only", || Index::None));
    all.extend(llm_d("llm-d, approximate", || {
        Index::Approximate(Memories::default())
    }));
    all.extend(llm_d("llm-d, precise", || Index::Precise));
    all.extend([
        shipped(
            "Dynamo KV router",
            make(|blocks, seed| Dynamo::new(blocks, 0.0, seed)),
        ),
        shipped("LMetric", make(LMetric::new)),
        shipped("Preble", make(|blocks, _| Preble::new(blocks, Speed::ROUGH))),
        shipped("AIBrix prefix-cache", make(PrefixCache::new)),
        shipped("SkyLB", make(SkyLb::new)),
        shipped("D²LPM", make(|blocks, seed| D2lpm::new(blocks, QUANTUM, seed))),
        shipped(
            "latency of two",
            make(|_, seed| ByLatency::new(Kind::Average, seed)),
        ),
        shipped(
            "peak EWMA of two",
            make(|_, seed| ByLatency::new(Kind::Peak, seed)),
        ),
    ]);
    all
}
