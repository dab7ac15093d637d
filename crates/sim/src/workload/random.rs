//! Seeded chance for workloads.

use crate::text::mix;
use rand_core::Rng as _;
use rand_distr::{Distribution, Exp1, Gamma, StandardNormal, Zipf};
use rand_pcg::Mcg128Xsl64;

/// One sequence of random numbers: PCG XSL-RR 128/64 (MCG), M. O'Neill 2014, as the scheduler draws from. Each thing that
/// is drawn (arrivals, lengths, …) has a sequence of its own, so that a change to one leaves the others as they are.
///
/// Distributions are those of `rand_distr` on `libm`, which gives the same bits on every platform.
#[derive(Clone, Debug)]
pub(super) struct Stream(Mcg128Xsl64);

impl Stream {
    /// The sequence for `purpose` under `seed`.
    pub(super) fn new(seed: u64, purpose: &str) -> Self {
        let named = purpose
            .bytes()
            .fold(mix(seed), |state, byte| mix(state ^ u64::from(byte)));
        let wide = (u128::from(named) << 64) | u128::from(mix(named.rotate_left(32)));
        Self(Mcg128Xsl64::new(wide))
    }

    /// Any 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in `0..n`; 0 where n is 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Exponential with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        Exp1.sample(&mut self.0)
    }

    /// Normal with mean 0 and deviation 1.
    pub(super) fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }

    /// Gamma with mean 1 and coefficient of variation `cv`, above 0.
    pub(super) fn gamma(&mut self, cv: f64) -> f64 {
        let shape = 1.0 / (cv * cv);
        Gamma::new(shape, 1.0 / shape).map_or(1.0, |gamma| gamma.sample(&mut self.0))
    }

    /// One of `0..n` with probability ∝ 1 / (place + 1)^skew; uniform for skew 0.
    pub(super) fn zipf(&mut self, n: u64, skew: f64) -> u64 {
        if skew <= 0.0 {
            return self.below(n);
        }
        let rank = Zipf::new(n.max(1) as f64, skew).map_or(1.0, |zipf| zipf.sample(&mut self.0));
        (rank as u64).saturating_sub(1)
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_stable_and_apart() {
        let draw = |seed, purpose| {
            let mut stream = Stream::new(seed, purpose);
            (0..4).map(|_| stream.bits()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, "arrivals"), draw(1, "arrivals"));
        assert_ne!(draw(1, "arrivals"), draw(1, "lengths"));
        assert_ne!(draw(1, "arrivals"), draw(2, "arrivals"));
    }

    #[test]
    fn moments() {
        let mut stream = Stream::new(3, "test");
        let mut check = |what: &str, mean: f64, deviation: f64, draw: &mut dyn FnMut(&mut Stream) -> f64| {
            let values: Vec<f64> = (0..40_000).map(|_| draw(&mut stream)).collect();
            let got = values.iter().sum::<f64>() / values.len() as f64;
            let spread = (values.iter().map(|v| (v - got).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
            assert!(
                (got - mean).abs() < 0.03 * deviation.max(1.0),
                "{what}: mean {got}"
            );
            assert!(
                (spread - deviation).abs() < 0.05 * deviation,
                "{what}: deviation {spread}"
            );
        };
        check("unit", 0.5, (1.0_f64 / 12.0).sqrt(), &mut |s| s.unit());
        check("exponential", 1.0, 1.0, &mut |s| s.exponential());
        check("normal", 0.0, 1.0, &mut |s| s.normal());
        check("gamma of cv 2", 1.0, 2.0, &mut |s| s.gamma(2.0));
        check("gamma of cv 0.3", 1.0, 0.3, &mut |s| s.gamma(0.3));
    }

    #[test]
    fn zipf_falls_with_the_rank() {
        let mut stream = Stream::new(5, "test");
        let mut counts = [0_u32; 4];
        for _ in 0..25_000 {
            counts[stream.zipf(4, 1.0) as usize] += 1;
        }
        // 1 : 1/2 : 1/3 : 1/4, whose sum is 25/12.
        for (place, count) in counts.iter().enumerate() {
            let expected = 12_000.0 / (place + 1) as f64;
            assert!(
                (f64::from(*count) - expected).abs() < 0.06 * expected,
                "{counts:?}"
            );
        }
        assert!((0..100).all(|_| stream.zipf(3, 0.0) < 3));
    }
}
