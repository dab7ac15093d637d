//! Fixed times at which requests are due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// The schedule of an open loop. A thread of its own releases requests when they are due, because the runtime's
/// timer has a resolution of a millisecond only and the system's sleep one of some tens of microseconds.
pub(super) struct Pace {
    start: Instant,
    interval: Duration,
    released: Semaphore,
    taken: AtomicU64,
    total: u64,
}

impl Pace {
    pub(super) fn start(rate: f64, start: Instant, end: Instant) -> Arc<Pace> {
        let interval = Duration::from_secs_f64(1.0 / rate);
        let total = ((end - start).as_secs_f64() * rate).ceil() as u64;
        let (released, taken) = (Semaphore::new(0), AtomicU64::new(0));
        let pace = Arc::new(Pace {
            start,
            interval,
            released,
            taken,
            total,
        });
        let weak = Arc::downgrade(&pace);
        std::thread::spawn(move || release(&weak, start, interval, total));
        pace
    }

    /// Waits for the next request to be due and gives the time it is due; `None` at the end of the schedule.
    pub(super) async fn next(&self) -> Option<Instant> {
        self.released.acquire().await.ok()?.forget();
        let n = self.taken.fetch_add(1, Ordering::Relaxed);
        (n < self.total).then(|| self.start + self.interval.mul_f64(n as f64))
    }

    /// Requests that were due and that no connection was free to send.
    pub(super) fn unsent(&self) -> u64 {
        self.total.saturating_sub(self.taken.load(Ordering::Relaxed))
    }
}

fn release(pace: &Weak<Pace>, start: Instant, interval: Duration, total: u64) {
    // The default slack of 50 µs would be part of every latency.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
    let mut released = 0;
    while released < total {
        let next = start + interval.mul_f64(released as f64);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let Some(pace) = pace.upgrade() else { return };
        let due = (start.elapsed().as_secs_f64() / interval.as_secs_f64()) as u64 + 1;
        let due = due.min(total).max(released + 1);
        pace.released
            .add_permits(usize::try_from(due - released).unwrap_or(1));
        released = due;
    }
    if let Some(pace) = pace.upgrade() {
        // Whoever still waits finds the schedule at its end.
        pace.released.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}
