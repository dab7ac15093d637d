//! llm-d's endpoint picker (the scheduler of the Gateway API inference extension): a weighted sum of scores from 0 to 1, the
//! highest wins, by chance among equals.
//!
//! - Queue: (max − q) / (max − min) of the waiting queues as last read; all the same: 1.
//! - KV: 1 − usage as last read.
//! - Prefix, approximate (the default): share of the prompt's blocks that this router sent there before, in a memory of
//!   31,250 blocks of 64 tokens for each pod, the least recently sent forgotten first.
//! - Prefix, precise (llm-d-kv-cache): blocks that the engine has by its own events; among the pods that have any, from 0
//!   for the fewest to 1 for the most, all the same: 1; 0 without any. Since release 0.7 the share of the prompt's blocks
//!   instead.
//! - Active requests, where they have a weight (the guide for separate prefill and decode gives 2, beside 3 for the prefix):
//!   (max − n) / max of the requests that this router has under way; none anywhere: 1. There they count for two minutes at
//!   most, here until they end.
//!
//! Where a workload has blocks longer than 64 tokens, the memory holds as many tokens in those.

use super::choose::{Chance, least, spread};
use super::prefixes::{Blocks, Memories};
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// Tokens of a block of the approximate index.
pub(super) const BLOCK: u32 = 64;
/// Its blocks for each pod.
pub(super) const BLOCKS_MAX: u64 = 31_250;

/// Weights of the scorers.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// Of the queue.
    pub queue: f64,
    /// Of the KV cache.
    pub kv: f64,
    /// Of the prefix.
    pub prefix: f64,
    /// Of active requests.
    pub active: f64,
}

impl Weights {
    /// Those that llm-d's guide ships.
    pub const SHIPPED: Self = Self {
        queue: 2.0,
        kv: 2.0,
        prefix: 3.0,
        active: 0.0,
    };
    /// Those of its 37 % experiment.
    pub const EXPERIMENT: Self = Self {
        queue: 1.0,
        kv: 1.0,
        prefix: 2.0,
        active: 0.0,
    };
}

/// Where the prefix scorer knows from what a pod holds.
#[derive(Debug)]
pub enum Index {
    /// It does not: load alone.
    None,
    /// From what was sent there.
    Approximate(Memories),
    /// From the engine's events.
    Precise,
    /// The same, scored as the share of the prompt.
    Share,
}

/// The picker.
pub struct LlmD {
    blocks: Blocks,
    weights: Weights,
    index: Index,
    chance: Chance,
}

impl LlmD {
    /// With these weights.
    pub fn new(blocks: Blocks, weights: Weights, index: Index, seed: u64) -> Self {
        Self {
            blocks,
            weights,
            index,
            chance: Chance::new(seed),
        }
    }

    /// The prefix score of each candidate.
    fn prefix(&self, request: &Request, candidates: &[Seen<'_>]) -> Vec<f64> {
        match &self.index {
            Index::None => vec![0.0; candidates.len()],
            Index::Approximate(memories) => {
                let (blocks, _) = self.blocks.coarse(request, BLOCK);
                let share = |seen: &Seen<'_>| {
                    memories.leading(seen.endpoint, &blocks) as f64 / (blocks.len().max(1) as f64)
                };
                candidates.iter().map(share).collect()
            }
            Index::Share => {
                let blocks = self.blocks.of(request);
                let share =
                    |seen: &Seen<'_>| f64::from(seen.engine.cached(blocks)) / blocks.len().max(1) as f64;
                candidates.iter().map(share).collect()
            }
            Index::Precise => {
                let blocks = self.blocks.of(request);
                let found: Vec<u32> = candidates.iter().map(|seen| seen.engine.cached(blocks)).collect();
                among_holders(&found)
            }
        }
    }
}

/// Blocks found, made scores: see the module.
fn among_holders(found: &[u32]) -> Vec<f64> {
    let holders = || found.iter().copied().filter(|found| *found > 0);
    let (min, max) = (holders().min().unwrap_or(0), holders().max().unwrap_or(0));
    let score = |found: &u32| match *found {
        0 => 0.0,
        _ if min == max => 1.0,
        found => f64::from(found - min) / f64::from(max - min),
    };
    found.iter().map(score).collect()
}

impl Baseline for LlmD {
    fn choose(&mut self, _: Duration, (_, request): (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        let waiting = || candidates.iter().map(|seen| seen.waiting);
        let (min, max) = (waiting().min().unwrap_or(0), waiting().max().unwrap_or(0));
        let queue = |seen: &Seen<'_>| match max - min {
            0 => 1.0,
            range => (max - seen.waiting) as f64 / range as f64,
        };
        let (_, fullest) = spread(candidates);
        let active = |seen: &Seen<'_>| match fullest {
            0 => 1.0,
            fullest => f64::from(fullest - seen.inflight) / f64::from(fullest),
        };
        let mut prefix = self.prefix(request, candidates).into_iter();
        let weights = self.weights;
        let best = least(candidates, |seen| {
            let prefix = prefix.next().unwrap_or(0.0);
            -(weights.queue * queue(seen)
                + weights.kv * (1.0 - seen.kv_usage)
                + weights.prefix * prefix
                + weights.active * active(seen))
        });
        let place = self.chance.one_of(&best);
        if let Index::Approximate(memories) = &mut self.index {
            let (blocks, tokens) = self.blocks.coarse(request, BLOCK);
            let memory = memories.at(candidates[place].endpoint);
            memory.note(&blocks, tokens);
            memory.shrink_to(BLOCKS_MAX * u64::from(BLOCK));
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    fn picker(index: Index) -> LlmD {
        LlmD::new(Blocks { tokens: 16 }, Weights::SHIPPED, index, 1)
    }

    #[test]
    fn load_alone_is_queue_and_cache() {
        let stage = Stage::new(3);
        let mut seen = stage.seen(&[0, 0, 0]);
        (seen[0].waiting, seen[1].waiting, seen[2].waiting) = (4, 2, 0);
        (seen[0].kv_usage, seen[1].kv_usage, seen[2].kv_usage) = (0.0, 0.1, 0.7);
        // 2 · 0 + 2 · 1 = 2; 2 · .5 + 2 · .9 = 2.8; 2 · 1 + 2 · .3 = 2.6.
        let request = prompt(&chain(1, 4), 0);
        assert_eq!(
            picker(Index::None).choose(Duration::ZERO, (0, &request), &seen),
            1
        );
        // With equal queues the cache decides.
        for seen in &mut seen {
            seen.waiting = 9;
        }
        assert_eq!(
            picker(Index::None).choose(Duration::ZERO, (0, &request), &seen),
            0
        );
    }

    #[test]
    fn active_requests_count_where_they_have_a_weight() {
        let stage = Stage::new(3);
        let request = prompt(&chain(1, 4), 0);
        let mut seen = stage.seen(&[8, 2, 4]);
        (seen[0].kv_usage, seen[1].kv_usage, seen[2].kv_usage) = (0.0, 0.8, 0.0);
        let choose = |active| {
            let weights = Weights {
                active,
                ..Weights::SHIPPED
            };
            LlmD::new(Blocks { tokens: 16 }, weights, Index::None, 1).choose(
                Duration::ZERO,
                (0, &request),
                &seen,
            )
        };
        // 2 + 2 + 0 · 4, 2 + .4 + .75 · 4 and 2 + 2 + .5 · 4.
        assert_eq!(choose(4.0), 2);
        // .75 · 8 outweighs .5 · 8 and 1.6 more of the cache.
        assert_eq!(choose(8.0), 1);
    }

    #[test]
    fn the_approximate_index_is_what_was_sent() {
        let stage = Stage::new(2);
        let mut picker = picker(Index::Approximate(Memories::default()));
        let request = prompt(&chain(1, 8), 0);
        let mut seen = stage.seen(&[0, 0]);
        seen[0].kv_usage = 0.2;
        assert_eq!(picker.choose(Duration::ZERO, (0, &request), &seen), 1);
        // 3 · 1 for the two 64-token blocks sent there outweighs 2 · .9 of the cache.
        (seen[0].kv_usage, seen[1].kv_usage) = (0.0, 0.9);
        assert_eq!(picker.choose(Duration::ZERO, (1, &request), &seen), 1);
        // But not a match of half: 3 · .5 < 2 · .9.
        let half = prompt(&[chain(1, 4), chain(2, 4)].concat(), 0);
        assert_eq!(picker.choose(Duration::ZERO, (2, &half), &seen), 0);
    }

    #[test]
    fn the_approximate_index_forgets_only_by_its_own_size() {
        let mut picker = picker(Index::Approximate(Memories::default()));
        let stage = Stage::new(1);
        for text in 0..80 {
            // 500 blocks of 64 tokens each.
            picker.choose(
                Duration::ZERO,
                (0, &prompt(&chain(text * 10, 2000), 0)),
                &stage.seen(&[0]),
            );
        }
        let Index::Approximate(memories) = &mut picker.index else {
            unreachable!()
        };
        assert_eq!(memories.at(0).size(), BLOCKS_MAX * 64);
    }

    #[test]
    fn the_precise_index_is_what_the_engine_has() {
        assert_eq!(among_holders(&[0, 0]), [0.0, 0.0]);
        assert_eq!(among_holders(&[0, 7]), [0.0, 1.0]);
        assert_eq!(among_holders(&[3, 3, 0]), [1.0, 1.0, 0.0]);
        assert_eq!(among_holders(&[2, 10, 4]), [0.0, 1.0, 0.25]);
        let mut stage = Stage::new(3);
        stage.holds(1, &chain(1, 6));
        let mut seen = stage.seen(&[0, 0, 0]);
        seen[1].kv_usage = 0.9;
        let request = prompt(&chain(1, 8), 0);
        assert_eq!(
            picker(Index::Precise).choose(Duration::ZERO, (0, &request), &seen),
            1
        );
        // 3 · 6/8 outweighs 2 · .9, 3 · 4/8 does not.
        let share = |request: &Request| picker(Index::Share).choose(Duration::ZERO, (0, request), &seen);
        assert_eq!(share(&request), 1);
        let half = [chain(1, 4), chain(2, 4)].concat();
        assert_ne!(share(&prompt(&half, 0)), 1);
    }
}
