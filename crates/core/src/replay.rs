//! Replays a recorded event log and finds the first step that comes out differently.

use crate::action::Action;
use crate::event::Event;
use crate::scheduler::Scheduler;
use crate::time::Time;

/// The first step whose actions were not the recorded ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// Its place in the log, from 0.
    pub step: usize,
    /// Its time.
    pub time: Time,
    /// What the log says.
    pub recorded: Vec<Action>,
    /// What came out.
    pub replayed: Vec<Action>,
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nanos = self.time.nanos();
        write!(f, "step {} at {nanos} ns came out differently: ", self.step)?;
        write!(f, "recorded {:?}, replayed {:?}", self.recorded, self.replayed)
    }
}

impl std::error::Error for Divergence {}

/// Steps a fresh scheduler with `seed` through the log, each entry an event, its time and the actions it had.
///
/// # Errors
/// The first step that differs.
pub fn replay(log: impl Iterator<Item = (Time, Event, Vec<Action>)>, seed: u64) -> Result<(), Divergence> {
    let mut scheduler = Scheduler::new(seed);
    for (step, (time, event, recorded)) in log.enumerate() {
        let mut replayed = Vec::new();
        scheduler.step(time, event, &mut replayed);
        if replayed != recorded {
            return Err(Divergence {
                step,
                time,
                recorded,
                replayed,
            });
        }
    }
    Ok(())
}
