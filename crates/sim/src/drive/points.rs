//! The state of all endpoints over time, at a spacing that grows with the run, so that memory stays bounded.

use super::slots::Slots;
use std::time::Duration;

/// Points of all endpoints together, at most.
const MOST: usize = 1 << 20;

/// Points of one endpoint, at most and at least.
const ONE: std::ops::RangeInclusive<usize> = 256..=2048;

pub(super) struct Points {
    step: Duration,
    next: Duration,
    taken: usize,
    most: usize,
}

impl Points {
    pub(super) fn new(endpoints: usize) -> Self {
        Self {
            step: Duration::from_millis(100),
            next: Duration::ZERO,
            taken: 0,
            most: (MOST / endpoints.max(1)).clamp(*ONE.start(), *ONE.end()) & !1,
        }
    }

    pub(super) fn step(&self) -> Duration {
        self.step
    }

    /// Takes down all points before `now`: the state that everything before has left.
    pub(super) fn until(&mut self, now: Duration, slots: &mut Slots) {
        while self.next < now {
            slots.point(self.taken);
            self.taken += 1;
            if self.taken == self.most {
                // Every second one stays, and from here on only every second one is taken.
                slots.thin();
                self.taken /= 2;
                self.step *= 2;
            }
            self.next = self
                .step
                .saturating_mul(u32::try_from(self.taken).unwrap_or(u32::MAX));
        }
    }
}
