//! Ramp: a newcomer or returner is given less than its share at first, so that a cold cache is not flooded.

use crate::time::Time;
use std::time::Duration;

/// The ramp of one endpoint; none under way by default.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ramp {
    until: Time,
    length: Duration,
}

impl Ramp {
    /// Starts a ramp of `length`.
    pub(crate) fn start(&mut self, now: Time, length: Duration) {
        *self = Self {
            until: now.after(length),
            length,
        };
    }

    /// Whether one is under way.
    #[inline]
    pub(crate) fn is_on(&self, now: Time) -> bool {
        now < self.until
    }

    /// Requests to add to the endpoint's in-flight count: remaining fraction × (largest live in-flight + 1).
    pub(crate) fn penalty(&self, now: Time, largest: u32) -> f64 {
        if !self.is_on(now) {
            return 0.0;
        }
        self.until.since(now).as_secs_f64() / self.length.as_secs_f64() * (f64::from(largest) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_in_a_line_to_zero() {
        let at = |millis| Time::from_origin(Duration::from_millis(millis));
        let mut ramp = Ramp::default();
        assert!(ramp.penalty(at(0), 9).abs() < 1e-12);
        ramp.start(at(1000), Duration::from_secs(10));
        for (now, expect) in [
            (1000, 10.0),
            (3500, 7.5),
            (6000, 5.0),
            (10_999, 0.001),
            (11_000, 0.0),
        ] {
            assert!((ramp.penalty(at(now), 9) - expect).abs() < 1e-9, "{now}");
        }
        ramp.start(at(0), Duration::ZERO);
        assert!(ramp.penalty(at(0), 9).abs() < 1e-12, "a ramp of no length");
    }
}
