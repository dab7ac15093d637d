//! Calibrations at the times of day that the config names.

use super::Order;
use crate::clock::unix_seconds;
use crate::gateway::Gateway;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_config::resolved::Pool;

/// Time between two looks at the clock.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Most seconds by which a time may have passed unseen, as when the machine slept, and still be met.
const LATE_MAX: i64 = 60;
const DAY: i64 = 24 * 3600;

/// Looks at the clock for ever.
pub(crate) async fn keep(gateway: Arc<Gateway>) {
    let mut seen = unix_seconds();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = unix_seconds();
        for pool in &gateway.snapshot_full().config.pools {
            if pool.calibrate.at.is_some_and(|at| has_come(at, (seen, now))) {
                order(&gateway, pool);
            }
        }
        seen = now;
    }
}

fn order(gateway: &Gateway, pool: &Pool) {
    let order = Order {
        pool: pool.name.clone(),
        rate: pool.calibrate.rate.clone(),
        together: false,
        apply: true,
        ttl: None,
        scheduled: true,
    };
    if let Err(why) = gateway.calibrate(order) {
        tracing::warn!(pool = %pool.name, ?why, "not calibrated, though it is time");
    }
}

/// Whether `at`, seconds since midnight UTC, has come after the first of these moments and not after the second.
fn has_come(at: u32, (seen, now): (i64, i64)) -> bool {
    let since = (now - i64::from(at)).rem_euclid(DAY);
    let passed = now - seen;
    since < passed.min(LATE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_comes_once_a_day() {
        let day = 20_000 * DAY;
        for (at, seen, now, expect) in [
            (14_400, 14_399, 14_400, true),
            (14_400, 14_400, 14_401, false),
            (14_400, 14_390, 14_405, true),
            (14_400, 14_398, 14_399, false),
            (14_400, 14_400, 14_400, false),
            (0, DAY - 1, DAY, true),
            // The clock was set back, or the machine slept for an hour.
            (14_400, 14_410, 14_405, false),
            (14_400, 14_399, 18_000, false),
        ] {
            assert_eq!(
                has_come(at, (day + seen, day + now)),
                expect,
                "{at} in {seen}..={now}"
            );
        }
    }
}
