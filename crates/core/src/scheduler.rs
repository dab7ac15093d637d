//! The state machine.

use crate::action::Action;
use crate::event::{Arrival, Event};
use crate::explain::Explanation;
use crate::time::Time;
use crate::view::FleetView;

/// Routes, endpoints and requests in flight, and the rules that move them.
pub struct Scheduler {
    seed: u64,
}

impl Scheduler {
    /// An empty fleet; `seed` is the only source of randomness.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Takes note of `event` at `now` and appends what is to be done to `actions`. Times must not run backwards; one
    /// that does is taken as the latest seen.
    pub fn step(&mut self, now: Time, event: Event, actions: &mut Vec<Action>) {
        let _ = (now, event, actions, self.seed);
    }

    /// When to send [`Event::Tick`] next; none: not until another event.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// The whole state, for people and metrics.
    #[must_use]
    pub fn view(&self, now: Time) -> FleetView {
        FleetView {
            now,
            endpoints: Vec::new(),
            routes: Vec::new(),
        }
    }

    /// What would be decided for this request now, candidate by candidate; changes nothing. None: no such route.
    #[must_use]
    pub fn explain(&self, now: Time, arrival: &Arrival) -> Option<Explanation> {
        let _ = (now, arrival);
        None
    }
}
