//! Sums in which what is older counts less.

use crate::time::Time;
use std::time::Duration;

/// A sum that halves every [`HALF_LIFE`]. All sums decay on the same steps of time, so two of them keep their ratio while
/// nothing is added, whenever each was last touched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lately {
    sum: f64,
    step: u64,
}

/// Time in which a sum halves: long enough that what fills an engine's cache is in it, short enough that an endpoint that came
/// back has caught up within minutes.
pub const HALF_LIFE: Duration = Duration::from_secs(120);

/// Steps of a half-life.
const STEPS: u64 = 32;
const STEP_NANOS: u64 = 120_000_000_000 / STEPS;

/// 2^(−2^k / 32) for k from 0.
const FACTORS: [f64; 5] = [
    0.978_572_062_087_700_1,
    0.957_603_280_698_573_6,
    0.917_004_043_204_671_3,
    0.840_896_415_253_714_6,
    std::f64::consts::FRAC_1_SQRT_2,
];

impl Lately {
    /// Adds to the sum.
    pub fn add(&mut self, now: Time, amount: f64) {
        let step = (now.nanos() / STEP_NANOS).max(self.step);
        self.sum = self.at_step(step) + amount;
        self.step = step;
    }

    /// The sum as of now.
    #[must_use]
    pub fn sum(&self, now: Time) -> f64 {
        self.at_step(now.nanos() / STEP_NANOS)
    }

    fn at_step(&self, step: u64) -> f64 {
        let passed = step.saturating_sub(self.step);
        if passed == 0 || self.sum == 0.0 {
            return self.sum;
        }
        if passed >= 64 * STEPS {
            return 0.0;
        }
        let mut sum = self.sum;
        for (bit, factor) in FACTORS.iter().enumerate() {
            if passed >> bit & 1 == 1 {
                sum *= factor;
            }
        }
        for _ in 0..passed / STEPS {
            sum *= 0.5;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Time {
        Time::from_origin(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn it_halves_in_a_half_life() {
        assert_eq!(HALF_LIFE, Duration::from_nanos(STEP_NANOS * STEPS));
        let mut sum = Lately::default();
        sum.add(at(240.0), 800.0);
        assert_eq!(sum.sum(at(240.0)), 800.0);
        assert_eq!(sum.sum(at(360.0)), 400.0);
        assert_eq!(sum.sum(at(600.0)), 100.0);
        assert!((sum.sum(at(300.0)) - 800.0 * 0.5_f64.sqrt()).abs() < 1e-9);
        assert!((sum.sum(at(240.0 + 7.0 * 3.75)) - 800.0 * (-7.0_f64 / 32.0).exp2()).abs() < 1e-9);
        assert_eq!(sum.sum(at(1e6)), 0.0);
        sum.add(at(360.0), 1.0);
        assert_eq!(sum.sum(at(360.0)), 401.0);
        assert_eq!(sum.sum(at(1.0)), 401.0, "a clock that goes back changes nothing");
    }

    #[test]
    fn sums_that_are_touched_often_decay_as_fast() {
        let (mut often, mut once) = (Lately::default(), Lately::default());
        often.add(Time::ZERO, 1.0);
        once.add(Time::ZERO, 1.0);
        for second in 0..1000 {
            often.add(at(f64::from(second)), 0.0);
        }
        assert!((often.sum(at(1000.0)) - once.sum(at(1000.0))).abs() < 1e-12);
    }
}
