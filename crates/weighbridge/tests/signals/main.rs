//! What engines say of themselves, as a process against scripted upstreams: how it is read, shown, and what it does when
//! it is old or missing.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "this file holds tests only"
)]

mod freezing;
mod reading;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../shared/mod.rs"]
mod shared;
