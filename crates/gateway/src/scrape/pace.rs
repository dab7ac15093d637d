//! When a page is read: at its interval, never all pages at once, and more seldom where there is nothing to read.

use super::page::{Fault, PageKey};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Longest time between two attempts at a page that is not there, or is too large. An engine may be replaced by one that has it.
const ABSENT_MAX: Duration = Duration::from_secs(60);
/// Longest time between two attempts at a page that fails. An engine that comes back is heard soon.
const FAILING_MAX: Duration = Duration::from_secs(5);

/// The pace of one page.
pub(super) struct Pace {
    interval: Duration,
    random: RandomState,
    /// Counts up, so that each wait is drawn anew.
    draws: u64,
    failures: u32,
}

impl Pace {
    pub(super) fn new(interval: Duration, key: &PageKey) -> Self {
        let random = RandomState::new();
        Self {
            interval,
            draws: random.hash_one(key),
            random,
            failures: 0,
        }
    }

    /// A random number in [0, 1).
    fn draw(&mut self) -> f64 {
        self.draws = self.draws.wrapping_add(1);
        let bits = self.random.hash_one(self.draws) >> 11;
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
        let draw = bits as f64 / (1_u64 << 53) as f64;
        draw
    }

    /// Time until the first reading.
    pub(super) fn first(&mut self) -> Duration {
        self.interval.mul_f64(self.draw())
    }

    /// Time from the start of a reading to the start of the next: the interval, give or take a tenth.
    pub(super) fn next(&mut self, interval: Duration, fault: Option<&Fault>) -> Duration {
        self.interval = interval;
        let longest = match fault {
            None => {
                self.failures = 0;
                Duration::ZERO
            }
            Some(fault) if fault.is_lasting() => ABSENT_MAX,
            Some(_) => FAILING_MAX,
        };
        let wait = interval
            .saturating_mul(1 << self.failures.min(16))
            .min(longest)
            .max(interval);
        self.failures = (self.failures + u32::from(fault.is_some())).min(16);
        wait.mul_f64(0.9 + 0.2 * self.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(seconds: f64) -> Pace {
        Pace::new(Duration::from_secs_f64(seconds), &PageKey::of_test("p"))
    }

    #[test]
    fn a_page_is_read_at_its_interval_give_or_take_a_tenth() {
        let mut pace = pace(2.0);
        let waits: Vec<f64> = (0..500)
            .map(|_| pace.next(Duration::from_secs(2), None).as_secs_f64())
            .collect();
        assert!(waits.iter().all(|wait| (1.8..2.2).contains(wait)));
        let mean = waits.iter().sum::<f64>() / 500.0;
        assert!((1.95..2.05).contains(&mean), "{mean}");
        assert!(pace.first() < Duration::from_secs(2));
    }

    #[test]
    fn what_fails_is_asked_less_often_up_to_a_bound() {
        let mut pace = pace(1.0);
        let mut wait = |fault: &Fault| {
            pace.next(Duration::from_secs(1), Some(fault))
                .as_secs_f64()
                .round()
        };
        let failing = Fault::Failing("refused".into());
        assert_eq!([(); 5].map(|()| wait(&failing)), [1.0, 2.0, 4.0, 5.0, 5.0]);
        let absent = Fault::Absent("404".into());
        assert!((28.0..=36.0).contains(&wait(&absent)), "32 s");
        assert!((54.0..=66.0).contains(&(0..9).map(|_| wait(&absent)).last().unwrap()));
        assert!(pace.next(Duration::from_secs(1), None) < Duration::from_millis(1101));
        assert!(
            pace.next(Duration::from_secs(90), Some(&failing)) >= Duration::from_secs(81),
            "never faster than told"
        );
    }
}
