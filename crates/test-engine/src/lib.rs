//! Tools for the process tests and benchmarks of Weighbridge; never part of the product.
//!
//! * [`upstream`]: a scriptable inference server that answers like an engine and can misbehave on demand.
//! * [`fast`]: a very cheap inference server, so that a benchmark measures what stands in front of it.
//! * [`load`]: a load generator, closed loop or at a fixed rate.
//! * [`harness`]: starts the real gateway binary on a configuration, reads its log and metrics, stops it.
//! * [`kv`]: an engine's prefix cache and the publisher of its events.
//! * [`dns`]: a name server that says what a test wants.
//! * [`client`]: a small blocking HTTP client that sees arrival times and how a body ended.
//!
//! * [`certificates`]: authorities and certificates, made when a test needs them.
//!
//! HTTP/1.1 is spoken with its own code. That is on purpose: a library that keeps to the protocol cannot break it, and
//! a test of the gateway through the gateway's own HTTP library shares its mistakes. HTTP/2 is spoken through the `h2`
//! crate, which lets a client do most of what is to be tested, and with bare frames where it does not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test tool: a broken assumption ends the test with a message, and the binary talks on its streams"
)]

pub mod certificates;
pub mod client;
pub mod clock;
pub mod dns;
pub mod fast;
pub mod harness;
pub mod http1;
mod json;
pub mod kv;
pub mod load;
mod parallel;
pub mod upstream;
pub mod url;

pub use dns::DnsServer;
pub use parallel::{eventually, par};
pub use upstream::Upstream;
