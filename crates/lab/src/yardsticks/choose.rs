//! What all yardsticks share: the least of some cost, and seeded chance.

use weighbridge_sim::drive::Seen;
use weighbridge_sim::text::mix;

/// Repeatable random numbers: SplitMix64.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// One of `places`, which are not empty.
    pub fn one_of(&mut self, places: &[usize]) -> usize {
        places[self.below(places.len())]
    }

    /// Two different places of `0..n`; the same twice where there is only one.
    pub fn two(&mut self, n: usize) -> [usize; 2] {
        let first = self.below(n);
        if n < 2 {
            return [first, first];
        }
        [first, (first + 1 + self.below(n - 1)) % n]
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Places among `candidates` of those with the least `cost`, in order.
pub fn least(candidates: &[Seen<'_>], mut cost: impl FnMut(&Seen<'_>) -> f64) -> Vec<usize> {
    let (mut least, mut places) = (f64::INFINITY, Vec::new());
    for (place, seen) in candidates.iter().enumerate() {
        let cost = cost(seen);
        if cost < least || places.is_empty() {
            least = cost;
            places.clear();
        }
        if cost <= least {
            places.push(place);
        }
    }
    places
}

/// Places of those with the fewest requests in flight.
pub fn least_inflight(candidates: &[Seen<'_>]) -> Vec<usize> {
    least(candidates, |seen| f64::from(seen.inflight))
}

/// Mean of the requests in flight.
pub fn mean_inflight(candidates: &[Seen<'_>]) -> f64 {
    candidates
        .iter()
        .map(|seen| f64::from(seen.inflight))
        .sum::<f64>()
        / candidates.len() as f64
}

/// Fewest and most requests in flight.
pub fn spread(candidates: &[Seen<'_>]) -> (u32, u32) {
    let inflight = || candidates.iter().map(|seen| seen.inflight);
    (inflight().min().unwrap_or(0), inflight().max().unwrap_or(0))
}

#[test]
fn the_least_are_all_of_them() {
    let stage = super::stage::Stage::new(4);
    let seen = stage.seen(&[3, 1, 2, 1]);
    assert_eq!(least_inflight(&seen), [1, 3]);
    assert_eq!((mean_inflight(&seen), spread(&seen)), (1.75, (1, 3)));
    assert_eq!(least(&seen, |_| f64::INFINITY), [0, 1, 2, 3]);
}
