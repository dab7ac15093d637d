//! Public traces: what is read of them, and hit ratios of the cache model against figures of their own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this file holds tests only; what they measure is shown"
)]

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weighbridge_sim::cache::{PrefixCache, hit_tokens};
use weighbridge_sim::text::mix;
use weighbridge_sim::workload::{Format, Read, Request, Workload, read, transform, write_mooncake};

fn data() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("WEIGHBRIDGE_DATA").map_or(beside, PathBuf::from)
}

fn trace(path: &str) -> Read {
    let path = data().join(path);
    let file = File::open(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; set WEIGHBRIDGE_DATA to the folder of test data",
            path.display()
        )
    });
    read(BufReader::new(file), "trace", None).unwrap()
}

fn mooncake() -> Workload {
    trace("traces/mooncake_conversation_first_half.jsonl").workload
}

#[test]
fn the_public_traces_are_read_whole() {
    let first_half = trace("traces/mooncake_conversation_first_half.jsonl");
    assert_eq!((first_half.format, first_half.bad_total), (Format::Mooncake, 0));
    assert_eq!(
        (first_half.workload.requests.len(), first_half.out_of_order),
        (5606, 0)
    );
    let azure = trace("traces/AzureLLMInferenceTrace_conv.csv");
    assert_eq!((azure.format, azure.bad_total), (Format::Azure, 0));
    let requests = &azure.workload.requests;
    assert_eq!(requests.len(), 19_366);
    assert_eq!(requests.last().unwrap().at.as_secs(), 3501);
    let median = |mut values: Vec<u32>| {
        values.sort_unstable();
        values[values.len() / 2]
    };
    assert_eq!(median(requests.iter().map(|r| r.prompt_tokens).collect()), 1020);
    assert_eq!(median(requests.iter().map(|r| r.output_tokens).collect()), 129);
    let sharegpt = trace("calib/llmservingsim/sharegpt300_workload_hashed16.jsonl");
    assert_eq!((sharegpt.format, sharegpt.bad_total), (Format::LlmServingSim, 0));
    assert_eq!(
        (sharegpt.workload.requests.len(), sharegpt.workload.block_tokens),
        (300, 16)
    );
}

/// A hash stands for all before it, so it is found behind one other only.
#[test]
fn hashes_are_chained() {
    for path in [
        "traces/mooncake_conversation_first_half.jsonl",
        "calib/llmservingsim/sharegpt300_workload_hashed16.jsonl",
    ] {
        let mut before = HashMap::new();
        for request in &trace(path).workload.requests {
            for pair in request.blocks.windows(2) {
                assert_eq!(*before.entry(pair[1]).or_insert(pair[0]), pair[0], "{path}");
            }
        }
    }
}

#[test]
fn mooncake_writes_back_as_it_was() {
    let workload = mooncake();
    let mut text = Vec::new();
    write_mooncake(&workload, &mut text).unwrap();
    assert_eq!(read(&text[..], "trace", None).unwrap().workload, workload);
}

#[test]
fn jitter_spreads_mooncakes_steps_of_three_seconds() {
    let mut workload = mooncake();
    let distinct = |workload: &Workload| {
        let mut times: Vec<_> = workload.requests.iter().map(|r| r.at).collect();
        times.dedup();
        times.len()
    };
    let steps = distinct(&workload);
    transform::jitter(&mut workload, 1);
    assert!(steps < 700 && distinct(&workload) > 5500, "{steps}");
    let longest = workload
        .requests
        .windows(2)
        .map(|pair| pair[1].at - pair[0].at)
        .max();
    assert!(longest < Some(Duration::from_secs(6)), "{longest:?}");
}

/// A fleet of caches.
struct Fleet {
    caches: Vec<PrefixCache>,
    prompts: Vec<u64>,
    uncached: Vec<u64>,
    hits: u64,
}

impl Fleet {
    fn new(instances: usize, blocks: usize) -> Self {
        Self {
            caches: vec![PrefixCache::with_capacity(blocks); instances],
            prompts: vec![0; instances],
            uncached: vec![0; instances],
            hits: 0,
        }
    }

    /// Prompt tokens that `request` would find on an instance.
    fn hits(&self, instance: usize, request: &Request) -> u32 {
        let found = self.caches[instance].leading(&request.blocks);
        hit_tokens(found, BLOCK_TOKENS, request.prompt_tokens)
    }

    /// Runs the trace; `choose` names the instance for a request and its number.
    fn run(mut self, workload: &Workload, mut choose: impl FnMut(usize, &Request, &Self) -> usize) -> Self {
        for (number, request) in workload.requests.iter().enumerate() {
            let chosen = choose(number, request, &self);
            let hits = self.hits(chosen, request);
            self.caches[chosen].insert(&request.blocks);
            self.hits += u64::from(hits);
            self.prompts[chosen] += u64::from(request.prompt_tokens);
            self.uncached[chosen] += u64::from(request.prompt_tokens - hits);
        }
        self
    }

    fn ratio(&self) -> f64 {
        self.hits as f64 / self.prompts.iter().sum::<u64>() as f64
    }

    /// Most ÷ mean.
    fn load_factor(loads: &[u64]) -> f64 {
        let most = loads.iter().max().copied().unwrap_or_default();
        most as f64 * loads.len() as f64 / loads.iter().sum::<u64>() as f64
    }
}

fn close(what: &str, got: f64, wanted: f64, tolerance: f64) {
    println!("{what}: {got:.4} (wanted {wanted})");
    assert!(
        (got - wanted).abs() < tolerance,
        "{what}: {got} instead of {wanted}"
    );
}

/// Blocks per instance.
const BLOCKS: usize = 2000;
/// Tokens of a block.
const BLOCK_TOKENS: u32 = 512;

#[test]
fn one_cache_without_end() {
    let mut fleet = Fleet::new(1, 0);
    fleet.caches = vec![PrefixCache::unbounded()];
    close(
        "unbounded",
        fleet.run(&mooncake(), |_, _, _| 0).ratio(),
        0.3465,
        0.001,
    );
}

#[test]
fn one_cache_of_all_instances_blocks_is_the_bound() {
    let workload = mooncake();
    for (instances, wanted) in [(4, 0.176), (8, 0.257)] {
        let pooled = Fleet::new(1, instances * BLOCKS).run(&workload, |_, _, _| 0);
        close(&format!("pooled {instances}"), pooled.ratio(), wanted, 0.001);
    }
}

/// One seed is up to .006 off the mean.
#[test]
fn random_choice() {
    let workload = mooncake();
    for (instances, wanted) in [(4, 0.074), (8, 0.072)] {
        let ratios: Vec<f64> = (0..8)
            .map(|seed| {
                let choose =
                    |number, _: &Request, _: &Fleet| mix(number as u64 ^ mix(seed)) as usize % instances;
                Fleet::new(instances, BLOCKS).run(&workload, choose).ratio()
            })
            .collect();
        println!("random {instances}: {ratios:.4?}");
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        close(&format!("random {instances}"), mean, wanted, 0.001);
    }
}

/// The longest match, or of equal ones the least uncached work, among instances whose uncached work is not far above the
/// least. From 96k to 512k tokens of room the ratios stay within .002 of each other.
fn guarded(request: &Request, fleet: &Fleet) -> usize {
    const ROOM: u64 = 160 * 1024;
    let least = fleet.uncached.iter().min().copied().unwrap_or_default();
    (0..fleet.caches.len())
        .filter(|place| fleet.uncached[*place] <= least + ROOM)
        .max_by_key(|place| (fleet.hits(*place, request), Reverse(fleet.uncached[*place])))
        .unwrap_or(0)
}

#[test]
fn the_longest_prefix_with_a_guard_on_uncached_work() {
    let workload = mooncake();
    for (instances, wanted) in [(4, 0.176), (8, 0.256)] {
        let fleet = Fleet::new(instances, BLOCKS).run(&workload, |_, request, fleet| guarded(request, fleet));
        close(&format!("guarded {instances}"), fleet.ratio(), wanted, 0.001);
        assert!(Fleet::load_factor(&fleet.uncached) < 1.02);
    }
}

/// Block 0 is in every request, so whoever got the first gets all.
#[test]
fn the_longest_prefix_alone_falls_onto_one_instance() {
    let workload = mooncake();
    let longest = |_: usize, request: &Request, fleet: &Fleet| {
        let places = (0..fleet.caches.len()).rev();
        places
            .max_by_key(|place| fleet.hits(*place, request))
            .unwrap_or(0)
    };
    for (instances, blocks) in [(4, BLOCKS), (8, BLOCKS), (8, 500)] {
        let naive = Fleet::new(instances, blocks).run(&workload, longest);
        let turns = Fleet::new(instances, blocks).run(&workload, |number, _, _| number % instances);
        println!(
            "{instances} × {blocks}: naive {:.4}, round robin {:.4}",
            naive.ratio(),
            turns.ratio()
        );
        let factor = Fleet::load_factor(&naive.prompts);
        assert!((factor - instances as f64).abs() < 1e-9, "{factor}");
        assert!(naive.ratio() < turns.ratio());
    }
}
