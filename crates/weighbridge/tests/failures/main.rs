//! What the gateway does when engines, clients and configs fail, as a process against scripted upstreams.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "this file holds tests only"
)]

mod addresses;
mod all_down;
mod breaker;
mod client_keys;
mod coding;
mod cooling;
mod errors;
mod fallback;
mod hanging;
mod redirects;
mod reload;
mod request_ids;
mod retry;
mod reuse;
mod secrets;
#[allow(dead_code, reason = "each area uses its own part")]
#[path = "../shared/mod.rs"]
mod shared;
mod upstream_keys;
