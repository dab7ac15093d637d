//! Endpoints that come and go by DNS and by file, as a process against a scripted name server and scripted upstreams.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

mod churn;
mod circles;
mod dns;
mod file;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../shared/mod.rs"]
mod shared;
mod world;
