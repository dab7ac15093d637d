//! What is known of an endpoint's health: one small state machine per row of the state table, each with its own
//! clock-free arithmetic. [`crate::endpoint::Endpoint`] puts them together.

pub(crate) mod breaker;
pub(crate) mod cooling;
pub(crate) mod ejection;
pub(crate) mod probes;
pub(crate) mod ramp;
pub(crate) mod verdict;
pub(crate) mod window;
