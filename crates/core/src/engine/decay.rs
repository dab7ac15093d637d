//! Averages that forget: every sample's weight halves every 30 s, with the time as an argument.

use crate::time::Time;
use std::time::Duration;

/// Time in which what was learned loses half its weight.
pub const HALF_LIFE: Duration = Duration::from_secs(30);

/// Weight that is left of a sample of this age, in [0, 1].
#[must_use]
pub fn fade(age: Duration) -> f64 {
    libm::exp2(-seconds(age) / 30.0)
}

/// What an endpoint's own figure is worth after `age` without a sample: it decays to that of its pool.
#[must_use]
pub fn toward(own: f64, pool: f64, age: Duration) -> f64 {
    pool + (own - pool) * fade(age)
}

/// A duration in seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "2^53 ns are 104 days, and rounding after that is below a ns"
)]
pub(crate) fn seconds(duration: Duration) -> f64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) as f64 / 1e9
}

/// Mean of samples by their weight. Stays what it was while none comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Average {
    mean: f64,
    weight: f64,
    at: Time,
}

impl Average {
    /// A sample came.
    pub fn add(&mut self, now: Time, value: f64) {
        self.weight = self.weight * fade(now.since(self.at)) + 1.0;
        self.mean += (value - self.mean) / self.weight;
        self.at = now;
    }

    /// The mean; none: no sample came yet.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.mean)
    }
}

/// Tokens over the seconds that they took. A quotient of sums, so that large samples, which say most, count most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    tokens: f64,
    seconds: f64,
    at: Time,
}

impl Rate {
    /// So many tokens took so many seconds.
    pub fn add(&mut self, now: Time, tokens: f64, seconds: f64) {
        let kept = fade(now.since(self.at));
        self.tokens = self.tokens * kept + tokens;
        self.seconds = self.seconds * kept + seconds;
        self.at = now;
    }

    /// Tokens per second; none: nothing was measured yet.
    #[must_use]
    pub fn per_second(&self) -> Option<f64> {
        (self.tokens > 0.0 && self.seconds > 0.0).then(|| self.tokens / self.seconds)
    }

    /// The same, decayed to that of the pool; where there is nothing of its own, the pool's, and where that has nothing,
    /// `usual`.
    #[must_use]
    pub fn toward(&self, now: Time, (pool, usual): (&Self, f64)) -> f64 {
        let pool = pool.per_second().unwrap_or(usual);
        match self.per_second() {
            Some(own) => toward(own, pool, now.since(self.at)),
            None => pool,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn weights_halve_every_thirty_seconds() {
        let mut average = Average::default();
        assert_eq!(average.mean(), None);
        average.add(at(100), 1.0);
        assert_eq!(average.mean(), Some(1.0));
        // The first sample counts half as much as the second: (0.5 · 1 + 4) / 1.5.
        average.add(at(130), 4.0);
        assert_eq!(average.mean(), Some(3.0));
        // 1.5 / 4 = 0.375 of weight is left: (0.375 · 3 + 14) / 1.375 = 11.
        average.add(at(190), 14.0);
        assert!((average.mean().unwrap() - 11.0).abs() < 1e-12);
        average.add(at(1_000_000), 2.0);
        assert_eq!(average.mean(), Some(2.0), "what is old enough is gone");
    }

    #[test]
    fn a_rate_is_a_quotient_of_sums() {
        let (mut own, mut pool) = (Rate::default(), Rate::default());
        assert_eq!(own.toward(at(0), (&pool, 2000.0)), 2000.0);
        own.add(at(0), 10.0, 0.09);
        own.add(at(0), 990.0, 0.11);
        assert_eq!(own.per_second(), Some(5000.0), "not the mean of 111 and 9000");
        assert_eq!(own.toward(at(30), (&pool, 2000.0)), 3500.0);
        pool.add(at(30), 1000.0, 1.0);
        assert_eq!(own.toward(at(30), (&pool, 2000.0)), 3000.0);
        assert_eq!(own.toward(at(90), (&pool, 2000.0)), 1500.0);
    }

    #[test]
    fn a_fade_is_the_same_everywhere_and_never_grows() {
        assert_eq!(fade(Duration::ZERO), 1.0);
        assert_eq!(fade(HALF_LIFE), 0.5);
        assert_eq!(fade(HALF_LIFE * 3), 0.125);
        let ages = [0, 1, 29_999, 30_000, 30_001, 10_000_000_000];
        let fades = ages.map(|millis| fade(Duration::from_millis(millis)));
        assert!(fades.is_sorted_by(|a, b| a >= b) && fades[5] == 0.0);
    }
}
