//! The index against a naive one, block by block.

use super::{BlockHash, Limits, Matches, PrefixIndex};
use crate::time::Time;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn mix(hash: u64, choice: u64) -> u64 {
    let mut x = hash.wrapping_mul(31) ^ choice.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// A chain through a tree: for each part a branch, and how many blocks it is followed.
fn chain(parts: &[(u64, usize)]) -> Vec<BlockHash> {
    let mut hash = 1;
    let mut blocks = Vec::new();
    for (branch, count) in parts {
        for at in 0..*count {
            hash = mix(hash, if at == 0 { *branch } else { 77 });
            blocks.push(BlockHash(hash));
        }
    }
    blocks
}

fn unlimited() -> PrefixIndex {
    PrefixIndex::new(Limits {
        bytes_max: usize::MAX,
        idle_max: None,
    })
}

fn at(seconds: u64) -> Time {
    Time::from_origin(Duration::from_secs(seconds))
}

/// What the index should know, kept block by block.
#[derive(Default)]
struct Naive {
    uses: u64,
    /// Holder to block to the order of its last use and its second.
    learned: BTreeMap<u32, BTreeMap<BlockHash, (u64, u64)>>,
    capacities: BTreeMap<u32, usize>,
    exact: BTreeMap<u32, BTreeSet<BlockHash>>,
}

impl Naive {
    fn store(&mut self, holder: u32, chain: &[BlockHash], second: u64) {
        let held = self.learned.entry(holder).or_default();
        for block in chain.iter().rev() {
            self.uses += 1;
            held.insert(*block, (self.uses, second));
        }
        self.shrink(holder);
    }

    fn shrink(&mut self, holder: u32) {
        let capacity = self.capacities.get(&holder).copied().unwrap_or(usize::MAX);
        let held = self.learned.entry(holder).or_default();
        while held.len() > capacity {
            let (oldest, _) = held.iter().min_by_key(|(_, used)| **used).unwrap();
            let oldest = *oldest;
            held.remove(&oldest);
        }
    }

    fn expire(&mut self, before: u64) {
        for held in self.learned.values_mut() {
            held.retain(|_, (_, second)| *second >= before);
        }
    }

    fn matches(&self, chain: &[BlockHash]) -> BTreeMap<u32, u32> {
        let run = |has: &dyn Fn(&BlockHash) -> bool| {
            u32::try_from(chain.iter().take_while(|block| has(block)).count()).unwrap()
        };
        let mut found = BTreeMap::new();
        for (holder, held) in &self.learned {
            found.insert(*holder, run(&|block| held.contains_key(block)));
        }
        for (holder, held) in &self.exact {
            let run = run(&|block| held.contains(block));
            let known = found.entry(*holder).or_default();
            *known = run.max(*known);
        }
        found.retain(|_, blocks| *blocks > 0);
        found
    }

    fn held_by(&self, holder: u32) -> usize {
        self.learned.get(&holder).map_or(0, BTreeMap::len) + self.exact.get(&holder).map_or(0, BTreeSet::len)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Store(u32, Vec<(u64, usize)>),
    Capacity(u32, Option<u32>),
    Pass(u64),
    /// The blocks from a place on, with or without a word of what is before them.
    Stored(u32, Vec<(u64, usize)>, usize, bool),
    /// Blocks of a chain: from, count, step, backwards.
    Removed(u32, Vec<(u64, usize)>, (usize, usize, usize, bool)),
    Cleared(u32),
    Query(Vec<(u64, usize)>),
}

fn parts() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((0..3_u64, prop_oneof![1..5_usize, 1..100_usize]), 1..5)
}

fn step() -> impl Strategy<Value = Step> {
    let holder = || 0..6_u32;
    prop_oneof![
        6 => (holder(), parts()).prop_map(|(holder, parts)| Step::Store(holder, parts)),
        1 => (holder(), prop::option::of(0..400_u32)).prop_map(|(holder, blocks)| Step::Capacity(holder, blocks)),
        1 => (1..40_u64).prop_map(Step::Pass),
        6 => (holder(), parts(), 0..200_usize, any::<bool>())
            .prop_map(|(holder, parts, from, parent)| Step::Stored(holder, parts, from, parent)),
        6 => (holder(), parts(), (0..250_usize, 1..150_usize, 1..4_usize, any::<bool>()))
            .prop_map(|(holder, parts, which)| Step::Removed(holder, parts, which)),
        1 => holder().prop_map(Step::Cleared),
        4 => parts().prop_map(Step::Query),
    ]
}

/// Both indexes, and the time.
struct Pair {
    index: PrefixIndex,
    naive: Naive,
    idle: Option<u64>,
    now: u64,
}

impl Pair {
    /// Does the step on both. The chain that it named.
    fn step(&mut self, step: &Step) -> Option<Vec<BlockHash>> {
        match step {
            Step::Store(holder, parts) => {
                let chain = chain(parts);
                self.expire();
                self.index.store(*holder, &chain, at(self.now));
                self.naive.store(*holder, &chain, self.now);
                Some(chain)
            }
            Step::Capacity(holder, blocks) => {
                self.index.set_capacity(*holder, *blocks);
                let capacity = blocks.map_or(usize::MAX, |blocks| blocks as usize);
                self.naive.capacities.insert(*holder, capacity);
                self.naive.shrink(*holder);
                None
            }
            Step::Pass(seconds) => {
                self.now += seconds;
                self.index.expire(at(self.now));
                self.expire();
                None
            }
            Step::Cleared(holder) => {
                self.index.cleared(*holder);
                self.naive.learned.remove(holder);
                self.naive.exact.remove(holder);
                None
            }
            Step::Query(parts) => Some(chain(parts)),
            Step::Stored(..) | Step::Removed(..) => Some(self.event(step)),
        }
    }

    fn event(&mut self, step: &Step) -> Vec<BlockHash> {
        match step {
            Step::Stored(holder, parts, from, parent) => {
                let chain = chain(parts);
                let from = from % chain.len();
                let parent = (*parent && from > 0).then(|| chain[from - 1]);
                self.index.stored(*holder, parent, &chain[from..]);
                let held = self.naive.exact.entry(*holder).or_default();
                held.extend(&chain[from..]);
                chain
            }
            Step::Removed(holder, parts, (from, count, step, backwards)) => {
                let chain = chain(parts);
                let some = chain.iter().skip(from % chain.len()).step_by(*step).take(*count);
                let mut gone: Vec<BlockHash> = some.copied().collect();
                if *backwards {
                    gone.reverse();
                }
                self.index.removed(*holder, &gone);
                let held = self.naive.exact.entry(*holder).or_default();
                held.retain(|block| !gone.contains(block));
                chain
            }
            _ => unreachable!("the others are no events"),
        }
    }

    fn expire(&mut self) {
        if let Some(idle) = self.idle {
            self.naive.expire(self.now - idle);
        }
    }
}

/// Runs the steps on both, and compares after each what they find on the chain that it named.
fn compare(steps: &[Step], idle: Option<u64>) {
    let mut pair = Pair {
        index: PrefixIndex::new(Limits {
            bytes_max: usize::MAX,
            // Between two seconds, so that it does not matter that the index rounds.
            idle_max: idle.map(|idle| Duration::from_millis(1000 * idle + 500)),
        }),
        naive: Naive::default(),
        idle,
        now: 100,
    };
    let mut found = Matches::default();
    for step in steps {
        let query = pair.step(step);
        let Pair { index, naive, .. } = &pair;
        if let Some(chain) = query {
            index.matches(&chain, &mut found);
            let got: BTreeMap<u32, u32> = found.as_slice().iter().copied().collect();
            assert_eq!(got.len(), found.as_slice().len(), "each holder once");
            assert_eq!(got, naive.matches(&chain), "after {step:?}");
        }
        for holder in 0..6 {
            let (got, expected) = (index.held_by(holder) as usize, naive.held_by(holder));
            assert_eq!(got, expected, "{holder} after {step:?}");
        }
        let all: usize = (0..6).map(|holder| naive.held_by(holder)).sum();
        assert_eq!(index.blocks(), all);
    }
    for holder in 0..6 {
        pair.index.cleared(holder);
    }
    pair.index.runs.assert_empty();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn it_knows_what_a_naive_index_knows(steps in prop::collection::vec(step(), 1..120)) {
        compare(&steps, None);
    }

    #[test]
    fn it_forgets_what_a_naive_index_forgets_in_time(steps in prop::collection::vec(step(), 1..80)) {
        compare(&steps, Some(60));
    }
}

#[test]
fn a_run_that_is_gone_in_the_middle_is_back_with_it() {
    let mut index = unlimited();
    let blocks = chain(&[(0, 200)]);
    let mut found = Matches::default();
    let mut leading = |index: &PrefixIndex| {
        index.matches(&blocks, &mut found);
        found.blocks(3)
    };
    index.stored(3, None, &blocks);
    assert_eq!(leading(&index), 200);
    index.removed(3, &blocks[90..95]);
    assert_eq!((leading(&index), index.held_by(3)), (90, 195));
    index.stored(3, Some(blocks[89]), &blocks[90..95]);
    assert_eq!(leading(&index), 200);
    // The tail came before the head.
    index.stored(4, Some(blocks[49]), &blocks[50..]);
    index.matches(&blocks, &mut found);
    assert_eq!((found.blocks(3), found.blocks(4)), (200, 0));
    index.stored(4, None, &blocks[..50]);
    index.matches(&blocks, &mut found);
    assert_eq!((found.blocks(3), found.blocks(4)), (200, 200));
    // Blocks and holders that it never heard of.
    index.removed(9, &blocks);
    index.removed(3, &chain(&[(5, 3)]));
    index.stored(u32::MAX, None, &blocks);
    index.store(u32::MAX, &blocks, Time::ZERO);
    index.cleared(u32::MAX);
    assert_eq!(index.held_by(u32::MAX), 0);
    index.matches(&[], &mut found);
    assert!(found.as_slice().is_empty());
}

#[test]
fn the_least_recently_used_go_first_and_tails_before_heads() {
    let mut index = unlimited();
    index.set_capacity(0, Some(10));
    let (a, b) = (chain(&[(0, 4), (1, 3)]), chain(&[(0, 4), (2, 3)]));
    let mut found = Matches::default();
    let mut leading = |index: &PrefixIndex, chain: &[BlockHash]| {
        index.matches(chain, &mut found);
        found.blocks(0)
    };
    index.store(0, &a, at(1));
    index.store(0, &b, at(2));
    assert_eq!((leading(&index, &a), leading(&index, &b)), (7, 7));
    // Two more than there is room for: the tail of the older, not what both share.
    let c = chain(&[(3, 2)]);
    index.store(0, &c, at(3));
    assert_eq!(
        (leading(&index, &a), leading(&index, &b), leading(&index, &c)),
        (5, 7, 2)
    );
    index.set_capacity(0, Some(3));
    assert_eq!(
        (leading(&index, &a), leading(&index, &b), leading(&index, &c)),
        (1, 1, 2)
    );
    // A prompt that is longer than the cache: its beginning.
    let long = chain(&[(1, 50)]);
    index.store(0, &long, at(4));
    assert_eq!((leading(&index, &long), index.held_by(0)), (3, 3));
}

#[test]
fn memory_stays_below_its_limit_and_what_was_used_last_stays() {
    let bytes_max = 1 << 20;
    for exact in [false, true] {
        for shape in [1, 7, 300] {
            let mut index = PrefixIndex::new(Limits {
                bytes_max,
                idle_max: None,
            });
            let mut found = Matches::default();
            for prompt in 0..60_000 / shape as u64 * 4 {
                let holder = u32::try_from(prompt % 40).unwrap();
                let blocks = chain(&[(prompt, shape)]);
                index.expire(Time::from_origin(Duration::from_millis(100 * prompt)));
                if exact {
                    index.stored(holder, None, &blocks);
                } else {
                    index.store(
                        holder,
                        &blocks,
                        Time::from_origin(Duration::from_millis(100 * prompt)),
                    );
                }
                assert!(index.bytes() <= bytes_max, "{} of {bytes_max}", index.bytes());
                index.matches(&blocks, &mut found);
                assert_eq!(found.as_slice(), [(holder, u32::try_from(shape).unwrap())]);
            }
            let per_block = index.bytes() as f64 / index.blocks() as f64;
            assert!(
                per_block < if shape == 300 { 25.0 } else { 210.0 },
                "{shape}: {per_block} B a block"
            );
        }
    }
}

#[test]
fn memory_goes_to_whatever_needs_it() {
    let bytes_max = 2 << 20;
    let mut index = PrefixIndex::new(Limits {
        bytes_max,
        idle_max: None,
    });
    let mut now = 0;
    let mut number = 0;
    // Long prompts on one holder each, short ones, few prompts on all holders, events, and over again.
    for round in 0..3 {
        for shape in 0..4 {
            for _ in 0..3000 {
                number += 1;
                now += 1;
                let holder = u32::try_from(number % 128).unwrap();
                match shape {
                    0 => index.store(holder, &chain(&[(number, 200)]), at(now)),
                    1 => index.store(holder, &chain(&[(number, 2)]), at(now)),
                    2 => index.store(holder, &chain(&[(number / 128, 200), (number, 5)]), at(now)),
                    _ => index.stored(holder, None, &chain(&[(number, 90)])),
                }
                assert!(index.bytes() <= bytes_max, "{}", index.bytes());
            }
            // None of them found the memory taken by the others.
            let least = [60_000, 5_000, 60_000, 60_000][shape];
            assert!(
                index.blocks() > least,
                "{round} {shape}: {} blocks",
                index.blocks()
            );
        }
    }
}

#[test]
fn a_long_prompt_is_linear_and_strangers_cost_nothing() {
    let mut index = unlimited();
    let long = chain(&[(0, 6250)]);
    index.store(2, &long, at(1));
    index.stored(3, None, &long);
    let mut found = Matches::default();
    index.matches(&long, &mut found);
    assert_eq!((found.blocks(2), found.blocks(3)), (6250, 6250));
    assert!(index.bytes() < 6250 * 40 + (2 << 16), "{}", index.bytes());
}

#[test]
fn time_limits_what_is_learned() {
    let mut index = PrefixIndex::new(Limits {
        bytes_max: 1 << 20,
        idle_max: Some(Duration::from_secs(10)),
    });
    let (a, b) = (chain(&[(0, 100)]), chain(&[(1, 100)]));
    index.store(0, &a, at(0));
    index.stored(0, None, &a);
    index.store(1, &b, at(5));
    index.expire(at(9));
    assert_eq!((index.held_by(0), index.held_by(1)), (200, 100));
    index.expire(at(12));
    assert_eq!((index.held_by(0), index.held_by(1)), (100, 100));
    // A clock that goes back changes nothing.
    index.expire(at(1));
    index.store(1, &b, at(12));
    index.expire(at(20));
    assert_eq!((index.held_by(0), index.held_by(1)), (100, 100));
    index.expire(at(30));
    assert_eq!((index.held_by(0), index.held_by(1)), (100, 0));
}

/// Two caches of 100 blocks, the first of which is asked for 20 prompts of 10 over and over.
#[test]
fn a_cache_that_is_too_small_for_what_is_asked_for_regrets_what_it_forgets() {
    let mut index = unlimited();
    index.set_capacity(0, Some(100));
    index.set_capacity(1, Some(100));
    for round in 0..200 {
        index.store(0, &chain(&[(round % 20, 10)]), at(round));
        index.store(1, &chain(&[(1000 + round, 10)]), at(round));
    }
    assert!(index.regret(0) > 0.9, "{}", index.regret(0));
    assert_eq!(index.regret(1), 0.0, "nobody asks for what it forgot");
    index.cleared(0);
    assert_eq!(index.regret(0), 0.0);
}

#[test]
fn events_tell_of_regret_too() {
    let mut index = unlimited();
    for round in 0..200 {
        let prompt = chain(&[(round % 20, 10)]);
        index.stored(0, None, &prompt);
        index.removed(0, &prompt);
    }
    assert!(index.regret(0) > 0.8, "{}", index.regret(0));
    index.removed(0, &chain(&[(3, 10)]));
    assert!(index.regret(0) > 0.8, "what it did not have is not forgotten");
}

/// What was learned before is not charged to who comes after.
#[test]
fn a_newcomer_inherits_no_ghosts() {
    let mut index = unlimited();
    index.set_capacity(0, Some(100));
    (0..100).for_each(|round| index.store(0, &chain(&[(round, 10)]), at(round)));
    index.cleared(0);
    (1000..1100).for_each(|round| index.store(0, &chain(&[(round, 10)]), at(round)));
    // Another one is asked for what the first had lost.
    (0..100).for_each(|round| index.store(1, &chain(&[(round, 10)]), at(round)));
    assert_eq!(index.regret(0), 0.0);
}

/// Ghosts come when memory is full, and their part of it was kept free.
#[test]
fn memory_stays_below_its_limit_when_caches_turn_out_small() {
    let limit = |bytes_max| Limits {
        bytes_max,
        idle_max: None,
    };
    let mut fresh = PrefixIndex::new(limit(1 << 20));
    let mut changed = PrefixIndex::new(limit(256 << 20));
    changed.set_limits(limit(1 << 20));
    for index in [&mut fresh, &mut changed] {
        let prompts = |from: u64| (from..from + 3000).map(|name| chain(&[(name, 30)]));
        for prompt in prompts(0) {
            index.store(0, &prompt, Time::ZERO);
        }
        assert!(index.bytes() > 900 << 10, "it is full: {}", index.bytes());
        index.set_capacity(0, Some(index.held_by(0) - 100));
        assert!(index.bytes() <= 1 << 20, "{}", index.bytes());
        for prompt in prompts(5000) {
            index.store(1, &prompt, Time::ZERO);
        }
        assert!(index.bytes() <= 1 << 20, "{}", index.bytes());
        assert!(index.blocks() > 30_000, "{}", index.blocks());
    }
}

/// Prompts that begin alike share a run, of which each holder has its part.
#[test]
fn what_one_has_of_a_shared_run_it_loses_alone() {
    let mut index = unlimited();
    index.set_capacity(0, Some(100));
    // Another has the beginning of each, and nothing else.
    for round in 0..200 {
        let prompt = chain(&[(round % 20, 20)]);
        index.store(0, &prompt, at(round));
        index.store(1, &prompt[..2], at(round));
    }
    assert!(index.regret(0) > 0.8, "{}", index.regret(0));
    assert_eq!(index.regret(1), 0.0);
}

/// A run that some blocks are gone from remembers their hashes.
#[test]
fn events_of_blocks_inside_a_run_tell_of_regret() {
    let mut index = unlimited();
    for round in 0..200 {
        let prompt = chain(&[(round % 20, 60)]);
        index.stored(0, None, &prompt);
        index.removed(0, &prompt[..20]);
    }
    assert!(index.regret(0) > 0.8, "{}", index.regret(0));
}
