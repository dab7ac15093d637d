//! The scheduler's only source of chance: a seeded generator whose output is part of its contract.

use rand_core::Rng as _;
use rand_pcg::Mcg128Xsl64;
use std::time::Duration;

/// PCG XSL-RR 128/64 (MCG), M. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for
/// Random Number Generation", 2014. Value-stable: the same seed gives the same numbers in every version.
#[derive(Clone, Debug)]
pub(crate) struct Rng(Mcg128Xsl64);

impl Rng {
    /// Spreads `seed` over the state by two steps of SplitMix64, so that near seeds give unlike numbers.
    pub(crate) fn new(seed: u64) -> Self {
        let high = splitmix(seed);
        let low = splitmix(high ^ seed.rotate_left(32));
        Self(Mcg128Xsl64::new((u128::from(high) << 64) | u128::from(low)))
    }

    /// A number in `0..n`, uniform up to n / 2^64; 0 for n ≤ 1, without a draw.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        if n <= 1 {
            return 0;
        }
        let wide = u128::from(self.0.next_u64()) * n as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number in [0, 1).
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub(crate) fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A duration in `0..span`.
    pub(crate) fn within(&mut self, span: Duration) -> Duration {
        let wide = (u128::from(self.0.next_u64()) * span.as_nanos()) >> 64;
        Duration::from_nanos(u64::try_from(wide).unwrap_or(u64::MAX))
    }
}

/// One step of SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) const fn splitmix(seed: u64) -> u64 {
    mixed(seed.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// The finaliser of SplitMix64: every bit of the result depends on all bits of the number.
pub(crate) const fn mixed(number: u64) -> u64 {
    let mut z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_sequence() {
        let (mut a, mut b, mut c) = (Rng::new(7), Rng::new(7), Rng::new(8));
        let draw = |rng: &mut Rng| (0..20).map(|_| rng.below(1000)).collect::<Vec<_>>();
        let first = draw(&mut a);
        assert_eq!(first, draw(&mut b));
        assert_ne!(first, draw(&mut c));
    }

    #[test]
    fn stays_in_range_and_reaches_both_ends() {
        let mut rng = Rng::new(1);
        let draws: Vec<_> = (0..1000).map(|_| rng.below(3)).collect();
        assert!(draws.iter().all(|n| *n < 3) && draws.contains(&0) && draws.contains(&2));
        let span = Duration::from_secs(5);
        assert!((0..1000).all(|_| rng.within(span) < span));
    }
}
