//! Round robin, random, least in flight, and the better of two random ones.
//!
//! The power of two choices: Azar, Broder, Karlin and Upfal, "Balanced Allocations", 1994; Mitzenmacher 2001.

use super::choose::{Chance, least_inflight};
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::workload::Request;

/// Each in turn.
#[derive(Default)]
pub struct RoundRobin(usize);

impl Baseline for RoundRobin {
    fn choose(&mut self, _: Duration, _: (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        self.0 += 1;
        (self.0 - 1) % candidates.len()
    }
}

/// Any.
pub struct Random(pub Chance);

impl Baseline for Random {
    fn choose(&mut self, _: Duration, _: (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        self.0.below(candidates.len())
    }
}

/// The one with the fewest requests of this router, by chance among equals.
pub struct LeastInflight(pub Chance);

impl Baseline for LeastInflight {
    fn choose(&mut self, _: Duration, _: (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        self.0.one_of(&least_inflight(candidates))
    }
}

/// Of two different ones by chance, the one with fewer.
pub struct PowerOfTwo(pub Chance);

impl Baseline for PowerOfTwo {
    fn choose(&mut self, _: Duration, _: (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        let [one, other] = self.0.two(candidates.len());
        if candidates[other].inflight < candidates[one].inflight {
            other
        } else {
            one
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, prompt};

    fn chosen(baseline: &mut dyn Baseline, inflight: &[u32]) -> usize {
        let stage = Stage::new(inflight.len());
        baseline.choose(Duration::ZERO, (0, &prompt(&[], 9)), &stage.seen(inflight))
    }

    #[test]
    fn round_robin_goes_round() {
        let mut robin = RoundRobin::default();
        let order: Vec<usize> = (0..5).map(|_| chosen(&mut robin, &[9, 0, 4])).collect();
        assert_eq!(order, [0, 1, 2, 0, 1]);
    }

    #[test]
    fn least_inflight_takes_only_the_least() {
        let mut least = LeastInflight(Chance::new(1));
        let mut counts = [0; 3];
        for _ in 0..60 {
            counts[chosen(&mut least, &[2, 5, 2])] += 1;
        }
        assert_eq!(counts[1], 0);
        assert!(counts[0] > 15 && counts[2] > 15, "{counts:?}");
    }

    #[test]
    fn of_two_the_emptier() {
        let mut two = PowerOfTwo(Chance::new(1));
        assert!((0..20).all(|_| chosen(&mut two, &[7, 3]) == 1));
        // The fullest of three is always compared with an emptier one.
        assert!((0..50).all(|_| chosen(&mut two, &[1, 9, 2]) != 1));
        assert_eq!(chosen(&mut two, &[5]), 0);
    }

    /// Most balls of a bin when 256 are thrown into 256.
    fn fullest(baseline: &mut dyn Baseline) -> u32 {
        let stage = Stage::new(256);
        let mut bins = [0; 256];
        for _ in 0..256 {
            let place = baseline.choose(Duration::ZERO, (0, &prompt(&[], 9)), &stage.seen(&bins));
            bins[place] += 1;
        }
        bins.into_iter().max().unwrap()
    }

    /// Thrown at random, the fullest of n bins has about ln n / ln ln n balls (each bin is Poisson with mean 1); with two
    /// choices about ln ln n / ln 2.
    #[test]
    fn balls_in_bins() {
        let runs = 40;
        let mean = |make: &dyn Fn(u64) -> Box<dyn Baseline>| {
            let sum: u32 = (0..runs).map(|seed| fullest(&mut *make(seed))).sum();
            f64::from(sum) / runs as f64
        };
        // P(a Poisson with mean 1 is below k), to the power of 256, summed over k.
        let mut expected = 0.0;
        let (mut term, mut below) = ((-1.0_f64).exp(), 0.0);
        for k in 1..20 {
            below += term;
            term /= f64::from(k);
            expected += 1.0 - f64::powi(below, 256);
        }
        let random = mean(&|seed| Box::new(Random(Chance::new(seed))));
        assert!((random - expected).abs() < 0.4, "{random}, expected {expected}");
        let two = mean(&|seed| Box::new(PowerOfTwo(Chance::new(seed))));
        // ln ln 256 / ln 2 = 2.5, of which the fullest bin is within one.
        assert!((2.0..=3.1).contains(&two), "{two}");
        let least = mean(&|seed| Box::new(LeastInflight(Chance::new(seed))));
        assert_eq!(least, 1.0);
    }
}
