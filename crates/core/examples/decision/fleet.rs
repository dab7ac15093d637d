//! What is decided about: the fleet, its engines' readings, and the prompts.

use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::policies::Policies;
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::presets::Preset;
use weighbridge_core::signals::Reading;
use weighbridge_core::spec::{EndpointSpec, FleetSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_core::work::Work;

/// What is measured.
pub(crate) struct Setting {
    pub(crate) candidates: usize,
    pub(crate) policies: Policies,
    /// 0: nothing is known of prompts.
    pub(crate) prompt_tokens: u32,
    pub(crate) block_tokens: u32,
    /// Different prompts, of which each begins with a quarter that all share.
    pub(crate) prompts: usize,
    /// Requests per endpoint that stay under way.
    pub(crate) inflight: usize,
    pub(crate) readings: bool,
    /// From sending to the first token, and from that to the end: with both less than half the time between two requests none
    /// is under way beside those of `inflight`.
    pub(crate) takes: Duration,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            candidates: 8,
            policies: Policies {
                session_affinity: Some(Default::default()),
                least_inflight: Some(Default::default()),
                ..Policies::default()
            },
            prompt_tokens: 0,
            block_tokens: 64,
            prompts: 256,
            inflight: 0,
            readings: false,
            takes: Duration::ZERO,
        }
    }
}

/// The policies of these names, at their defaults.
pub(crate) fn policies(names: &str) -> Result<Policies, serde_json::Error> {
    let named = |name: &str| (name.to_owned(), Value::Object(Map::new()));
    serde_json::from_value(Value::Object(names.split(',').map(named).collect()))
}

/// The policies that a preset stands for.
pub(crate) fn preset(name: &str) -> Result<Policies, String> {
    let named = Preset::ALL.into_iter().find(|preset| preset.as_str() == name);
    named
        .map(Preset::policies)
        .ok_or_else(|| format!("--preset {name}: no such preset"))
}

/// What the engine at `place` says; no two neighbours say the same.
pub(crate) fn reading(place: u32) -> Reading {
    Reading {
        waiting: Some(place % 3),
        running: Some(4 + place % 5),
        kv_usage: Some(f64::from(place % 17) / 20.0),
        block_tokens: Some(16),
        cache_tokens: Some(400_000),
        max_sequences: Some(256),
        ..Reading::default()
    }
}

impl Setting {
    /// One pool with names of the usual length under one route.
    pub(crate) fn fleet(&self) -> FleetSpec {
        let endpoint = |place: usize| {
            let name = format!("gpu{place:03}.example:8000");
            EndpointSpec::new(name.as_str(), format!("http://{name}"))
        };
        let pool = PoolSpec {
            max_inflight: Some(256),
            ..PoolSpec::new("qwen3-32b", (0..self.candidates).map(endpoint).collect())
        };
        let route = RouteSpec {
            policies: self.policies.clone(),
            ..RouteSpec::new("qwen3", vec![TargetSpec::new("qwen3-32b", 0)])
        };
        FleetSpec {
            pools: vec![pool],
            routes: vec![route],
            ..FleetSpec::default()
        }
    }

    /// The prompts; none where nothing is known of them.
    pub(crate) fn works(&self) -> Vec<Arc<Work>> {
        if self.prompt_tokens == 0 {
            return Vec::new();
        }
        let blocks = self.prompt_tokens / self.block_tokens.max(1);
        let chain = |prompt: u64| {
            let own = move |block: u32| if block < blocks / 4 { 0 } else { prompt + 1 };
            // Any hash that spreads: the blocks of a real prompt are hashes too.
            let hash = move |block: u32| {
                let seed = (own(block) << 32) | u64::from(block);
                BlockHash((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29))
            };
            (0..blocks).map(hash).collect()
        };
        let work = |prompt| {
            Arc::new(Work {
                prompt_tokens: self.prompt_tokens,
                max_tokens: Some(512),
                blocks: chain(prompt),
                block_tokens: self.block_tokens,
                ..Work::default()
            })
        };
        (0..self.prompts as u64).map(work).collect()
    }
}
