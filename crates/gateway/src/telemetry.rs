//! What operators see of each request: one record, from which its log line and its metrics are made.

pub mod balance;
pub mod decisions;
pub(crate) mod fleet;
pub(crate) mod kv_events;
pub mod log;
pub mod metrics;
pub mod outcome;
pub mod record;
pub mod signals;
pub mod slowest;
pub(crate) mod trace;

pub use outcome::Outcome;
