//! The data plane: it listens, asks the scheduler, relays, and tells the scheduler how it went.
//!
//! One thread per core runs a current-thread runtime with its own upstream connections; nothing on the path of a
//! request moves between threads. All threads share one [`Gateway`]: the scheduler behind a short lock, the current
//! [`snapshot::Snapshot`] of the config, and the telemetry.

pub mod admin_view;
mod burst;
pub mod calibrate;
mod client;
pub mod clock;
pub mod discovery;
pub mod driver;
pub mod exchange;
pub mod gateway;
pub mod kv_events;
mod leaving;
pub mod lifecycle;
pub mod limits;
pub mod local;
mod memory;
mod probes;
pub mod reload;
mod rounded;
mod scrape;
mod secrets;
pub mod server;
pub mod service;
mod settling;
pub mod snapshot;
pub mod telemetry;
pub mod tokens;
mod upstream;

pub use gateway::Gateway;
