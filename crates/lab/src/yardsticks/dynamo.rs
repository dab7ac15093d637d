//! NVIDIA Dynamo's KV router.
//!
//! cost = w · max(active prefill blocks + new blocks − overlap, 0) + decode blocks, w being 1 as it ships; the lowest wins at
//! temperature 0, else a softmax over the negative costs, scaled to 0..1, decides by chance. The overlap is known from the
//! engines' events; without them it is what this router sent there in the last 120 s. Active prefill are the uncached blocks
//! of requests without a first token; decode blocks are those that the worker's requests hold, this one included, each block
//! counted once. The router follows both by what it sends and hears.

use super::choose::{Chance, least};
use super::prefixes::{Blocks, Memories};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_sim::cache::ByBlock;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::engine::BlockHash;
use weighbridge_sim::workload::Request;

/// How long what was sent is taken to be cached, where no events tell.
const KEPT: Duration = Duration::from_secs(120);

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Weight of the prefill: `kv_overlap_score_weight`.
    pub weight: f64,
    /// 0: the lowest cost.
    pub temperature: f64,
    /// Whether the engines tell of their caches.
    pub events: bool,
}

impl Settings {
    /// Those that it ships.
    pub const SHIPPED: Self = Self {
        weight: 1.0,
        temperature: 0.0,
        events: true,
    };
}

/// What runs on a worker.
#[derive(Default)]
struct Worker {
    prefill: f64,
    held: ByBlock<u32>,
    /// Blocks that belong to one request alone.
    own: f64,
}

/// A request under way.
struct Active {
    prefill: f64,
    own: f64,
    /// The prompt's are the first so many.
    blocks: (Arc<[BlockHash]>, usize),
}

/// The router.
pub struct Dynamo {
    blocks: Blocks,
    settings: Settings,
    chance: Chance,
    /// What was sent, where no events tell.
    sent: Memories,
    workers: BTreeMap<usize, Worker>,
    active: BTreeMap<usize, Active>,
}

impl Dynamo {
    /// With nothing under way.
    pub fn new(blocks: Blocks, settings: Settings, seed: u64) -> Self {
        Self {
            blocks,
            settings,
            chance: Chance::new(seed),
            sent: Memories::default(),
            workers: BTreeMap::new(),
            active: BTreeMap::new(),
        }
    }

    /// Blocks that the prompt takes, the last of them in part.
    fn size(&self, request: &Request) -> f64 {
        f64::from(request.prompt_tokens) / f64::from(self.blocks.tokens)
    }

    fn overlap(&self, blocks: &[BlockHash], seen: &Seen<'_>) -> f64 {
        if self.settings.events {
            f64::from(seen.engine.cached(blocks))
        } else {
            self.sent.leading(seen.endpoint, blocks) as f64
        }
    }

    fn cost(&self, request: &Request, seen: &Seen<'_>) -> f64 {
        let blocks = self.blocks.of(request);
        let size = self.size(request);
        let overlap = self.overlap(blocks, seen);
        let weight = self.settings.weight;
        let own = size - blocks.len() as f64;
        let Some(worker) = self.workers.get(&seen.endpoint) else {
            return weight * (size - overlap).max(0.0) + size;
        };
        // Who holds a block holds all before it.
        let shared = blocks.partition_point(|block| worker.held.contains_key(block));
        let decode = worker.held.len() as f64 + worker.own + (blocks.len() - shared) as f64 + own;
        weight * (worker.prefill + size - overlap).max(0.0) + decode
    }

    /// Softmax of the negative costs between their least and most.
    fn draw(&mut self, costs: &[f64]) -> usize {
        let (min, max) = costs.iter().fold((f64::INFINITY, 0.0_f64), |(min, max), cost| {
            (min.min(*cost), max.max(*cost))
        });
        let range = if max > min { max - min } else { 1.0 };
        let weights: Vec<f64> = costs
            .iter()
            .map(|cost| (-(cost - min) / range / self.settings.temperature).exp())
            .collect();
        let mut left = self.chance.unit() * weights.iter().sum::<f64>();
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        found.unwrap_or(costs.len() - 1)
    }
}

impl Baseline for Dynamo {
    fn choose(
        &mut self,
        now: Duration,
        (index, request): (usize, &Request),
        candidates: &[Seen<'_>],
    ) -> usize {
        if !self.settings.events {
            let since = now.saturating_sub(KEPT);
            self.sent.all().for_each(|memory| memory.forget_before(since));
        }
        let costs: Vec<f64> = candidates.iter().map(|seen| self.cost(request, seen)).collect();
        let place = if self.settings.temperature > 0.0 {
            self.draw(&costs)
        } else {
            let mut each = costs.iter().copied();
            let best = least(candidates, |_| each.next().unwrap_or(f64::INFINITY));
            self.chance.one_of(&best)
        };
        let blocks = self.blocks.of(request);
        let size = self.size(request);
        let active = Active {
            prefill: size - self.overlap(blocks, &candidates[place]),
            own: size - blocks.len() as f64,
            blocks: (Arc::clone(&request.blocks), blocks.len()),
        };
        let endpoint = candidates[place].endpoint;
        if !self.settings.events {
            self.sent.at(endpoint).note_at(now, blocks, self.blocks.tokens);
        }
        let worker = self.workers.entry(endpoint).or_default();
        worker.prefill += active.prefill;
        worker.own += active.own;
        for block in blocks {
            *worker.held.entry(*block).or_default() += 1;
        }
        self.active.insert(index, active);
        place
    }

    fn began(&mut self, _: Duration, index: usize, endpoint: usize) {
        if let (Some(active), Some(worker)) = (self.active.get_mut(&index), self.workers.get_mut(&endpoint)) {
            worker.prefill -= std::mem::take(&mut active.prefill);
        }
    }

    fn ended(&mut self, now: Duration, index: usize, endpoint: usize) {
        self.began(now, index, endpoint);
        let (Some(active), Some(worker)) = (self.active.remove(&index), self.workers.get_mut(&endpoint))
        else {
            return;
        };
        worker.own -= active.own;
        let (blocks, prompt) = active.blocks;
        for block in &blocks[..prompt] {
            if let Some(holders) = worker.held.get_mut(block) {
                *holders -= 1;
                if *holders == 0 {
                    worker.held.remove(block);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    #[test]
    fn prefill_and_decode_add_up() {
        let mut stage = Stage::new(2);
        stage.holds(1, &chain(1, 6));
        let mut router = Dynamo::new(Blocks { tokens: 16 }, Settings::SHIPPED, 1);
        let seen = stage.seen(&[0, 0]);
        let request = prompt(&chain(1, 10), 8);
        // 10.5 blocks new and 10.5 to decode on an empty worker; six of them are there on the other.
        assert_eq!(router.cost(&request, &seen[0]), 21.0);
        assert_eq!(router.cost(&request, &seen[1]), 15.0);
        assert_eq!(router.choose(Duration::ZERO, (0, &request), &seen), 1);
        // Prefill 4.5 + 4.5; to decode 10 shared, .5 + .5 of their own.
        assert_eq!(router.cost(&request, &seen[1]), 9.0 + 11.0);
        // Another prompt: 4.5 + 3, and 10.5 + 3.
        let other = prompt(&chain(2, 3), 0);
        assert_eq!(router.cost(&other, &seen[1]), 21.0);
        router.began(Duration::ZERO, 0, 1);
        assert_eq!(router.cost(&other, &seen[1]), 16.5);
        router.ended(Duration::ZERO, 0, 1);
        assert_eq!(router.cost(&other, &seen[1]), 6.0);
        assert_eq!(router.workers[&1].held.len(), 0);
    }

    #[test]
    fn without_events_what_was_sent_counts_for_two_minutes() {
        let mut stage = Stage::new(1);
        stage.holds(0, &chain(1, 6));
        let settings = Settings {
            weight: 2.0,
            events: false,
            ..Settings::SHIPPED
        };
        let mut router = Dynamo::new(Blocks { tokens: 16 }, settings, 1);
        let seen = stage.seen(&[0]);
        let request = prompt(&chain(1, 10), 0);
        assert_eq!(router.cost(&request, &seen[0]), 2.0 * 10.0 + 10.0, "nobody told");
        let mut send = |seconds, request: &Request| {
            let now = Duration::from_secs(seconds);
            router.choose(now, (0, request), &seen);
            router.ended(now, 0, 0);
            router.cost(&prompt(&chain(1, 10), 0), &seen[0])
        };
        assert_eq!(send(0, &request), 10.0);
        assert_eq!(send(120, &prompt(&chain(2, 1), 0)), 10.0);
        assert_eq!(send(121, &prompt(&chain(2, 1), 0)), 30.0);
    }

    #[test]
    fn temperature_lets_chance_in() {
        let settings = Settings {
            temperature: 1.0,
            ..Settings::SHIPPED
        };
        let mut router = Dynamo::new(Blocks { tokens: 16 }, settings, 1);
        let mut counts = [0.0_f64; 3];
        for _ in 0..20_000 {
            counts[router.draw(&[10.0, 20.0, 15.0])] += 1.0 / 20_000.0;
        }
        // e^0 : e^-1 : e^-.5, whose sum is 1.974.
        for (got, expected) in counts.into_iter().zip([0.5065, 0.1863, 0.3072]) {
            assert!((got - expected).abs() < 0.01, "{counts:?}");
        }
    }
}
