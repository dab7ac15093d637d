//! SMG 1.13 (Shepherd Model Gateway, the successor of SGLang's router), cache-aware.
//!
//! All holders of the best match, if it is above the threshold of .3, form the group. A holder is refused when its load is
//! above 1.5 · mean and above mean + min(64, max(4, ⌈2 · √mean⌉)), loads being requests in flight. The least expected wait
//! among those left decides. Refused all, or no match: the least expected wait among all, and the prefix is recorded there
//! too, so a hot prefix spreads.
//!
//! The expected wait in seconds is (queued tokens + running · p̄ + unaccounted · p̄ + in-flight tokens) / throughput, and
//! .15 · k / (1 − k) more, with k the cache's usage, 2,000 tokens/s and p̄ = 1,024 by default. Unaccounted are the router's own
//! requests that the last report did not count. Engines here report how many wait, not how many tokens: those are taken
//! as p̄ each. Among equals the first.

use super::characters::Trees;
use super::choose::{least, mean_inflight};
use super::prefixes::Blocks;
use super::under_way::UnderWay;
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Share of the prompt above which holders of the best match form the group.
    pub matched: f64,
    /// Times the mean load above which a holder may be refused.
    pub refused: f64,
    /// Tokens a second that an engine is taken to do.
    pub throughput: f64,
    /// p̄, the tokens that a request is taken to have.
    pub request: f64,
}

impl Settings {
    /// Those that it ships.
    pub const SHIPPED: Self = Self {
        matched: 0.3,
        refused: 1.5,
        throughput: 2000.0,
        request: 1024.0,
    };

    fn refuses(&self, load: f64, mean: f64) -> bool {
        load > self.refused * mean && load > mean + (2.0 * mean.sqrt()).ceil().clamp(4.0, 64.0)
    }
}

/// The policy.
pub struct Smg {
    blocks: Blocks,
    settings: Settings,
    trees: Trees,
    /// Prompt tokens of requests without an end.
    tokens: UnderWay,
}

impl Smg {
    /// With empty trees.
    pub fn new(blocks: Blocks, settings: Settings) -> Self {
        Self {
            blocks,
            settings,
            trees: Trees::default(),
            tokens: UnderWay::default(),
        }
    }

    fn expected_wait(&self, seen: &Seen<'_>) -> f64 {
        let reported = seen.running + seen.waiting;
        let unaccounted = u64::from(seen.inflight).saturating_sub(reported);
        let inflight = self.tokens.at(seen.endpoint);
        let usage = seen.kv_usage.min(0.99);
        ((reported + unaccounted) as f64 * self.settings.request + inflight as f64) / self.settings.throughput
            + 0.15 * usage / (1.0 - usage)
    }

    fn place(&self, request: &Request, candidates: &[Seen<'_>]) -> usize {
        let blocks = self.blocks.of(request);
        let matched: Vec<usize> = candidates
            .iter()
            .map(|seen| self.trees.leading(seen.endpoint, blocks))
            .collect();
        let best = matched.iter().copied().max().unwrap_or(0);
        let share = best as f64 * f64::from(self.blocks.tokens) / f64::from(request.prompt_tokens);
        let mean = mean_inflight(candidates);
        let settings = self.settings;
        let in_group = |(seen, matched): (&Seen<'_>, &usize)| {
            share > settings.matched && *matched == best && !settings.refuses(f64::from(seen.inflight), mean)
        };
        let group: Vec<bool> = candidates.iter().zip(&matched).map(in_group).collect();
        let anyone = !group.contains(&true);
        let mut in_group = group.into_iter();
        least(candidates, |seen| {
            if in_group.next() == Some(true) || anyone {
                self.expected_wait(seen)
            } else {
                f64::INFINITY
            }
        })[0]
    }
}

impl Baseline for Smg {
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
        let tokens = u64::from(request.prompt_tokens);
        self.tokens.begin(index, endpoint, tokens);
        place
    }

    fn ended(&mut self, _: Duration, index: usize, endpoint: usize) {
        self.tokens.end(index, endpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    #[test]
    fn holders_are_refused_above_both_bounds() {
        let refused = |load, mean| Settings::SHIPPED.refuses(load, mean);
        // Mean 4: above 6 and above 4 + max(4, ⌈2 · 2⌉) = 8.
        assert!(!refused(8.0, 4.0) && refused(9.0, 4.0));
        // Mean 32: above 48 and above 32 + ⌈11.3⌉ = 44.
        assert!(!refused(48.0, 32.0) && refused(49.0, 32.0));
        // Mean 2,500: above 3,750, which is more than 2,500 + 64.
        assert!(!refused(3750.0, 2500.0) && refused(3751.0, 2500.0));
        // Mean 0: one to four are no load.
        assert!(!refused(4.0, 0.0) && refused(5.0, 0.0));
    }

    #[test]
    fn the_expected_wait_counts_what_the_report_missed() {
        let stage = Stage::new(1);
        let mut router = Smg::new(Blocks { tokens: 16 }, Settings::SHIPPED);
        router.tokens.begin(0, 0, 500);
        let seen = Seen {
            inflight: 5,
            running: 2,
            waiting: 1,
            kv_usage: 0.5,
            ..stage.seen(&[0])[0]
        };
        // Three reported and two more of 1,024 tokens, 500 in flight, at 2,000 a second; and .15 · .5 / .5.
        assert!((router.expected_wait(&seen) - (5.0 * 1024.0 + 500.0) / 2000.0 - 0.15).abs() < 1e-12);
        // Others' requests are in the report too.
        let seen = Seen {
            inflight: 1,
            running: 7,
            waiting: 0,
            kv_usage: 0.0,
            ..seen
        };
        assert!((router.expected_wait(&seen) - (7.0 * 1024.0 + 500.0) / 2000.0).abs() < 1e-12);
    }

    #[test]
    fn a_hot_prefix_spreads_to_whoever_waits_least() {
        let stage = Stage::new(3);
        let mut router = Smg::new(Blocks { tokens: 16 }, Settings::SHIPPED);
        let request = prompt(&chain(1, 10), 0);
        let mut choose =
            |index, inflight: &[u32]| router.choose(Duration::ZERO, (index, &request), &stage.seen(inflight));
        assert_eq!(choose(0, &[0, 0, 0]), 0);
        // Mean 2: six are above 3, but not above 2 + 4.
        assert_eq!(choose(1, &[6, 0, 0]), 0);
        // Seven of a mean of 7/3 are.
        assert_eq!(choose(2, &[7, 0, 0]), 1);
        // Both hold it now; the third, which is emptiest, does not.
        assert_eq!(choose(3, &[5, 4, 0]), 1);
    }
}
