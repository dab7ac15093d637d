//! The loop over scheduler and engines: nothing is lost, whatever happens, and a run repeats exactly.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this crate holds tests only"
)]

mod faults;
mod fleet;
mod order;
mod replicas;
mod signals;
mod told;
mod yardsticks;
