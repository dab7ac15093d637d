//! The clocks of a relay.

use super::attempt::Deadlines;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use weighbridge_config::resolved::Timeouts;
use weighbridge_wire::Timeout;

/// What a clock rang for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ring {
    /// This clock ran out.
    Over(Timeout),
    /// The client has heard nothing for as long as it may.
    Beat,
}

/// One timer, set to whichever is next, moved lazily.
pub(super) struct Clocks {
    timer: Pin<Box<Sleep>>,
    /// Newest event that is not a comment.
    pub(super) progress: Option<Instant>,
    /// The client heard something at this time that is no progress: a comment, a sign of life, the start.
    pub(super) heard: Instant,
    /// Longest silence towards the client.
    beat: Option<Duration>,
    first: (Instant, Timeout),
    idle: Duration,
    whole: Option<Instant>,
}

impl Clocks {
    /// Those of a relay that begins at `now`; `streams`: of events, with the time between signs of life.
    pub(super) fn new(
        deadlines: Deadlines,
        timeouts: Timeouts,
        (streams, beat): (bool, Option<Duration>),
        now: Instant,
    ) -> Self {
        Self {
            timer: Box::pin(tokio::time::sleep_until(deadlines.first)),
            progress: None,
            heard: now,
            beat: beat.filter(|_| streams),
            first: (deadlines.first, deadlines.first_name),
            idle: timeouts.idle,
            whole: timeouts
                .stream_total
                .filter(|_| streams)
                .map(|total| deadlines.began + total),
        }
    }

    /// When the whole stream must be over.
    pub(super) fn whole(&self) -> Option<Instant> {
        self.whole
    }

    fn due(&self) -> (Instant, Timeout) {
        let next = match self.progress {
            Some(at) => (at + self.idle, Timeout::Idle),
            None => self.first,
        };
        match self.whole {
            Some(whole) if whole < next.0 => (whole, Timeout::StreamTotal),
            _ => next,
        }
    }

    fn beat_due(&self) -> Option<Instant> {
        let heard = self.progress.map_or(self.heard, |at| at.max(self.heard));
        self.beat.and_then(|beat| heard.checked_add(beat))
    }

    fn next(&self) -> Instant {
        let (due, _) = self.due();
        self.beat_due().map_or(due, |beat| beat.min(due))
    }

    /// Which clock has run out, without asking the timer: one of a task that is busy does not ring.
    pub(super) fn over(&self) -> Option<Timeout> {
        let (at, which) = self.due();
        (Instant::now() >= at).then_some(which)
    }

    /// Which clock rings, if one does.
    pub(super) fn poll_ring(&mut self, cx: &mut Context<'_>) -> Poll<Ring> {
        // A deadline that moved closer than the timer is only that of the first progress after a long wait.
        let next = self.next();
        if next < self.timer.deadline() {
            self.timer.as_mut().reset(next);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = Instant::now();
            let (at, which) = self.due();
            if now >= at {
                return Poll::Ready(Ring::Over(which));
            }
            let beats = self.beat_due().is_some_and(|beat| now >= beat);
            if beats {
                self.heard = now;
            }
            let next = self.next();
            self.timer.as_mut().reset(next);
            if beats {
                return Poll::Ready(Ring::Beat);
            }
        }
        Poll::Pending
    }
}
