//! Streams that come faster than anybody reads, taken in bites.
//!
//! A token that comes alone is passed on at once, which costs a wake of the worker, a read and a write. Where a stream
//! has been stored, or comes from something faster than a model, its events follow each other in microseconds, and
//! the worker would do nothing else but wake: a tenth of a core for each 20,000 events a second. So a worker
//! that has a stream of this kind takes a short rest before it looks at its sockets again, as network cards do with
//! interrupts (adaptive interrupt moderation), and finds several events at each of them. The rest is a tenth of a
//! millisecond and ends with the burst.

use std::cell::Cell;
use std::time::Duration;
use tokio::time::Instant;

/// An event closer than this to the one before it belongs to a burst: 4,000 a second are more than models make.
const QUICK: Duration = Duration::from_micros(250);

/// So many of them in a row make one; more than the choices that an engine usually sends in one step.
const ROW: u32 = 16;

/// What the worker rests. The system adds some 50 µs.
const REST: Duration = Duration::from_micros(100);

thread_local! {
    /// Until when this thread's worker takes its rests.
    static UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// How fast the events of one stream come.
#[derive(Default)]
pub(crate) struct Pace {
    row: u32,
}

impl Pace {
    /// Notes an event at `now`; `before`: when the one before it came.
    pub(crate) fn note(&mut self, now: Instant, before: Option<Instant>) {
        let quick = before.is_some_and(|before| now.saturating_duration_since(before) < QUICK);
        self.row = if quick { self.row.saturating_add(1) } else { 0 };
        if self.row >= ROW {
            UNTIL.set(Some(now + QUICK));
        }
    }
}

/// Called by the runtime of a worker that has nothing to do until something comes.
pub(crate) fn rest() {
    let Some(until) = UNTIL.get() else { return };
    if Instant::now() < until {
        std::thread::sleep(REST);
    } else {
        UNTIL.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes events `gap` apart; gives when the last came.
    fn events(pace: &mut Pace, start: Instant, gap: Duration, many: u32) -> Instant {
        (1..=many).fold(start, |before, _| {
            let now = before + gap;
            pace.note(now, Some(before));
            now
        })
    }

    fn rests() -> bool {
        UNTIL.get().is_some()
    }

    #[test]
    fn only_a_row_of_quick_events_is_a_burst() {
        let (start, quick) = (Instant::now(), Duration::from_micros(40));
        let mut pace = Pace::default();
        pace.note(start, None);
        let now = events(&mut pace, start, quick, ROW - 1);
        assert!(!rests(), "one event fewer than a row");
        let now = events(&mut pace, now, QUICK, 1);
        let now = events(&mut pace, now, quick, ROW - 1);
        assert!(!rests(), "a slow event begins the row anew");
        events(&mut pace, now, quick, 1);
        assert!(rests());
    }

    #[test]
    fn tokens_of_a_model_are_none() {
        let mut pace = Pace::default();
        // 2,000 tokens a second.
        events(&mut pace, Instant::now(), Duration::from_micros(500), 10_000);
        assert!(!rests());
    }

    #[test]
    fn the_rest_ends_with_the_burst() {
        let mut pace = Pace::default();
        // Its last event comes a minute from now: the worker rests whenever it is asked.
        let last = events(
            &mut pace,
            Instant::now() + Duration::from_secs(60),
            Duration::ZERO,
            ROW,
        );
        let began = Instant::now();
        rest();
        assert!(began.elapsed() >= REST);
        assert_eq!(UNTIL.get(), Some(last + QUICK));
        // And here it was a while ago.
        UNTIL.set(Instant::now().checked_sub(Duration::from_micros(1)));
        rest();
        assert!(!rests(), "nothing is left of it");
    }
}
