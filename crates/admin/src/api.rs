//! The handlers, one module per subject.

pub(crate) mod calibration;
pub(crate) mod config;
pub(crate) mod decisions;
pub(crate) mod endpoints;
pub(crate) mod explain;
pub(crate) mod health;
pub(crate) mod pools;
pub(crate) mod routes;
pub(crate) mod status;
