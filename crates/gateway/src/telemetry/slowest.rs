//! Tells whether a request is among the slowest, without keeping any.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How far one observation moves the estimate, as a share of it.
const STEP: f64 = 0.05;

/// A running estimate of a high quantile of durations.
///
/// Stochastic approximation (Robbins and Monro 1951) on a multiplicative scale: each duration above the estimate
/// raises it by STEP·q, each below lowers it by STEP·(1 − q), which balances where a share 1 − q lies above. Lost
/// updates under contention only slow it down.
#[derive(Default)]
pub struct Slowest {
    seconds: AtomicU64,
}

impl Slowest {
    /// Notes `duration` and says whether it is among the slowest `percent` of 100.
    pub(crate) fn is_among(&self, percent: f64, duration: Duration) -> bool {
        if percent <= 0.0 {
            return false;
        }
        let quantile = 1.0 - (percent / 100.0).min(1.0);
        let seconds = duration.as_secs_f64().max(1e-6);
        let estimate = f64::from_bits(self.seconds.load(Ordering::Relaxed));
        let above = seconds >= estimate;
        let moved = if estimate == 0.0 {
            seconds
        } else if above {
            estimate * (1.0 + STEP * quantile)
        } else {
            estimate * (1.0 - STEP * (1.0 - quantile))
        };
        self.seconds.store(moved.to_bits(), Ordering::Relaxed);
        above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_one_percent_of_a_steady_load_is_slow() {
        let slowest = Slowest::default();
        let mut found = 0;
        for index in 0_u64..50_000 {
            let millis = 10 + (index * 7919) % 1000;
            found += u32::from(slowest.is_among(1.0, Duration::from_millis(millis)));
        }
        assert!(
            (250..1_500).contains(&found),
            "{found} of 50,000 were called slow"
        );
        assert!(
            !slowest.is_among(0.0, Duration::from_secs(3600)),
            "0 % switches it off"
        );
    }
}
