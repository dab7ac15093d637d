//! What an endpoint took lately: mean of the last 100 samples, peak-EWMA and quantiles, all of which forget.

use super::decay::{Average, fade, seconds, toward};
use crate::time::Time;

/// Samples of which the mean is taken.
const WINDOW: usize = 100;
/// Seconds above which longer makes no difference.
const LONGEST: f64 = 1e6;

/// Times of one kind at one endpoint, in seconds. Of fixed size; a sample costs the same however many there were.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    recent: Recent,
    peak: Peak,
    spread: Spread,
    newest: Option<Time>,
}

impl Latency {
    /// Something took this many seconds.
    pub fn add(&mut self, now: Time, value: f64) {
        let value = value.clamp(0.0, LONGEST);
        self.recent.add(now, value);
        self.peak.add(now, value);
        self.spread.add(now, value);
        self.newest = Some(now);
    }

    /// When the newest sample came; none: there is none.
    #[must_use]
    pub fn newest(&self) -> Option<Time> {
        self.newest
    }

    /// Mean of the last 100 samples, the older ones weighing less, decayed to `pool`; none: no sample came yet.
    #[must_use]
    pub fn mean(&self, now: Time, pool: &Average) -> Option<f64> {
        self.settled(now, (self.recent.mean, pool))
    }

    /// Peak-EWMA: as slow as the slowest of late, decayed to `pool`; none: no sample came yet.
    #[must_use]
    pub fn peak(&self, now: Time, pool: &Average) -> Option<f64> {
        self.settled(now, (self.peak.value, pool))
    }

    /// Time below which a share `part` of the samples lies, by their weights, within 10 %; none: no sample came yet.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<f64> {
        self.newest.map(|_| self.spread.quantile(part))
    }

    fn settled(&self, now: Time, (own, pool): (f64, &Average)) -> Option<f64> {
        let kept = fade(now, self.newest?);
        Some(toward(own, pool.mean().unwrap_or(own), kept))
    }
}

/// The last samples and their weighted sum, which is brought up to date with each.
#[derive(Clone, Debug)]
struct Recent {
    values: [f32; WINDOW],
    at: [Time; WINDOW],
    count: usize,
    next: usize,
    sum: f64,
    weight: f64,
    mean: f64,
    newest: Time,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            values: [0.0; WINDOW],
            at: [Time::ZERO; WINDOW],
            count: 0,
            next: 0,
            sum: 0.0,
            weight: 0.0,
            mean: 0.0,
            newest: Time::ZERO,
        }
    }
}

impl Recent {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "seven digits of a latency are plenty"
    )]
    fn add(&mut self, now: Time, value: f64) {
        let kept = fade(now, self.newest);
        self.sum *= kept;
        self.weight *= kept;
        if self.count == WINDOW {
            let left = fade(now, self.at[self.next]);
            self.sum -= left * f64::from(self.values[self.next]);
            self.weight -= left;
        } else {
            self.count += 1;
        }
        self.values[self.next] = value as f32;
        self.at[self.next] = now;
        self.sum += f64::from(self.values[self.next]);
        self.weight += 1.0;
        self.newest = now;
        self.next = (self.next + 1) % WINDOW;
        if self.next == 0 {
            self.sum_up();
        }
        self.mean = (self.sum / self.weight).max(0.0);
    }

    /// Adds everything up anew, so that what rounding left behind does not grow.
    fn sum_up(&mut self) {
        (self.sum, self.weight) = (0.0, 0.0);
        for (value, at) in self.values.iter().zip(&self.at).take(self.count) {
            let weight = fade(self.newest, *at);
            self.sum += weight * f64::from(*value);
            self.weight += weight;
        }
    }
}

/// Peak-EWMA (Finagle, M. Owens): a slower sample counts at once, quicker ones pull it down by and by.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    value: f64,
    at: Time,
}

impl Peak {
    fn add(&mut self, now: Time, value: f64) {
        self.value = if value > self.value {
            value
        } else {
            let kept = fade(now, self.at);
            self.value * kept + value * (1.0 - kept)
        };
        self.at = now;
    }
}

/// Buckets in an octave.
const PER_OCTAVE: f64 = 4.0;
/// Upper end of the first bucket, seconds.
const FIRST: f64 = 1e-4;
/// Up to 7 minutes; all above counts as that.
const BUCKETS: usize = 88;
/// Half-lives after which all weights are scaled down, before they grow too large for their type.
const RESCALE: f64 = 64.0;

/// Histogram with weights that grow with time instead of old ones that shrink ("forward decay", Cormode, Shkapenyuk,
/// Srivastava, Xu, "Forward Decay: A Practical Time Decay Model for Streaming Systems", ICDE 2009).
#[derive(Clone, Debug)]
struct Spread {
    weights: [f32; BUCKETS],
    since: Time,
}

impl Default for Spread {
    fn default() -> Self {
        Self {
            weights: [0.0; BUCKETS],
            since: Time::ZERO,
        }
    }
}

impl Spread {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to the buckets, and weights need no more digits"
    )]
    fn add(&mut self, now: Time, value: f64) {
        let mut halves = seconds(now.since(self.since)) / 30.0;
        if halves > RESCALE {
            let kept = libm::exp2(-halves) as f32;
            self.weights.iter_mut().for_each(|weight| *weight *= kept);
            self.since = now;
            halves = 0.0;
        }
        let place = (libm::log2(value.max(FIRST) / FIRST) * PER_OCTAVE).min((BUCKETS - 1) as f64);
        self.weights[place as usize] += libm::exp2(halves) as f32;
    }

    fn quantile(&self, part: f64) -> f64 {
        let total: f64 = self.weights.iter().map(|weight| f64::from(*weight)).sum();
        let mut left = total * part.clamp(0.0, 1.0);
        let mut place = 0.0;
        for weight in &self.weights {
            let weight = f64::from(*weight);
            if weight > 0.0 && left <= weight {
                return FIRST * libm::exp2((place + left / weight) / PER_OCTAVE);
            }
            left -= weight;
            place += 1.0;
        }
        FIRST * libm::exp2(place / PER_OCTAVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(millis: u64) -> Time {
        Time::from_origin(Duration::from_millis(millis))
    }

    fn near(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-6 * b.abs().max(1.0))
    }

    #[test]
    fn the_mean_is_of_the_last_hundred() {
        let (mut latency, pool) = (Latency::default(), Average::default());
        assert_eq!(latency.mean(at(0), &pool), None);
        (0..150).for_each(|_| latency.add(at(5), 9.0));
        (0..100).for_each(|_| latency.add(at(5), 0.5));
        assert!(near(latency.mean(at(5), &pool), 0.5));
        (0..50).for_each(|_| latency.add(at(5), 1.5));
        assert!(near(latency.mean(at(5), &pool), 1.0));
    }

    #[test]
    fn of_the_hundred_the_older_count_less() {
        let (mut latency, pool) = (Latency::default(), Average::default());
        latency.add(at(0), 4.0);
        latency.add(at(30_000), 1.0);
        // (0.5 · 4 + 1) / 1.5.
        assert!(near(latency.mean(at(30_000), &pool), 2.0));
    }

    #[test]
    fn an_endpoint_that_is_not_asked_is_taken_for_the_pool() {
        let (mut latency, mut pool) = (Latency::default(), Average::default());
        latency.add(at(0), 4.0);
        pool.add(at(0), 1.0);
        for (millis, expected) in [(0, 4.0), (30_000, 2.5), (60_000, 1.75), (600_000, 1.000_003)] {
            assert!(
                near(latency.mean(at(millis), &pool), expected),
                "after {millis} ms"
            );
            assert!(
                near(latency.peak(at(millis), &pool), expected),
                "after {millis} ms"
            );
        }
    }

    #[test]
    fn a_peak_counts_at_once_and_fades_with_the_samples() {
        let (mut latency, pool) = (Latency::default(), Average::default());
        latency.add(at(0), 1.0);
        latency.add(at(10), 5.0);
        assert!(near(latency.peak(at(10), &pool), 5.0));
        latency.add(at(30_010), 1.0);
        assert!(near(latency.peak(at(30_010), &pool), 3.0));
    }

    #[test]
    fn rounding_does_not_add_up() {
        let (mut latency, pool) = (Latency::default(), Average::default());
        for number in 0..100_000_u64 {
            let value = if number % 1000 < 10 { 300.0 } else { 0.001 };
            latency.add(at(number * 37), value);
        }
        let now = 99_999 * 37;
        let last = |number: u64| ((now - number * 37) as f64 / -30_000.0).exp2();
        let weights: f64 = (99_900..100_000).map(last).sum();
        assert!(weights > 90.0);
        assert!(near(latency.mean(at(now), &pool), 0.001));
    }

    #[test]
    fn quantiles_are_within_a_tenth() {
        let mut latency = Latency::default();
        assert_eq!(latency.quantile(0.5), None);
        for number in 1..=1000 {
            latency.add(at(5), f64::from(number) / 1000.0);
        }
        for part in [0.1, 0.5, 0.9, 0.99] {
            let found = latency.quantile(part).unwrap();
            assert!((found / part - 1.0).abs() < 0.1, "{part}: {found}");
        }
    }

    #[test]
    fn quantiles_forget_and_bear_any_time_and_value() {
        let mut latency = Latency::default();
        (0..100).for_each(|_| latency.add(at(0), 10.0));
        (0..100).for_each(|_| latency.add(at(120_000), 0.1));
        // A sixteenth of the weight is left of the slow ones.
        assert!(latency.quantile(0.9).unwrap() < 0.2);
        assert!(latency.quantile(0.97).unwrap() > 8.0);
        let year = 365 * 24 * 3_600_000;
        latency.add(at(year), 0.2);
        assert!(latency.quantile(0.01).unwrap() > 0.15);
        for odd in [0.0, 1e9, f64::MAX] {
            latency.add(at(year), odd);
        }
        assert!(latency.quantile(1.0).unwrap() < 500.0);
    }
}
