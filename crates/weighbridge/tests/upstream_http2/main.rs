//! HTTP/2 and TLS towards engines: the cases that are about both ends of a request, whatever the engine speaks, and what
//! only HTTP/2 knows.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken assumption ends the test with a message"
)]

mod cases;
mod engine;
mod going_away;
mod sharing;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../streams/support.rs"]
mod support;
mod tls;
