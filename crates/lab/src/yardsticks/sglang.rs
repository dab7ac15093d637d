//! The classic cache-aware policy: SGLang's router up to 0.3, and vLLM's router, which took it over.
//!
//! Out of balance, that is when (max − min in flight) > 64 and max > 1.5 · min: the one with the fewest in flight. Else the
//! holder of the longest match in an approximate tree over characters, if it is more than .3 of the text; else the worker
//! with the smallest tree. The text is recorded with whoever gets it. Trees are cut to 67,108,864 characters each, every
//! 120 s, the least recently used leaves first. Of several holders the tree names one and the same; here the first.
//!
//! Releases before shipped .5, 32 and 1.0001 for the three.

use super::characters::Trees;
use super::choose::{least, least_inflight, spread};
use super::prefixes::Blocks;
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Share of the text above which a match decides: `cache_threshold`.
    pub matched: f64,
    /// Requests between the fullest and the emptiest above which load may decide: `balance_abs_threshold`.
    pub apart: u32,
    /// And times the emptiest's that the fullest must have: `balance_rel_threshold`.
    pub times: f64,
}

impl Settings {
    /// Those that it ships.
    pub const SHIPPED: Self = Self {
        matched: 0.3,
        apart: 64,
        times: 1.5,
    };
}

/// The policy.
pub struct CacheAware {
    blocks: Blocks,
    settings: Settings,
    trees: Trees,
}

impl CacheAware {
    /// With empty trees.
    pub fn new(blocks: Blocks, settings: Settings) -> Self {
        Self {
            blocks,
            settings,
            trees: Trees::default(),
        }
    }

    fn place(&self, request: &Request, candidates: &[Seen<'_>]) -> usize {
        let (min, max) = spread(candidates);
        let Settings {
            matched,
            apart,
            times,
        } = self.settings;
        if max - min > apart && f64::from(max) > times * f64::from(min) {
            return least_inflight(candidates)[0];
        }
        let blocks = self.blocks.of(request);
        let found = |seen: &Seen<'_>| self.trees.leading(seen.endpoint, blocks);
        let best = least(candidates, |seen| -(found(seen) as f64))[0];
        let share = found(&candidates[best]) as f64 * f64::from(self.blocks.tokens)
            / f64::from(request.prompt_tokens);
        if share > matched {
            return best;
        }
        least(candidates, |seen| self.trees.size(seen.endpoint) as f64)[0]
    }
}

impl Baseline for CacheAware {
    fn choose(
        &mut self,
        now: Duration,
        (index, request): (usize, &Request),
        candidates: &[Seen<'_>],
    ) -> usize {
        self.trees.evict(now);
        let place = self.place(request, candidates);
        let endpoint = candidates[place].endpoint;
        self.trees.record(endpoint, (index, request), self.blocks);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::characters::TREE_MAX;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    fn router() -> CacheAware {
        CacheAware::new(Blocks { tokens: 16 }, Settings::SHIPPED)
    }

    #[test]
    fn a_match_above_the_threshold_decides_else_the_smallest_tree() {
        let stage = Stage::new(3);
        let mut router = router();
        let mut choose = |index, request: &Request, inflight: &[u32]| {
            router.choose(Duration::ZERO, (index, request), &stage.seen(inflight))
        };
        // All trees are empty: the first. 10 blocks of 16 tokens are 640 characters, the tail 40.
        assert_eq!(choose(0, &prompt(&chain(1, 10), 10), &[0, 0, 0]), 0);
        assert_eq!(choose(1, &prompt(&chain(2, 5), 0), &[9, 9, 0]), 1);
        // 4 of 10 blocks match on the first: .4.
        let four = [chain(1, 4), chain(3, 6)].concat();
        assert_eq!(choose(2, &prompt(&four, 0), &[60, 0, 0]), 0);
        // 3 of 10 are not more than .3: the smallest tree is the third's, though it has most in flight.
        let three = [chain(1, 3), chain(4, 7)].concat();
        assert_eq!(choose(3, &prompt(&three, 0), &[0, 0, 60]), 2);
        // Now the trees have 680 + 6 · 64 = 1064, 320 and 640 characters.
        assert_eq!(choose(4, &prompt(&chain(5, 1), 0), &[0, 0, 0]), 1);
    }

    #[test]
    fn out_of_balance_the_emptiest_gets_it_and_its_tree_learns() {
        let stage = Stage::new(2);
        let mut router = router();
        let request = prompt(&chain(1, 10), 0);
        let mut choose =
            |inflight: &[u32]| router.choose(Duration::ZERO, (0, &request), &stage.seen(inflight));
        assert_eq!(choose(&[0, 0]), 0);
        assert_eq!(choose(&[64, 0]), 0, "64 apart is not more than 64");
        assert_eq!(choose(&[65, 0]), 1);
        assert_eq!(choose(&[195, 130]), 0, "195 is not above 1.5 · 130");
        assert_eq!(choose(&[196, 130]), 1);
    }

    #[test]
    fn trees_are_cut_every_two_minutes() {
        let stage = Stage::new(2);
        let mut router = CacheAware::new(Blocks { tokens: 16_000 }, Settings::SHIPPED);
        // One prompt of 20 M tokens has more characters than a tree may keep.
        let long = Request {
            prompt_tokens: 20_000_000,
            ..prompt(&chain(1, 1250), 0)
        };
        let at = |router: &mut CacheAware, seconds, request: &Request| {
            router.choose(Duration::from_secs(seconds), (0, request), &stage.seen(&[0, 0]))
        };
        assert_eq!(at(&mut router, 0, &long), 0);
        assert_eq!(router.trees.size(0), 80_000_000);
        at(&mut router, 119, &prompt(&[], 16));
        assert_eq!(router.trees.size(0), 80_000_000);
        at(&mut router, 120, &prompt(&[], 16));
        assert!(router.trees.size(0) <= TREE_MAX);
    }
}
