//! Preble's global scheduler (Srivatsa et al., "Efficient Distributed Prompt Scheduling", ICLR 2025): exploitation and
//! exploration.
//!
//! If the longest match has at least as many tokens as it misses, the instance with that match gets the request: exploit.
//! Else the one with the least sum of three costs, all in seconds of GPU time: the load of the last three minutes (prefill
//! of what was missed then, and decoding as long as answers are on average); what would have to be evicted, times the share
//! of recent requests that hit it; and the prefill of what is missed. Among several holders of the longest match the one
//! with the least load. Moving hot prefixes off the fullest instance and duplicating them are left out.

use super::choose::least;
use super::prefixes::{Blocks, Memories};
use std::collections::VecDeque;
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// Tokens of an answer on average, as far as the scheduler knows.
const ANSWER: f64 = 300.0;

/// What the scheduler knows of an instance beforehand.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    /// Prompt tokens it prefills in a second.
    pub prefill: f64,
    /// GPU time of one generated token, as a share of an iteration.
    pub token_s: f64,
    /// Tokens that its cache holds.
    pub cache: u64,
    /// How long what was sent counts as load.
    pub window: Duration,
}

impl Speed {
    /// What a fleet's builder would measure, in round numbers.
    pub const ROUGH: Self = Self {
        prefill: 15_000.0,
        token_s: 0.001,
        cache: 400_000,
        window: Duration::from_secs(180),
    };
}

/// One request of the window.
struct Sent {
    at: Duration,
    seconds: f64,
    /// Share of its prompt that it found.
    hit: f64,
}

/// The scheduler.
pub struct Preble {
    blocks: Blocks,
    speed: Speed,
    trees: Memories,
    sent: Vec<Window>,
}

/// What was sent to an instance of late.
#[derive(Default)]
struct Window {
    sent: VecDeque<Sent>,
    /// Sums over it, anew after each change, so that nothing is left of what is gone.
    seconds: f64,
    hits: f64,
}

impl Window {
    fn push(&mut self, sent: Sent) {
        self.sent.push_back(sent);
        self.sum();
    }

    /// Forgets what was sent before `time`.
    fn forget_before(&mut self, time: Duration) {
        let before = self.sent.len();
        while self.sent.front().is_some_and(|first| first.at < time) {
            self.sent.pop_front();
        }
        if self.sent.len() < before {
            self.sum();
        }
    }

    fn sum(&mut self) {
        self.seconds = self.sent.iter().map(|sent| sent.seconds).sum();
        self.hits = self.sent.iter().map(|sent| sent.hit).sum();
    }
}

impl Preble {
    /// With empty trees.
    pub fn new(blocks: Blocks, speed: Speed) -> Self {
        Self {
            blocks,
            speed,
            trees: Memories::default(),
            sent: Vec::new(),
        }
    }

    fn matched(&self, request: &Request, endpoint: usize) -> u64 {
        let found = self.trees.leading(endpoint, self.blocks.of(request));
        u64::from(self.blocks.saved(found, request))
    }

    /// Seconds of work sent there in the window.
    fn load(&self, endpoint: usize) -> f64 {
        self.sent.get(endpoint).map_or(0.0, |window| window.seconds)
    }

    /// Seconds to compute again what goes to make room, as often as recent requests would have found it.
    fn eviction(&self, endpoint: usize, missed: u64, size: u64) -> f64 {
        let over = (size + missed).saturating_sub(self.speed.cache).min(missed);
        match self.sent.get(endpoint) {
            Some(window) if over > 0 && !window.sent.is_empty() => {
                over as f64 / self.speed.prefill * window.hits / window.sent.len() as f64
            }
            _ => 0.0,
        }
    }

    fn place(&self, request: &Request, candidates: &[Seen<'_>]) -> usize {
        let tokens = u64::from(request.prompt_tokens);
        let matched: Vec<u64> = candidates
            .iter()
            .map(|seen| self.matched(request, seen.endpoint))
            .collect();
        let best = matched.iter().copied().max().unwrap_or(0);
        let mut each = matched.into_iter();
        if best >= tokens - best {
            return least(candidates, |seen| {
                if each.next() == Some(best) {
                    self.load(seen.endpoint)
                } else {
                    f64::INFINITY
                }
            })[0];
        }
        least(candidates, |seen| {
            let missed = tokens - each.next().unwrap_or(0);
            let size = self.trees.size(seen.endpoint);
            self.load(seen.endpoint)
                + self.eviction(seen.endpoint, missed, size)
                + missed as f64 / self.speed.prefill
        })[0]
    }
}

impl Baseline for Preble {
    fn choose(&mut self, now: Duration, (_, request): (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        let since = now.saturating_sub(self.speed.window);
        self.sent
            .iter_mut()
            .for_each(|window| window.forget_before(since));
        let place = self.place(request, candidates);
        let endpoint = candidates[place].endpoint;
        let matched = self.matched(request, endpoint);
        let missed = u64::from(request.prompt_tokens) - matched;
        if self.sent.len() <= endpoint {
            self.sent.resize_with(endpoint + 1, Window::default);
        }
        self.sent[endpoint].push(Sent {
            at: now,
            seconds: missed as f64 / self.speed.prefill + ANSWER * self.speed.token_s,
            hit: matched as f64 / f64::from(request.prompt_tokens),
        });
        let tree = self.trees.at(endpoint);
        tree.note(self.blocks.of(request), self.blocks.tokens);
        tree.shrink_to(self.speed.cache);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    #[test]
    fn exploits_a_match_of_half_and_explores_below() {
        let stage = Stage::new(2);
        let speed = Speed {
            prefill: 1000.0,
            token_s: 0.001,
            cache: 10_000,
            window: Duration::from_secs(180),
        };
        let mut router = Preble::new(Blocks { tokens: 16 }, speed);
        let mut at = |seconds, request: &Request| {
            router.choose(Duration::from_secs(seconds), (0, request), &stage.seen(&[0, 0]))
        };
        // 160 missed tokens and an answer: .16 + .3 s of load on the first.
        assert_eq!(at(0, &prompt(&chain(1, 10), 0)), 0);
        // Half of it is there: exploit, whatever the load.
        let half = [chain(1, 5), chain(2, 5)].concat();
        assert_eq!(at(1, &prompt(&half, 0)), 0);
        // 4 of 9 blocks are not half: .46 + .38 of load and .08 to prefill there, .144 on the other.
        let less = [chain(1, 4), chain(3, 5)].concat();
        assert_eq!(at(2, &prompt(&less, 0)), 1);
        // After three minutes the first is empty of load and has the better match.
        let other = [chain(1, 4), chain(4, 5)].concat();
        assert_eq!(at(184, &prompt(&other, 0)), 0);
    }

    #[test]
    fn what_would_be_evicted_costs_as_much_as_it_was_hit() {
        let stage = Stage::new(1);
        let speed = Speed {
            prefill: 1000.0,
            token_s: 0.0,
            cache: 400,
            window: Duration::from_secs(180),
        };
        let mut router = Preble::new(Blocks { tokens: 16 }, speed);
        let mut send = |blocks: &[u64]| {
            router.choose(Duration::ZERO, (0, &prompt(blocks, 0)), &stage.seen(&[0]));
        };
        send(&chain(1, 20));
        send(&chain(1, 20));
        // Of two requests one found 319 of 320 tokens. 200 more tokens into 400 that hold 320: 120 go.
        let expected = 0.120 * (319.0 / 320.0) / 2.0;
        assert!((router.eviction(0, 200, 320) - expected).abs() < 1e-12);
        assert_eq!(router.eviction(0, 80, 320), 0.0);
    }
}
