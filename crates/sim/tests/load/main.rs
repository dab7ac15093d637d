//! The policies that reckon with load and latency, on modelled engines.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this crate holds tests only; what they measure is shown"
)]

mod fleet;
mod forecast;
mod shares;
