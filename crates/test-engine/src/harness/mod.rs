//! Runs the real gateway binary as a process, on a configuration, and looks at it from outside.

mod config;
mod metrics;
mod process;

pub use config::ADMIN_TOKEN;
pub use metrics::Metrics;
pub use process::{Gateway, GatewayOptions, StartFailure};
pub use rustix::process::Signal;
