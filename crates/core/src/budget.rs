//! The retry budget of a route: retries in the window < ratio · first attempts + floor · window.
//!
//! Retries multiply load just when a fleet can bear it least; a share of the first attempts bounds that, and the floor
//! lets quiet routes retry at all. (The idea is Finagle's `RetryBudget`.)

use crate::health::window::Window;
use crate::spec::BudgetSpec;
use crate::time::Time;

const FIRST: usize = 0;
const RETRY: usize = 1;

/// Attempts of one route within the window.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    rules: BudgetSpec,
    window: Window,
}

impl Budget {
    pub(crate) fn new(rules: BudgetSpec) -> Self {
        Self {
            window: Window::new(rules.window),
            rules,
        }
    }

    /// Goes on under other rules; counts are kept unless their span changed.
    pub(crate) fn reconfigure(&mut self, rules: &BudgetSpec) {
        if self.window.span() != rules.window {
            self.window = Window::new(rules.window);
        }
        self.rules = rules.clone();
    }

    /// A request's first attempt was sent.
    pub(crate) fn first(&mut self, now: Time) {
        self.window.add(now, FIRST);
    }

    /// A retry or fallback was decided.
    pub(crate) fn spend(&mut self, now: Time) {
        self.window.add(now, RETRY);
    }

    /// Whether one more retry may be made.
    pub(crate) fn allows(&self, now: Time) -> bool {
        let (used, allowed) = self.used(now);
        used < allowed
    }

    /// Retries in the window, and how many may be made in all.
    pub(crate) fn used(&self, now: Time) -> (u64, u64) {
        let [first, retries] = self.window.sums(now);
        (retries, self.limit(first))
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts are far below 2^53, the limit is not negative, and the cast saturates"
    )]
    fn limit(&self, first: u64) -> u64 {
        let floor = self.rules.floor_per_second * self.rules.window.as_secs_f64();
        (self.rules.ratio * first as f64 + floor).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn check(ratio: f64, floor_per_second: f64, first: u32) -> u32 {
        let mut budget = Budget::new(BudgetSpec {
            ratio,
            floor_per_second,
            window: Duration::from_secs(10),
        });
        let now = Time::from_origin(Duration::from_secs(100));
        (0..first).for_each(|_| budget.first(now));
        let mut retries = 0;
        while budget.allows(now) && retries < 1000 {
            budget.spend(now);
            retries += 1;
        }
        assert!(budget.allows(now.after(Duration::from_secs(10))) == (floor_per_second > 0.0));
        retries
    }

    #[test]
    fn retries_stay_below_ratio_and_floor() {
        assert_eq!(check(0.2, 0.0, 100), 20);
        assert_eq!(check(0.2, 0.0, 101), 21, "20 < 20.2");
        assert_eq!(check(0.2, 10.0, 0), 100);
        assert_eq!(check(0.2, 10.0, 50), 110);
        assert_eq!(check(0.0, 0.0, 50), 0);
    }
}
