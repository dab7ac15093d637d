//! The lab in little: short cases under the product and the yardsticks as they ship, and what the documents say of the long ones.
//!
//! `cargo xtask lab` is the whole of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this crate holds tests only"
)]

mod documents;
mod floor;
mod quick;
