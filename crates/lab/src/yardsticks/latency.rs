//! By latency: the better of two random ones (agentgateway), and peak EWMA (Finagle, linkerd).
//!
//! agentgateway scores health / (1 + latency · (1 + .1 · pending)) with an average of latencies that weighs the newest .3;
//! health is such an average of successes. Peak EWMA takes the lower of latency · (pending + 1) of two random ones; its
//! latency jumps to any peak at once and forgets with a time constant of 10 s. Both take the time to the first token, which
//! is what a proxy sees of a streamed answer.

use super::choose::Chance;
use std::collections::BTreeMap;
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// How latencies become a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// agentgateway's.
    Average {
        /// Weight of the newest.
        newest: f64,
    },
    /// Finagle's.
    Peak {
        /// Time constant, in seconds.
        decay: f64,
    },
}

impl Kind {
    /// agentgateway's, as it ships.
    pub const AVERAGE: Self = Self::Average { newest: 0.3 };
    /// Finagle's, as it ships.
    pub const PEAK: Self = Self::Peak { decay: 10.0 };
}

#[derive(Clone, Copy)]
struct Latency {
    seconds: f64,
    at: Duration,
    health: f64,
}

/// Of two, the one with the lower cost.
pub struct ByLatency {
    kind: Kind,
    chance: Chance,
    sent: BTreeMap<usize, Duration>,
    known: BTreeMap<usize, Latency>,
}

impl ByLatency {
    /// Of this kind.
    pub fn new(kind: Kind, seed: u64) -> Self {
        Self {
            kind,
            chance: Chance::new(seed),
            sent: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    fn cost(&self, now: Duration, seen: &Seen<'_>) -> f64 {
        let known = self.known.get(&seen.endpoint);
        let pending = f64::from(seen.inflight);
        match self.kind {
            Kind::Average { .. } => {
                let (seconds, health) = known.map_or((0.0, 1.0), |known| (known.seconds, known.health));
                -health / (1.0 + seconds * (1.0 + 0.1 * pending))
            }
            // Nothing is known of a newcomer: it is taken unless it has requests already.
            Kind::Peak { decay } => known.map_or(pending * 1e9, |known| {
                known.seconds * known.keeps(now, decay) * (pending + 1.0)
            }),
        }
    }

    fn learn(&mut self, now: Duration, seconds: f64, (endpoint, success): (usize, f64)) {
        let kind = self.kind;
        let fresh = Latency {
            seconds,
            at: now,
            health: 1.0,
        };
        let known = self.known.entry(endpoint).or_insert(fresh);
        known.seconds = match kind {
            Kind::Average { newest } => known.seconds + newest * (seconds - known.seconds),
            Kind::Peak { .. } if seconds > known.seconds => seconds,
            Kind::Peak { decay } => {
                let keeps = known.keeps(now, decay);
                known.seconds * keeps + seconds * (1.0 - keeps)
            }
        };
        if let Kind::Average { newest } = kind {
            known.health += newest * (success - known.health);
        }
        known.at = now;
    }
}

impl Latency {
    fn keeps(&self, now: Duration, decay: f64) -> f64 {
        (-(now.saturating_sub(self.at).as_secs_f64()) / decay).exp()
    }
}

impl Baseline for ByLatency {
    fn choose(&mut self, now: Duration, (index, _): (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        let [one, other] = self.chance.two(candidates.len());
        self.sent.insert(index, now);
        if self.cost(now, &candidates[other]) < self.cost(now, &candidates[one]) {
            other
        } else {
            one
        }
    }

    fn began(&mut self, now: Duration, index: usize, endpoint: usize) {
        if let Some(sent) = self.sent.remove(&index) {
            self.learn(now, now.saturating_sub(sent).as_secs_f64(), (endpoint, 1.0));
        }
    }

    fn ended(&mut self, now: Duration, index: usize, endpoint: usize) {
        // Without a first token it has failed.
        if let Some(sent) = self.sent.remove(&index) {
            self.learn(now, now.saturating_sub(sent).as_secs_f64(), (endpoint, 0.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, prompt};

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() < 1e-9, "{got}, expected {expected}");
    }

    #[test]
    fn averages_weigh_the_newest_three_tenths() {
        let stage = Stage::new(1);
        let mut router = ByLatency::new(Kind::AVERAGE, 1);
        let seen = stage.seen(&[5])[0];
        close(router.cost(Duration::ZERO, &seen), -1.0);
        router.learn(Duration::ZERO, 2.0, (0, 1.0));
        router.learn(Duration::ZERO, 1.0, (0, 0.0));
        // Latency 2 − .3 = 1.7, health .7.
        close(router.cost(Duration::ZERO, &seen), -0.7 / (1.0 + 1.7 * 1.5));
    }

    #[test]
    fn peaks_count_at_once_and_fade() {
        let stage = Stage::new(1);
        let mut router = ByLatency::new(Kind::PEAK, 1);
        let seen = stage.seen(&[1])[0];
        router.learn(Duration::ZERO, 1.0, (0, 1.0));
        router.learn(Duration::ZERO, 4.0, (0, 1.0));
        close(router.cost(Duration::ZERO, &seen), 8.0);
        let later = Duration::from_secs(10);
        let keeps = (-1.0_f64).exp();
        close(router.cost(later, &seen), 8.0 * keeps);
        router.learn(later, 0.5, (0, 1.0));
        close(
            router.cost(later, &seen),
            2.0 * (4.0 * keeps + 0.5 * (1.0 - keeps)),
        );
    }

    #[test]
    fn the_quicker_of_two() {
        let stage = Stage::new(2);
        for kind in [Kind::AVERAGE, Kind::PEAK] {
            let mut router = ByLatency::new(kind, 1);
            router.learn(Duration::ZERO, 2.0, (0, 1.0));
            router.learn(Duration::ZERO, 1.0, (1, 1.0));
            let mut choose =
                |inflight: &[u32]| router.choose(Duration::ZERO, (0, &prompt(&[], 9)), &stage.seen(inflight));
            assert!((0..9).all(|_| choose(&[3, 3]) == 1));
            // 2 · 1 against 1 · 4 peaks; averages: 2 · 1 against 1 · 1.3.
            let slower = usize::from(kind == Kind::AVERAGE);
            assert!((0..9).all(|_| choose(&[0, 3]) == slower), "{kind:?}");
            // 1 · 2.3 is worse than 2 · 1.
            assert!((0..9).all(|_| choose(&[0, 13]) == 0));
        }
    }
}
