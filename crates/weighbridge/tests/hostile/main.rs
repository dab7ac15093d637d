//! Hostile input through the real binary, by raw sockets: from clients, and from engines. What HTTP's codec decides is pinned
//! here too, so that another version of it cannot change it unseen.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a broken assumption ends the test with a message"
)]

mod bodies;
mod connections;
mod engines;
mod heads;
mod smuggling;
mod support;
