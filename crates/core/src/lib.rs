//! The scheduler of Weighbridge: which endpoint serves a request, when, and what happens when that fails.
//!
//! Everything here is one deterministic state machine, [`Scheduler`]: an [`Event`] and the current [`Time`] go in,
//! [`Action`]s come out. It owns no clock, no socket and no source of randomness but a seed, so the gateway drives it
//! with real time, the simulator with virtual time, and a recorded event log replays an incident to the same actions.
//!
//! Selection and reservation of a slot are one step. Bytes of streams never pass through it.

#![deny(clippy::iter_over_hash_type)]

pub mod action;
mod budget;
mod deadlines;
mod dynamic_weight;
mod endpoint;
pub mod engine;
pub mod event;
pub mod explain;
pub mod filters;
pub mod gpus;
mod health;
pub mod ids;
pub mod lately;
pub mod policies;
pub mod pool;
pub mod prefix;
pub mod presets;
pub mod rendezvous;
pub mod replay;
mod requests;
mod rng;
mod route;
pub mod scheduler;
mod select;
pub mod signals;
pub mod spec;
pub mod time;
pub mod units;
pub mod view;
pub mod work;

pub use action::Action;
pub use event::Event;
pub use ids::{EndpointId, RequestId, RouteId};
pub use scheduler::Scheduler;
pub use time::Time;
