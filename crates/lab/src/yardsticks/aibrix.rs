//! AIBrix's `prefix-cache` router.
//!
//! As it ships, if the numbers of running requests are more than 8 apart: the fewest. Else pods with a match, the longest first, the
//! fewest requests first among equals; of these the first that has no more than mean + 1 · σ requests. Nobody: the fewest
//! requests. The table of hashed blocks of 16 tokens learns where each prompt went. Its chart for Kubernetes sets 16 and
//! 2 · σ; releases before wanted a match of half the prompt.

use super::choose::{Chance, least_inflight, mean_inflight, spread};
use super::prefixes::{Blocks, Memories};
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// The table's blocks, for all pods together some hundred thousand: never short in the workloads of these tests.
const BLOCK: u32 = 16;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Requests between the fullest and the emptiest above which the fewest decide.
    pub apart: u32,
    /// σ above the mean that a holder may have.
    pub deviations: f64,
    /// Share of the prompt's blocks that a match must reach.
    pub matched: f64,
}

impl Settings {
    /// Those that its code ships.
    pub const SHIPPED: Self = Self {
        apart: 8,
        deviations: 1.0,
        matched: 0.0,
    };
}

/// The router.
pub struct PrefixCache {
    blocks: Blocks,
    settings: Settings,
    table: Memories,
    chance: Chance,
}

impl PrefixCache {
    /// With an empty table.
    pub fn new(blocks: Blocks, settings: Settings, seed: u64) -> Self {
        Self {
            blocks,
            settings,
            table: Memories::default(),
            chance: Chance::new(seed),
        }
    }

    fn place(&mut self, request: &Request, candidates: &[Seen<'_>]) -> usize {
        let (min, max) = spread(candidates);
        if max - min <= self.settings.apart {
            let (blocks, _) = self.blocks.coarse(request, BLOCK);
            let enough = self.settings.matched * blocks.len() as f64;
            let mean = mean_inflight(candidates);
            let square = |seen: &Seen<'_>| (f64::from(seen.inflight) - mean).powi(2);
            let deviation = (candidates.iter().map(square).sum::<f64>() / candidates.len() as f64).sqrt();
            let mut matches: Vec<(usize, u32, usize)> = candidates
                .iter()
                .enumerate()
                .map(|(place, seen)| (self.table.leading(seen.endpoint, &blocks), seen.inflight, place))
                .filter(|(matched, ..)| *matched > 0 && *matched as f64 >= enough)
                .collect();
            matches.sort_by_key(|(matched, inflight, place)| (usize::MAX - matched, *inflight, *place));
            let most = mean + self.settings.deviations * deviation;
            if let Some((.., place)) = matches
                .iter()
                .find(|(_, inflight, _)| f64::from(*inflight) <= most)
            {
                return *place;
            }
        }
        self.chance.one_of(&least_inflight(candidates))
    }
}

impl Baseline for PrefixCache {
    fn choose(&mut self, _: Duration, (_, request): (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        let place = self.place(request, candidates);
        let (blocks, tokens) = self.blocks.coarse(request, BLOCK);
        self.table.at(candidates[place].endpoint).note(&blocks, tokens);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    #[test]
    fn the_longest_match_within_a_deviation() {
        let stage = Stage::new(4);
        let mut router = PrefixCache::new(Blocks { tokens: 16 }, Settings::SHIPPED, 1);
        router.table.at(0).note(&chain(1, 6), 16);
        router.table.at(1).note(&chain(1, 4), 16);
        router.table.at(2).note(&chain(1, 4), 16);
        let request = prompt(&chain(1, 8), 0);
        let mut place = |inflight: &[u32]| router.place(&request, &stage.seen(inflight));
        assert_eq!(place(&[2, 2, 2, 2]), 0);
        // Mean 2, σ = √((36 + 4 + 4 + 4) / 4) = 3.46: 8 are too many; the second and third match alike.
        assert_eq!(place(&[8, 0, 0, 0]), 1);
        assert_eq!(place(&[8, 1, 0, 0]), 2);
        // Mean 3.25, σ 2.86: 6.11 are allowed.
        assert_eq!(place(&[6, 6, 1, 0]), 0);
        // 9 apart: the emptiest, whatever it holds.
        assert_eq!(place(&[9, 4, 4, 0]), 3);
        assert_eq!(place(&[0, 9, 9, 9]), 0);
    }

    #[test]
    fn a_match_must_reach_its_share() {
        let stage = Stage::new(2);
        let settings = Settings {
            matched: 0.5,
            ..Settings::SHIPPED
        };
        let mut router = PrefixCache::new(Blocks { tokens: 16 }, settings, 1);
        router.table.at(0).note(&chain(1, 4), 16);
        assert_eq!(router.place(&prompt(&chain(1, 8), 0), &stage.seen(&[3, 2])), 0);
        assert_eq!(router.place(&prompt(&chain(1, 9), 0), &stage.seen(&[3, 2])), 1);
    }

    #[test]
    fn without_a_match_the_fewest_requests() {
        let stage = Stage::new(3);
        let mut router = PrefixCache::new(Blocks { tokens: 16 }, Settings::SHIPPED, 1);
        let request = prompt(&chain(1, 8), 0);
        assert_eq!(
            router.choose(Duration::ZERO, (0, &request), &stage.seen(&[3, 1, 2])),
            1
        );
        assert_eq!(
            router.choose(Duration::ZERO, (1, &request), &stage.seen(&[3, 3, 2])),
            1
        );
    }
}
