//! DLPM (Cao et al., "Locality-aware Fair Scheduling in LLM Serving", 2025): longest prefix match under a deficit.
//!
//! It orders one engine's queue. Each client has a deficit; requests are taken by longest prefix match from clients whose
//! deficit is above 0. What is computed is taken off, 1 for a prompt token that is not cached and 2 for a generated one. When
//! no client that waits has any left, each gets a quantum more. So clients that always have requests waiting differ by at
//! most 2 · (max(longest prompt, 2 · tokens of a batch) + quantum) in service, and within that order serves the cache.

use crate::queue::{OUTPUT, Order, Waiting, longest};
use std::collections::{BTreeMap, VecDeque};

/// The order of a queue.
pub(crate) struct Dlpm {
    quantum: f64,
    deficits: BTreeMap<usize, f64>,
}

impl Dlpm {
    pub(crate) fn new(quantum: f64) -> Self {
        Self {
            quantum,
            deficits: BTreeMap::new(),
        }
    }
}

impl Order for Dlpm {
    fn next(&mut self, queue: &VecDeque<Waiting>, cached: &[u32]) -> usize {
        loop {
            let allowed = |place: usize| {
                self.deficits
                    .get(&queue[place].client)
                    .is_some_and(|left| *left > 0.0)
            };
            if let Some(place) = longest(cached, allowed) {
                return place;
            }
            let mut waits: Vec<usize> = queue.iter().map(|request| request.client).collect();
            waits.sort_unstable();
            waits.dedup();
            for client in waits {
                *self.deficits.entry(client).or_default() += self.quantum;
            }
        }
    }

    fn admitted(&mut self, request: &Waiting, computed: u32, _: &VecDeque<Waiting>) {
        *self.deficits.entry(request.client).or_default() -= f64::from(computed);
    }

    fn generated(&mut self, client: usize) {
        *self.deficits.entry(client).or_default() -= OUTPUT;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{LongestPrefix, Server};
    use crate::vtc::Vtc;

    const ROOM: u32 = 2000;
    const QUANTUM: f64 = 2000.0;

    fn request(client: usize, family: u64) -> Waiting {
        Waiting {
            client,
            prompt: 330,
            output: 20,
            blocks: (0..20).map(|block| family * 1000 + block).collect(),
        }
    }

    #[test]
    fn the_longest_match_of_those_with_a_deficit() {
        let mut dlpm = Dlpm::new(100.0);
        let queue: VecDeque<Waiting> = [request(0, 1), request(1, 2), request(1, 3)].into();
        assert_eq!(dlpm.next(&queue, &[0, 160, 320]), 2);
        dlpm.admitted(&queue[2], 100, &queue);
        assert_eq!(
            dlpm.next(&queue, &[0, 160, 320]),
            0,
            "the second client has used its quantum"
        );
        for _ in 0..50 {
            dlpm.generated(0);
        }
        assert_eq!(dlpm.deficits, [(0, 0.0), (1, 0.0)].into());
        assert_eq!(dlpm.next(&queue, &[0, 160, 320]), 2);
        assert_eq!(dlpm.deficits, [(0, 100.0), (1, 100.0)].into());
    }

    /// Two clients with requests waiting always: the first asks for one text over and over, the second for eight by turns,
    /// of which the cache holds three. Gives the most they differ by in service, and the share of prompts cached.
    fn contest(order: &mut dyn Order) -> (f64, f64) {
        let mut server = Server::new(2, ROOM, 1000);
        let (mut most, mut turn) = (0.0_f64, 0);
        for _ in 0..3000 {
            while server.queue.iter().filter(|r| r.client == 0).count() < 30 {
                server.arrive(request(0, 100), order);
            }
            while server.queue.iter().filter(|r| r.client == 1).count() < 30 {
                turn += 1;
                server.arrive(request(1, turn % 8), order);
            }
            server.iterate(order);
            most = most.max((server.service[0] - server.service[1]).abs());
        }
        (most, server.cached_tokens as f64 / server.prompt_tokens as f64)
    }

    #[test]
    fn fair_within_its_bound_and_kinder_to_the_cache_than_counters() {
        let bound = 2.0 * (OUTPUT * f64::from(ROOM) + QUANTUM);
        let (differ, hits) = contest(&mut Dlpm::new(QUANTUM));
        assert!(differ <= bound, "{differ} of {bound}");
        let (unfair, all) = contest(&mut LongestPrefix);
        assert!(
            unfair > 2.0 * bound,
            "the longest match alone differs by {unfair}"
        );
        let (_, counted) = contest(&mut Vtc::default());
        assert!(
            counted < hits && hits <= all,
            "cached: {counted} counters, {hits} deficit, {all} longest match"
        );
    }
}
