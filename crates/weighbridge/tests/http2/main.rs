//! The same cases over every way that a client can take to the gateway (HTTP/1.1 and HTTP/2, plain and under TLS) and that
//! the gateway can take to its engine; and what is HTTP/2's and TLS's own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken assumption ends the test with a message"
)]

mod clocks;
mod cut;
mod door;
mod flow;
mod frames;
mod leaving;
mod limits;
mod messages;
mod retry;
mod shutdown;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../streams/support.rs"]
mod support;
mod tls;
