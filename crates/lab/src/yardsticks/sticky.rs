//! llm-d's optimized baseline since release 0.10, "sticky until saturated": a filter for prefix affinity before a score of
//! tokens in flight.
//!
//! Pods that have at least .8 of the prompt's whole blocks are sticky. A pod's time to the first token is estimated as the
//! tokens in flight there, at 15,928 tokens/s unless it is calibrated; these are the uncached prompt tokens of requests
//! without a first token. If the best of the sticky ones is no more than 18 s behind the best of the others, only sticky ones
//! stay. Among those that stay the fewest tokens in flight decide, with what this request would add, up to 4,194,304, by
//! chance among equals.
//!
//! What a pod has is known from what this router sent there, in a memory like that of llm-d's approximate index, or from the
//! engine's events.

use super::choose::{Chance, least};
use super::llm_d::{BLOCK, BLOCKS_MAX};
use super::prefixes::{Blocks, Memories};
use super::under_way::UnderWay;
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// Tokens in flight above which pods are alike.
const QUEUE_MAX: u64 = 4_194_304;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Share of the prompt's whole blocks that makes a pod sticky: `affinityThreshold`.
    pub matched: f64,
    /// Seconds that the sticky ones may be behind, 0 without a bound: `maxTTFTPenaltyMs`.
    pub penalty: f64,
    /// Tokens a second that a pod prefills: `peakPrefillThroughput`.
    pub throughput: f64,
    /// Whether the engines tell of their caches.
    pub events: bool,
}

impl Settings {
    /// Those that it ships.
    pub const SHIPPED: Self = Self {
        matched: 0.8,
        penalty: 18.0,
        throughput: 15_928.0,
        events: false,
    };
}

/// What is known of a candidate.
struct Known {
    sticky: bool,
    /// Tokens in flight.
    before: u64,
    /// Tokens that the request would add.
    uncached: u64,
}

/// The picker.
pub struct Sticky {
    blocks: Blocks,
    settings: Settings,
    chance: Chance,
    sent: Memories,
    /// Tokens in flight of requests without a first token.
    before: UnderWay,
}

impl Sticky {
    /// With nothing under way.
    #[must_use]
    pub fn new(blocks: Blocks, settings: Settings, seed: u64) -> Self {
        Self {
            blocks,
            settings,
            chance: Chance::new(seed),
            sent: Memories::default(),
            before: UnderWay::default(),
        }
    }

    fn known(&self, request: &Request, candidates: &[Seen<'_>]) -> Vec<Known> {
        let (blocks, tokens) = match self.settings.events {
            true => (self.blocks.of(request).into(), self.blocks.tokens),
            false => self.blocks.coarse(request, BLOCK),
        };
        let one = |seen: &Seen<'_>| {
            let found = match self.settings.events {
                true => seen.engine.cached(&blocks) as usize,
                false => self.sent.leading(seen.endpoint, &blocks),
            };
            let saved = Blocks { tokens }.saved(found, request);
            Known {
                sticky: found > 0 && found as f64 >= self.settings.matched * blocks.len() as f64,
                before: self.before.at(seen.endpoint),
                uncached: u64::from(request.prompt_tokens - saved),
            }
        };
        candidates.iter().map(one).collect()
    }

    /// Whether only sticky ones stay.
    fn sticks(&self, known: &[Known]) -> bool {
        let fewest = |sticky| {
            let all = known.iter().filter(|one| one.sticky == sticky);
            all.map(|one| one.before).min()
        };
        match (fewest(true), fewest(false)) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(sticky), Some(other)) => {
                let Settings {
                    penalty, throughput, ..
                } = self.settings;
                penalty <= 0.0 || sticky.saturating_sub(other) as f64 / throughput <= penalty
            }
        }
    }
}

impl Baseline for Sticky {
    fn choose(&mut self, _: Duration, (index, request): (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        let known = self.known(request, candidates);
        let sticks = self.sticks(&known);
        let mut each = known.iter();
        let best = least(candidates, |_| match each.next() {
            Some(one) if one.sticky || !sticks => (one.before + one.uncached).min(QUEUE_MAX) as f64,
            _ => f64::INFINITY,
        });
        let place = self.chance.one_of(&best);
        let endpoint = candidates[place].endpoint;
        let tokens = known[place].uncached;
        self.before.begin(index, endpoint, tokens);
        if !self.settings.events {
            let (blocks, tokens) = self.blocks.coarse(request, BLOCK);
            let memory = self.sent.at(endpoint);
            memory.note(&blocks, tokens);
            memory.shrink_to(BLOCKS_MAX * u64::from(BLOCK));
        }
        place
    }

    fn began(&mut self, _: Duration, index: usize, endpoint: usize) {
        self.before.end(index, endpoint);
    }

    fn ended(&mut self, now: Duration, index: usize, endpoint: usize) {
        self.began(now, index, endpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    fn sticky(settings: Settings) -> Sticky {
        Sticky::new(Blocks { tokens: 64 }, settings, 1)
    }

    #[test]
    fn it_sticks_until_it_is_too_far_behind() {
        let stage = Stage::new(2);
        let mut router = sticky(Settings {
            penalty: 1.0,
            throughput: 1000.0,
            ..Settings::SHIPPED
        });
        router.sent.at(0).note(&chain(1, 8), 64);
        // Eight of ten blocks are enough, 160 tokens are new.
        let request = Request {
            prompt_tokens: 672,
            ..prompt(&chain(1, 10), 0)
        };
        let mut choose = |before| {
            router.before = [(0, before), (1, 0)].into();
            // Nothing is learned from this: the request has no first token.
            let known = router.known(&request, &stage.seen(&[0, 0]));
            assert_eq!((known[0].uncached, known[1].uncached), (160, 672));
            router.sticks(&known)
        };
        assert!(choose(1000), "1 s behind is not more than 1 s");
        assert!(!choose(1001));
    }

    #[test]
    fn tokens_in_flight_decide_among_those_that_stay() {
        let mut stage = Stage::new(3);
        stage.holds(0, &chain(1, 10));
        stage.holds(1, &chain(1, 10));
        let mut router = Sticky::new(
            Blocks { tokens: 16 },
            Settings {
                events: true,
                ..Settings::SHIPPED
            },
            1,
        );
        router.before = [(0, 500), (1, 400), (2, 0)].into();
        let seen = stage.seen(&[9, 9, 0]);
        let mut choose = |index, request: &Request| router.choose(Duration::ZERO, (index, request), &seen);
        // All but the last token is cached with two of them: 401 against 501; the third is not sticky.
        assert_eq!(choose(0, &prompt(&chain(1, 10), 0)), 1);
        // 10 of 14 blocks are not .8: 565 and 465 against 224.
        let longer = prompt(&[chain(1, 10), chain(2, 4)].concat(), 0);
        assert_eq!(choose(1, &longer), 2);
        router.began(Duration::ZERO, 0, 1);
        router.ended(Duration::ZERO, 1, 2);
        router.ended(Duration::ZERO, 0, 1);
        assert_eq!(router.before, [(0, 500), (1, 400), (2, 0)].into());
    }
}
