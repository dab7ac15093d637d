//! The one place where the gateway reads clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weighbridge_core::Time;

/// Monotonic time since the gateway's start, and the wall clock it maps to.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
    wall: SystemTime,
}

impl Clock {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
            wall: SystemTime::now(),
        }
    }

    /// Scheduler time of now.
    #[must_use]
    pub fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// Scheduler time of `instant`.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Time {
        Time::from_origin(instant.saturating_duration_since(self.origin))
    }

    /// The instant of a scheduler time.
    #[must_use]
    pub fn instant(&self, time: Time) -> Instant {
        self.origin + Duration::from_nanos(time.nanos())
    }

    /// Wall-clock time of a scheduler time, by the wall clock at the start.
    #[must_use]
    pub fn wall(&self, time: Time) -> SystemTime {
        self.wall + Duration::from_nanos(time.nanos())
    }

    /// Time since the start.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// Seconds since 1970, 0 before.
#[must_use]
pub fn unix_seconds() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_secs()).ok())
        .unwrap_or_default()
}

/// RFC 3339 with milliseconds, UTC.
#[must_use]
pub fn rfc3339(time: SystemTime) -> String {
    jiff::Timestamp::try_from(time)
        .map(|stamp| format!("{stamp:.3}"))
        .unwrap_or_default()
}
