//! LMetric (Zhang et al., "Simple is Better", arXiv 2603.15202): the lowest product of the tokens that would have to be
//! prefilled there and the size of the batch, nothing to tune.
//!
//! Tokens to prefill are those of the request that the instance has not cached, known by events, and those of requests
//! before it that have no first token. The batch counts the request itself, so that it is never 0.
//!
//! Engines without events: what this router sent there before stands for what is cached, the least recently sent forgotten
//! first.

use super::choose::{Chance, least};
use super::prefixes::{Blocks, Memories};
use super::under_way::UnderWay;
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// Where it knows from what an instance has cached.
#[derive(Clone, Debug)]
pub enum Index {
    /// From its events.
    Events,
    /// From what was sent there, so many tokens at most.
    Sent(Memories, u64),
}

/// The router.
pub struct LMetric {
    blocks: Blocks,
    index: Index,
    chance: Chance,
    /// Tokens to prefill of requests without a first token.
    prefill: UnderWay,
}

impl LMetric {
    /// With nothing under way.
    pub fn new(blocks: Blocks, index: Index, seed: u64) -> Self {
        Self {
            blocks,
            index,
            chance: Chance::new(seed),
            prefill: UnderWay::default(),
        }
    }

    fn new_tokens(&self, request: &Request, seen: &Seen<'_>) -> u64 {
        let blocks = self.blocks.of(request);
        let found = match &self.index {
            Index::Events => seen.engine.cached(blocks) as usize,
            Index::Sent(memories, _) => memories.leading(seen.endpoint, blocks),
        };
        u64::from(request.prompt_tokens - self.blocks.saved(found, request))
    }

    fn score(&self, request: &Request, seen: &Seen<'_>) -> f64 {
        let before = self.prefill.at(seen.endpoint);
        (before + self.new_tokens(request, seen)) as f64 * (f64::from(seen.inflight) + 1.0)
    }
}

impl Baseline for LMetric {
    fn choose(&mut self, _: Duration, (index, request): (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        let best = least(candidates, |seen| self.score(request, seen));
        let place = self.chance.one_of(&best);
        let tokens = self.new_tokens(request, &candidates[place]);
        self.prefill.begin(index, candidates[place].endpoint, tokens);
        if let Index::Sent(memories, most) = &mut self.index {
            let memory = memories.at(candidates[place].endpoint);
            memory.note(self.blocks.of(request), self.blocks.tokens);
            memory.shrink_to(*most);
        }
        place
    }

    fn began(&mut self, _: Duration, index: usize, endpoint: usize) {
        self.prefill.end(index, endpoint);
    }

    fn ended(&mut self, now: Duration, index: usize, endpoint: usize) {
        self.began(now, index, endpoint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    #[test]
    fn tokens_times_batch() {
        let mut stage = Stage::new(2);
        stage.holds(0, &chain(1, 9));
        let mut router = LMetric::new(Blocks { tokens: 16 }, Index::Events, 1);
        // 160 tokens, of which the first has 144: 16 · (n + 1) against 160 · (m + 1).
        let request = prompt(&chain(1, 10), 0);
        let mut choose = |inflight: &[u32]| {
            let place = router.choose(Duration::ZERO, (0, &request), &stage.seen(inflight));
            router.began(Duration::ZERO, 0, place);
            place
        };
        assert_eq!(choose(&[8, 0]), 0, "144 < 160");
        assert_eq!(choose(&[10, 0]), 1, "176 > 160");
        assert_eq!(choose(&[28, 2]), 0, "464 < 480");
        assert_eq!(choose(&[30, 2]), 1, "496 > 480");
    }

    #[test]
    fn without_events_what_was_sent_counts() {
        let mut stage = Stage::new(2);
        stage.holds(1, &chain(1, 9));
        let index = Index::Sent(Memories::default(), 160);
        let mut router = LMetric::new(Blocks { tokens: 16 }, index, 1);
        let (one, other) = (prompt(&chain(1, 10), 0), prompt(&chain(2, 5), 0));
        let mut choose = |request: &Request, inflight: &[u32]| {
            let place = router.choose(Duration::ZERO, (0, request), &stage.seen(inflight));
            router.began(Duration::ZERO, 0, place);
            place
        };
        assert_eq!(choose(&one, &[0, 1]), 0, "nothing is known of either");
        assert_eq!(choose(&one, &[5, 0]), 0, "1 token · 6 < 160");
        // The memory holds ten blocks: five of the other prompt take the place of five of the first.
        assert_eq!(choose(&other, &[0, 1]), 0);
        assert_eq!(choose(&one, &[2, 0]), 1, "80 · 3 > 160");
    }

    #[test]
    fn prompts_before_it_count_until_their_first_token() {
        let stage = Stage::new(2);
        let mut router = LMetric::new(Blocks { tokens: 16 }, Index::Events, 1);
        let (long, short) = (prompt(&chain(1, 20), 0), prompt(&chain(2, 2), 0));
        let first = router.choose(Duration::ZERO, (0, &long), &stage.seen(&[0, 0]));
        let seen = stage.seen(&[1, 1]);
        assert_eq!(router.score(&short, &seen[first]), (320.0 + 32.0) * 2.0);
        router.began(Duration::ZERO, 0, first);
        assert_eq!(router.score(&short, &seen[first]), 64.0);
        router.ended(Duration::ZERO, 0, first);
        assert_eq!(router.score(&short, &seen[first]), 64.0);
    }
}
