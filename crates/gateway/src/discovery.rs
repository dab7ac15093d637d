//! Endpoints that come and go while the gateway serves.
//!
//! A *source* is what a pool's `discovery` names: DNS or a file. Each is watched by a task of its own on the keeper's thread
//! ([`watch`]), which looks at it and delivers the set of endpoints that it names. [`Fleet`] holds the config as its file
//! says it and the newest set of every source. It alone decides what the gateway runs on, for the user's reloads as for
//! sources, so that the two never undo each other: the config, with the sets in the places of its pools' endpoints.
//!
//! A set replaces the one before it. A source that fails to answer delivers none, so nothing is lost by a failure.

mod dns;
mod file;
mod fleet;
mod status;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use fleet::{Fleet, WatchQueue};
pub use status::SourceShown;
pub(crate) use watch::run;

use std::sync::Arc;
use tokio::sync::Notify;
use weighbridge_config::discovery::Discovered;

/// Endpoints that a source names, in an order that depends on nothing but the set.
pub(crate) type Set = Arc<[Discovered]>;

/// Rung when a connection to an endpoint of a source could not be made: what the source said may have changed.
pub(crate) type Bell = Arc<Notify>;
