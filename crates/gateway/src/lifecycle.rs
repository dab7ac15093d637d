//! Starting, serving, draining: what `/ready` says and what new requests get.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Phase of the gateway's life, and how many requests are running.
#[derive(Default)]
pub struct Lifecycle {
    phase: AtomicU8,
    running: AtomicUsize,
    cut: AtomicUsize,
    changed: Notify,
}

/// The phases, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Taking requests, ready.
    Serving,
    /// Told to stop; still taking requests for `drain_delay` while `/ready` says 503.
    Leaving,
    /// Finishing what runs; new requests get 503.
    Draining,
    /// `drain_timeout` is over: what still runs is cut.
    Cutting,
}

impl Lifecycle {
    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Serving,
            1 => Phase::Leaving,
            2 => Phase::Draining,
            _ => Phase::Cutting,
        }
    }

    /// Moves on; never back.
    pub fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Requests that are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Requests that were cut at the end of `drain_timeout`.
    #[must_use]
    pub fn cut(&self) -> usize {
        self.cut.load(Ordering::Acquire)
    }

    pub(crate) fn started(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn ended(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 && self.phase() >= Phase::Leaving {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn was_cut(&self) {
        self.cut.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns when `phase` or a later one is entered.
    pub(crate) async fn reached(&self, phase: Phase) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.phase() >= phase {
                return;
            }
            changed.await;
        }
    }

    /// Returns when nothing runs; looked for once draining has begun.
    pub async fn idle(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.running() == 0 {
                return;
            }
            changed.await;
        }
    }
}
