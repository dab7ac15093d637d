//! How much memory the process holds, at marked moments.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::interval;

/// Seconds after the start at which memory is noted: once warm, and where a longer run compares its end with.
const MARKS: [u64; 2] = [20, 120];
/// Readings, one a second, of which a mark is the largest: an allocator gives back late, so single ones go up and down.
const READINGS: usize = 10;

/// Resident bytes by second after the start.
#[derive(Default)]
pub(super) struct Memory(Mutex<Vec<(u64, u64)>>);

impl Memory {
    /// Resident bytes at the marks so far: (second, bytes).
    pub(super) fn marks(&self) -> Vec<(u64, u64)> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes the marks as they come, then waits for ever.
pub(super) async fn watch(memory: &Memory) {
    let mut latest = VecDeque::with_capacity(READINGS);
    let mut ticks = interval(Duration::from_secs(1));
    for second in 0..=MARKS[MARKS.len() - 1] {
        ticks.tick().await;
        if latest.len() == READINGS {
            latest.pop_front();
        }
        latest.extend(resident_bytes());
        if let Some(largest) = latest.iter().max().filter(|_| MARKS.contains(&second)) {
            memory.lock().push((second, *largest));
        }
    }
    std::future::pending().await
}

/// Resident bytes now; none where the system does not say.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_process_holds_some_memory() {
        assert!(super::resident_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}
