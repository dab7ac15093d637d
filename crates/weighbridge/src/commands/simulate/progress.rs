//! How far the runs are, on standard error where that is a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Between two drawings.
const REDRAW: Duration = Duration::from_millis(100);

/// A bar over all runs of one stage.
pub(super) struct Progress {
    shown: bool,
    what: String,
    done: AtomicU64,
    total: u64,
    began: Instant,
    drawn: Mutex<Option<Instant>>,
}

impl Progress {
    /// For `total` requests of all runs together.
    pub(super) fn new(what: &str, total: u64, quiet: bool) -> Self {
        Self {
            shown: !quiet && std::io::stderr().is_terminal(),
            what: what.to_owned(),
            done: AtomicU64::new(0),
            total,
            began: Instant::now(),
            drawn: Mutex::new(None),
        }
    }

    /// Some more requests have ended.
    pub(super) fn add(&self, requests: u64) {
        let done = self.done.fetch_add(requests, Ordering::Relaxed) + requests;
        if !self.shown {
            return;
        }
        // Another thread that draws draws for this one too.
        let Ok(mut drawn) = self.drawn.try_lock() else {
            return;
        };
        if drawn.is_none_or(|at| at.elapsed() >= REDRAW) {
            *drawn = Some(Instant::now());
            let text = line(&self.what, (done, self.total), self.began.elapsed());
            let _ = write!(std::io::stderr(), "\r{text}\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(what: &str, (done, total): (u64, u64), passed: Duration) -> String {
    const WIDTH: u64 = 30;
    let done = done.min(total);
    let filled = (done * WIDTH).checked_div(total).unwrap_or(0);
    let bar: String = (0..WIDTH).map(|at| if at < filled { '█' } else { '░' }).collect();
    let percent = (done * 100).checked_div(total).unwrap_or(0);
    let left = match done {
        0 => String::new(),
        _ => format!(
            ", {:.0} s left",
            passed.as_secs_f64() * (total - done) as f64 / done as f64
        ),
    };
    format!("{what} {bar} {percent:>3} %{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fills_and_never_overflows() {
        let half = line("x", (50, 100), Duration::from_secs(4));
        assert_eq!(half.matches('█').count(), 15);
        assert!(half.ends_with(" 50 %, 4 s left"), "{half}");
        assert!(line("x", (500, 100), Duration::ZERO).contains("100 %"));
        assert!(line("x", (0, 0), Duration::ZERO).contains("  0 %"));
    }
}
