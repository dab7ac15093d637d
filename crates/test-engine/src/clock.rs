//! One monotonic clock for the whole process, in seconds since it was first read, so that times of an
//! upstream's log and of a client can be compared and printed.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Seconds from the start of the clock to now.
pub fn now() -> f64 {
    seconds(Instant::now())
}

/// Seconds from the start of the clock to `at`; an instant before the start is 0.
pub fn seconds(at: Instant) -> f64 {
    at.saturating_duration_since(*START).as_secs_f64()
}

/// The instant that lies `seconds` after the start of the clock.
pub fn instant(seconds: f64) -> Instant {
    *START + Duration::from_secs_f64(seconds.max(0.0))
}
