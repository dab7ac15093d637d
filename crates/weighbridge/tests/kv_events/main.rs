//! What engines tell of their prefix caches, as a process against a publisher on real sockets. The publisher speaks
//! ZeroMQ through a library that the product does not use.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

mod exact;
mod following;
mod hostile;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../shared/mod.rs"]
mod shared;
mod world;
