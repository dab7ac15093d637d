//! How much memory the process holds, at marked moments.

use std::sync::Mutex;
use std::time::Duration;
use tokio::time::sleep;

/// Seconds after the start at which memory is noted: once warm, and where a longer run compares its end with.
const MARKS: [u64; 2] = [20, 120];

/// Resident bytes by second after the start.
#[derive(Default)]
pub(super) struct Memory(Mutex<Vec<(u64, u64)>>);

impl Memory {
    /// Resident bytes at the marks so far: (second, bytes).
    pub(super) fn marks(&self) -> Vec<(u64, u64)> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }
}

/// Notes the marks as they come, then waits for ever.
pub(super) async fn watch(memory: &Memory) {
    let mut passed = 0;
    for mark in MARKS {
        sleep(Duration::from_secs(mark - passed)).await;
        passed = mark;
        if let Some(bytes) = resident_bytes() {
            memory
                .0
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push((mark, bytes));
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
