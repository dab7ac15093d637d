//! The paths of the data plane beside chats: each routed by its model, with bodies that are no JSON, answers that are no
//! JSON, and responses that are asked for by their ids.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

mod form;
mod passthrough;
mod paths;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../shared/mod.rs"]
mod shared;
mod stored;
mod streams;
mod uploads;
