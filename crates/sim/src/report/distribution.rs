//! Mean and percentiles of what was observed.

use serde::Serialize;

/// Mean and percentiles, in seconds.
///
/// A percentile is one of the observed values: the smallest that at least that share of all are not above (nearest rank).
/// Nothing is interpolated and nothing is binned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// How many were observed.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half are not above it.
    pub p50: f64,
    /// 90 % are not above it.
    pub p90: f64,
    /// 95 % are not above it.
    pub p95: f64,
    /// 99 % are not above it.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// What was observed, in ascending order.
#[derive(Clone, Debug, Default)]
pub struct Sorted(Vec<u64>);

impl Sorted {
    /// Of these nanoseconds.
    #[must_use]
    pub fn of(nanos: impl Iterator<Item = u64>) -> Self {
        let mut values: Vec<u64> = nanos.collect();
        values.sort_unstable();
        Self(values)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value at this place, counted from 1, in seconds; none outside.
    #[must_use]
    pub fn at_rank(&self, rank: usize) -> Option<f64> {
        self.0.get(rank.checked_sub(1)?).map(|&nanos| seconds(nanos))
    }

    /// The percentile, in seconds; none of nothing. `percent` from 0 to 100.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let rank = (percent / 100.0 * self.0.len() as f64).ceil() as usize;
        self.at_rank(rank.clamp(1, self.0.len().max(1)))
    }

    /// The mean, in seconds; none of nothing.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let sum: u128 = self.0.iter().map(|&nanos| u128::from(nanos)).sum();
        (!self.0.is_empty()).then(|| sum as f64 / self.0.len() as f64 / 1e9)
    }

    /// All of it; none of nothing.
    #[must_use]
    pub fn distribution(&self) -> Option<Distribution> {
        Some(Distribution {
            count: self.0.len() as u64,
            mean: self.mean()?,
            p50: self.percentile(50.0)?,
            p90: self.percentile(90.0)?,
            p95: self.percentile(95.0)?,
            p99: self.percentile(99.0)?,
            max: self.percentile(100.0)?,
        })
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_observed_values_of_the_nearest_rank() {
        let second = 1_000_000_000;
        let check = |values: &[u64], percent: f64, expect: f64| {
            let sorted = Sorted::of(values.iter().map(|value| value * second));
            assert_eq!(sorted.percentile(percent), Some(expect), "{values:?} p{percent}");
        };
        // The example of Wikipedia's "Percentile", nearest-rank method.
        for (percent, expect) in [
            (5.0, 15.0),
            (30.0, 20.0),
            (40.0, 20.0),
            (50.0, 35.0),
            (100.0, 50.0),
        ] {
            check(&[40, 15, 35, 50, 20], percent, expect);
        }
        check(&[7], 0.0, 7.0);
        check(&[7], 99.0, 7.0);
        let hundred: Vec<u64> = (1..=100).rev().collect();
        check(&hundred, 90.0, 90.0);
        check(&hundred, 99.0, 99.0);
        check(&hundred, 99.1, 100.0);
    }

    #[test]
    fn nothing_has_no_distribution() {
        assert_eq!(Sorted::of(std::iter::empty()).distribution(), None);
        let one = Sorted::of(std::iter::once(2_500_000_000)).distribution().unwrap();
        assert_eq!((one.count, one.mean, one.p99), (1, 2.5, 2.5));
    }
}
