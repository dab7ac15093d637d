//! Doing things at the same time, and waiting for something to become true.

use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Runs `work(0..n)` on `n` threads that start together, and gives the results in order.
pub fn par<T: Send>(n: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(n);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n)
            .map(|i| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(i)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("a parallel task panicked"))
            .collect()
    })
}

/// Polls `condition` every few milliseconds until it holds or `within` has passed; says whether it held.
///
/// Use it as `assert!(eventually(Duration::from_secs(2), || upstream.stats().in_flight == 0))`.
#[must_use]
pub fn eventually(within: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + within;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
