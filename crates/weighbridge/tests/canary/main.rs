//! SEC-1: secrets are planted wherever one can stand, and searched for in everything that comes out.
//!
//! What comes out is listed by the program itself: API calls by its OpenAPI document, metrics by `/metrics`, commands by
//! `--help`, places of secrets in the config by the schema. What is added there is covered, or fails here until it is.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

mod blind;
mod commands;
mod config;
mod forms;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../shared/mod.rs"]
mod shared;
mod sinks;
mod traffic;
