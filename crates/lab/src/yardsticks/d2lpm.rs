//! D²LPM (Cao et al., "Locality-aware Fair Scheduling in LLM Serving", 2025): longest prefix match under a deficit, for the
//! choice of an engine.
//!
//! Each client has a deficit at each engine; the longest match among the engines where it is above 0. What is computed is
//! taken off, 1 for a prompt token that is not cached and 2 for a generated one. When there is no such engine, all get a
//! quantum more. It spreads each client's work over the engines, within quanta, and keeps it where its prefixes are otherwise.

use super::choose::{Chance, least};
use super::prefixes::{Blocks, Memories};
use std::collections::BTreeMap;
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// What a generated token counts, in prompt tokens.
const OUTPUT: f64 = 2.0;

/// Service units that a client gets at an engine in one go: a prompt and answer of usual length, some ten times.
pub const QUANTUM: f64 = 50_000.0;

/// The router.
pub struct D2lpm {
    blocks: Blocks,
    quantum: f64,
    tree: Memories,
    chance: Chance,
    /// By client and endpoint.
    deficits: BTreeMap<(u16, usize), f64>,
    /// Client, and what its answer will have cost.
    of: BTreeMap<usize, (u16, f64)>,
}

impl D2lpm {
    /// With this quantum, in service units.
    pub fn new(blocks: Blocks, quantum: f64, seed: u64) -> Self {
        Self {
            blocks,
            quantum,
            tree: Memories::default(),
            chance: Chance::new(seed),
            deficits: BTreeMap::new(),
            of: BTreeMap::new(),
        }
    }
}

impl Baseline for D2lpm {
    fn choose(&mut self, _: Duration, (index, request): (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        let key = |seen: &Seen<'_>| (request.tenant, seen.endpoint);
        let left =
            |deficits: &BTreeMap<_, f64>, seen: &Seen<'_>| deficits.get(&key(seen)).copied().unwrap_or(0.0);
        while candidates.iter().all(|seen| left(&self.deficits, seen) <= 0.0) {
            for seen in candidates {
                *self.deficits.entry(key(seen)).or_default() += self.quantum;
            }
        }
        let blocks = self.blocks.of(request);
        let best = least(candidates, |seen| {
            if left(&self.deficits, seen) <= 0.0 {
                return f64::INFINITY;
            }
            // Among equals the one with the fewest requests.
            f64::from(seen.inflight) * 1e-6 - self.tree.leading(seen.endpoint, blocks) as f64
        });
        let place = self.chance.one_of(&best);
        let endpoint = candidates[place].endpoint;
        let found = self.tree.leading(endpoint, blocks);
        let computed = request.prompt_tokens - self.blocks.saved(found, request);
        *self.deficits.entry((request.tenant, endpoint)).or_default() -= f64::from(computed);
        let answer = OUTPUT * f64::from(request.output_tokens);
        self.of.insert(index, (request.tenant, answer));
        self.tree.at(endpoint).note(blocks, self.blocks.tokens);
        place
    }

    fn ended(&mut self, _: Duration, index: usize, endpoint: usize) {
        if let Some((tenant, answer)) = self.of.remove(&index) {
            *self.deficits.entry((tenant, endpoint)).or_default() -= answer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    #[test]
    fn an_engine_without_deficit_is_passed_over() {
        let stage = Stage::new(2);
        let mut router = D2lpm::new(Blocks { tokens: 16 }, 200.0, 1);
        router.tree.at(0).note(&chain(1, 5), 16);
        let long = prompt(&chain(1, 20), 0);
        let mut choose = |index, request: &Request| {
            router.choose(Duration::ZERO, (index, request), &stage.seen(&[0, index as u32]))
        };
        // 320 − 80 tokens leave −40 of 200 on the first: the second is next, though it knows nothing.
        assert_eq!(choose(0, &long), 0);
        assert_eq!(choose(1, &long), 1);
        // −120 there: all get 200 more. Both hold it up to the last token; the first has fewer requests.
        assert_eq!(choose(2, &long), 0);
        assert_eq!(router.deficits[&(0, 0)], 159.0);
        router.ended(Duration::ZERO, 2, 0);
        assert_eq!(router.deficits[&(0, 0)], 139.0);
        // Another tenant has its own.
        let other = Request { tenant: 1, ..long };
        assert_eq!(
            router.choose(Duration::ZERO, (3, &other), &stage.seen(&[0, 9])),
            0
        );
        assert_eq!(router.deficits[&(1, 0)], 199.0);
    }
}
