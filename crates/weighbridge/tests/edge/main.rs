//! What stands at the edge of the data plane: web pages, traces, probes, bounds, and what operators are told.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

mod cors;
mod memory;
mod messages;
mod probes;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../shared/mod.rs"]
mod shared;
mod traces;
mod warnings;
