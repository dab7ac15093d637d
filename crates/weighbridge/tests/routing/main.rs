//! Where requests go, as a process against scripted upstreams: sessions, weights, bursts, orders, engines found, replay.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "this file holds tests only"
)]

mod bursts;
mod choice;
mod event_log;
mod found;
mod heads;
mod held;
mod prefix;
mod prefixes;
mod round_robin;
mod sessions;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../shared/mod.rs"]
mod shared;
mod table;
mod unsaid;
mod weights;
mod work;
