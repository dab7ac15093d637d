//! What the bytes of the model APIs mean: paths, bodies, streams, usage and errors of the OpenAI and Anthropic dialects.
//!
//! Bytes in, values out: no sockets, no clock, no async. Nothing here panics on any input, and the cost of every call is
//! linear in its input.

mod api;
mod fields;
pub mod peek;
pub mod retry_after;

pub use api::{Api, PathError, Protocol, model_id_from_path};
pub use peek::{BodyPath, Peek, PeekError, rewrite_model};
