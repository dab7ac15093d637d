//! Measures the prefix index: bytes per block held, time per stored block, and the time of a look-up of 258 blocks, with
//! 128 holders that hold about a million blocks between them.
//!
//! ```text
//! cargo build --release -p weighbridge-core --example prefix_speed
//! target/release/examples/prefix_speed [blocks]
//! ```

#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it measures and prints"
)]

use std::time::{Duration, Instant};
use weighbridge_core::Time;
use weighbridge_core::prefix::{BlockHash, Limits, Matches, PrefixIndex};

const HOLDERS: u64 = 128;
const QUERY: usize = 258;
const QUERIES: usize = 20_000;

struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0, 0) % end
    }
}

fn mix(hash: u64, choice: u64) -> u64 {
    let mut x = hash.wrapping_mul(31) ^ choice.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A prompt: a system prompt of some blocks, then its own.
fn prompt(system: u64, shared: usize, own: u64) -> Vec<BlockHash> {
    let mut hash = mix(system, 1);
    (0..QUERY)
        .map(|at| {
            hash = mix(hash, if at == shared { own } else { 2 });
            BlockHash(hash)
        })
        .collect()
}

/// How prompts share their beginnings.
struct Shape {
    name: &'static str,
    systems: u64,
    shared: usize,
    /// Holders of each prompt.
    copies: u64,
}

const SHAPES: [Shape; 4] = [
    Shape {
        name: "nothing shared",
        systems: u64::MAX,
        shared: 0,
        copies: 1,
    },
    Shape {
        name: "16 system prompts of 64 blocks",
        systems: 16,
        shared: 64,
        copies: 1,
    },
    Shape {
        name: "the same, each prompt on 3",
        systems: 16,
        shared: 64,
        copies: 3,
    },
    Shape {
        name: "all of each prompt on all",
        systems: 1,
        shared: 0,
        copies: HOLDERS,
    },
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Learned,
    Exact,
}

fn add(index: &mut PrefixIndex, kind: Kind, holder: u32, (chain, now): (&[BlockHash], Time)) {
    match kind {
        Kind::Learned => index.store(holder, chain, now),
        // As an engine tells it: a few blocks at a time, each with its parent.
        Kind::Exact => {
            let mut parent = None;
            for blocks in chain.chunks(32) {
                index.stored(holder, parent, blocks);
                parent = blocks.last().copied();
            }
        }
    }
}

fn fill(kind: Kind, shape: &Shape, target: usize) -> (PrefixIndex, Vec<(u64, u64)>, f64) {
    let mut index = PrefixIndex::new(Limits {
        bytes_max: 1 << 30,
        idle_max: None,
    });
    let mut chance = Chance(7);
    let mut prompts = Vec::new();
    let mut calls = 0;
    let mut spent = Vec::new();
    while index.blocks() < target {
        let number = prompts.len() as u64;
        let system = if shape.systems == u64::MAX {
            number
        } else {
            chance.below(shape.systems)
        };
        prompts.push((system, number));
        let chain = prompt(system, shape.shared, number);
        for copy in 0..shape.copies {
            let holder = if shape.copies == HOLDERS {
                copy
            } else {
                chance.below(HOLDERS)
            };
            calls += 1;
            let now = Time::from_origin(Duration::from_millis(calls));
            let start = Instant::now();
            add(&mut index, kind, holder as u32, (&chain, now));
            spent.push(start.elapsed().as_nanos());
        }
    }
    // No call does much more than the others: those that took ten times the median did not have the core to themselves.
    spent.sort_unstable();
    let most = 10 * spent[spent.len() / 2];
    let own: Vec<u128> = spent.into_iter().filter(|nanos| *nanos < most).collect();
    let mean = own.iter().sum::<u128>() as f64 / (own.len() * QUERY) as f64;
    (index, prompts, mean)
}

/// Median and 99th percentile of look-ups, in microseconds.
fn look_up(index: &PrefixIndex, shape: &Shape, prompts: &[(u64, u64)]) -> (f64, f64, usize) {
    let mut chance = Chance(99);
    let mut found = Matches::default();
    let mut times = Vec::with_capacity(QUERIES);
    let mut holders = 0;
    for _ in 0..QUERIES {
        let (system, own) = prompts[chance.below(prompts.len() as u64) as usize];
        let chain = prompt(system, shape.shared, own);
        let start = Instant::now();
        index.matches(&chain, &mut found);
        times.push(start.elapsed());
        holders += found.as_slice().len();
    }
    times.sort_unstable();
    let at = |share: f64| times[(QUERIES as f64 * share) as usize].as_nanos() as f64 / 1000.0;
    (at(0.5), at(0.99), holders / QUERIES)
}

fn main() {
    let target = std::env::args().nth(1).and_then(|count| count.parse().ok());
    let target = target.unwrap_or(1_030_000);
    println!("{HOLDERS} holders, {target} blocks held, look-ups of {QUERY} blocks that are held");
    println!(
        "{:9} {:32} {:>9} {:>9} {:>9} {:>9} {:>8}",
        "kind", "prompts", "B/block", "ns/block", "p50 us", "p99 us", "found"
    );
    for kind in [Kind::Learned, Kind::Exact] {
        for shape in &SHAPES {
            let (index, prompts, store) = fill(kind, shape, target);
            let (median, high, found) = look_up(&index, shape, &prompts);
            let bytes = index.bytes() as f64 / index.blocks() as f64;
            let kind = if kind == Kind::Learned { "learned" } else { "exact" };
            println!(
                "{kind:9} {:32} {bytes:9.2} {store:9.1} {median:9.2} {high:9.2} {found:8}",
                shape.name
            );
        }
    }
}
