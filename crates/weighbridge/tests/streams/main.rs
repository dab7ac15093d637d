//! The life of a request through the real binary: streams, how they end, who leaves, what is counted.
//!
//! Named after the cases learned from public bug reports.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken assumption ends the test with a message"
)]

mod bytes;
mod clocks;
mod counts;
mod finishing;
mod first_event;
mod framing;
mod heartbeat;
mod leaving;
mod outcomes;
mod pacing;
mod shutdown;
mod support;
mod turns;
mod upstream_dies;
mod usage;
