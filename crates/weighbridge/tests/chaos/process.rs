//! What a process holds.

use std::fs;
use std::time::{Duration, Instant};

/// Memory and files of a process at rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Resident memory, bytes.
    memory: u64,
    /// Open files, sockets among them.
    files: usize,
}

/// Looks until the process holds no more than a moment ago, at most for `within`.
pub(crate) fn held(pid: u32, within: Duration) -> Held {
    let deadline = Instant::now() + within;
    let mut least = now(pid);
    let mut since = Instant::now();
    // Idle connections and freed memory are given back within seconds.
    while Instant::now() < deadline && since.elapsed() < Duration::from_secs(6) {
        std::thread::sleep(Duration::from_millis(200));
        let seen = now(pid);
        if seen.files < least.files || seen.memory + (1 << 20) < least.memory {
            since = Instant::now();
            least = seen;
        }
    }
    least
}

fn now(pid: u32) -> Held {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes: u64 = resident
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .expect("its memory");
    Held {
        memory: kilobytes * 1024,
        files: fs::read_dir(format!("/proc/{pid}/fd"))
            .expect("its files")
            .count(),
    }
}

/// Checks that `after` is no more than `before`, but for what a process keeps in use for good.
pub(crate) fn compare(before: &Held, after: &Held) {
    println!("chaos: held before {before:?}, after {after:?}");
    assert!(
        after.files <= before.files + 4,
        "files are left open: {before:?}, {after:?}"
    );
    let most = before.memory + before.memory / 2 + (24 << 20);
    assert!(after.memory <= most, "memory is kept: {before:?}, {after:?}");
}
