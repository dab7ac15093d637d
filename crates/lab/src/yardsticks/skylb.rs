//! SkyLB inside one region (Xia et al., "A Locality-Aware Cross-Region Load Balancer for LLM Inference", 2025): selective
//! pushing.
//!
//! A request is pushed only to replicas with nothing pending, that is with nothing that waits for admission to their batch,
//! as last probed or sent by this router since and without a first token. Among those the prefix tree decides: the longest
//! match, and the fewest requests among equals. While all have something pending the balancer holds requests back in its own
//! queue; the simulator's yardsticks must choose at once, so the one with the fewest pending gets it. A few pending may be
//! allowed.

use super::choose::{Chance, least};
use super::prefixes::{Blocks, Memories};
use std::collections::BTreeMap;
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// Tokens of what one replica's part of the tree keeps.
const TREE_MAX: u64 = 1 << 24;

/// The balancer.
pub struct SkyLb {
    blocks: Blocks,
    /// Requests pending with which a replica is still pushed to.
    allowed: u64,
    tree: Memories,
    chance: Chance,
    /// When a request without a first token was sent, and where to.
    sent: BTreeMap<usize, (Duration, usize)>,
}

impl SkyLb {
    /// With an empty tree; replicas with up to `allowed` pending are pushed to, 0 as in the paper.
    pub fn new(blocks: Blocks, allowed: u64, seed: u64) -> Self {
        Self {
            blocks,
            allowed,
            tree: Memories::default(),
            chance: Chance::new(seed),
            sent: BTreeMap::new(),
        }
    }

    /// What is pending at each candidate. Forgets what their last probes have seen.
    fn pending(&mut self, candidates: &[Seen<'_>]) -> Vec<u64> {
        let mut places = Vec::new();
        for (place, seen) in candidates.iter().enumerate() {
            if places.len() <= seen.endpoint {
                places.resize(seen.endpoint + 1, None);
            }
            places[seen.endpoint] = Some(place);
        }
        let mut pending: Vec<u64> = candidates.iter().map(|seen| seen.waiting).collect();
        self.sent.retain(|_, (at, endpoint)| {
            let Some(place) = places.get(*endpoint).copied().flatten() else {
                return true;
            };
            let since = *at >= candidates[place].read_at;
            pending[place] += u64::from(since);
            since
        });
        pending
    }
}

impl Baseline for SkyLb {
    fn choose(
        &mut self,
        now: Duration,
        (index, request): (usize, &Request),
        candidates: &[Seen<'_>],
    ) -> usize {
        let pending = self.pending(candidates);
        let fewest = pending.iter().copied().min().unwrap_or(0);
        let most = fewest.max(self.allowed);
        let blocks = self.blocks.of(request);
        let mut each = pending.into_iter();
        let best = least(candidates, |seen| {
            if each.next().is_none_or(|pending| pending > most) {
                return f64::INFINITY;
            }
            // Requests in flight only tell equals apart.
            f64::from(seen.inflight) * 1e-6 - self.tree.leading(seen.endpoint, blocks) as f64
        });
        let place = self.chance.one_of(&best);
        let endpoint = candidates[place].endpoint;
        self.sent.insert(index, (now, endpoint));
        let tree = self.tree.at(endpoint);
        tree.note(blocks, self.blocks.tokens);
        tree.shrink_to(TREE_MAX);
        place
    }

    fn began(&mut self, _: Duration, index: usize, _: usize) {
        self.sent.remove(&index);
    }

    fn ended(&mut self, _: Duration, index: usize, _: usize) {
        self.sent.remove(&index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    #[test]
    fn nothing_is_pushed_behind_what_is_pending() {
        let stage = Stage::new(3);
        let mut balancer = SkyLb::new(Blocks { tokens: 16 }, 0, 1);
        balancer.tree.at(0).note(&chain(1, 5), 16);
        balancer.tree.at(1).note(&chain(1, 3), 16);
        let request = prompt(&chain(1, 6), 0);
        let mut seen = stage.seen(&[40, 4, 0]);
        let mut choose = |index, seen: &[Seen<'_>]| {
            let place = balancer.choose(Duration::from_secs(1), (index, &request), seen);
            balancer.began(Duration::from_secs(1), index, place);
            place
        };
        // Load does not matter as long as the batch takes it in.
        assert_eq!(choose(0, &seen), 0);
        seen[0].waiting = 1;
        assert_eq!(choose(1, &seen), 1);
        (seen[1].waiting, seen[2].waiting) = (3, 2);
        assert_eq!(choose(2, &seen), 0, "all have some: the fewest");
    }

    #[test]
    fn a_few_pending_may_be_allowed() {
        let stage = Stage::new(2);
        let mut balancer = SkyLb::new(Blocks { tokens: 16 }, 2, 1);
        balancer.tree.at(0).note(&chain(1, 5), 16);
        let request = prompt(&chain(1, 6), 0);
        let mut seen = stage.seen(&[9, 0]);
        let mut choose = |waiting| {
            seen[0].waiting = waiting;
            let place = balancer.choose(Duration::from_secs(1), (0, &request), &seen);
            balancer.began(Duration::from_secs(1), 0, place);
            place
        };
        assert_eq!((choose(2), choose(3)), (0, 1));
    }

    #[test]
    fn what_was_sent_since_the_probe_is_pending() {
        let stage = Stage::new(2);
        let mut balancer = SkyLb::new(Blocks { tokens: 16 }, 0, 1);
        let request = prompt(&chain(1, 6), 0);
        let mut seen = stage.seen(&[0, 0]);
        let first = balancer.choose(Duration::from_millis(10), (0, &request), &seen);
        let second = balancer.choose(Duration::from_millis(20), (1, &request), &seen);
        assert_ne!(first, second);
        // The next probe has seen it admitted.
        for seen in &mut seen {
            seen.read_at = Duration::from_millis(100);
        }
        assert_eq!(balancer.pending(&seen), [0, 0]);
    }
}
