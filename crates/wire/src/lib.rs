//! What the bytes of the model APIs mean: paths, bodies, streams, usage and errors of the OpenAI and
//! Anthropic dialects.
//!
//! Bytes in, values out: no sockets, no clock, no async. Nothing here panics on any input, and the cost of
//! every call is linear in its input.

mod api;
pub mod error;
mod estimate;
mod fields;
pub mod form;
pub mod kv_events;
pub mod metrics;
pub mod models;
mod observe;
pub mod peek;
pub mod prompt;
mod repeat;
pub mod retry_after;
mod said;
pub mod sse;
mod too_long;
mod unasked;
mod usage;
pub mod zmtp;

pub use api::{Api, PathError, Protocol, model_id_from_path, response_id_from_path};
pub use error::{ErrorBody, KeyFault, Timeout, client_status, passes_untouched, upstream_error};
pub use estimate::{TextTokens, estimated_usage};
pub use observe::{Counted, Fed, StreamObserver, body_id};
pub use peek::{BodyPath, Peek, PeekError, rewrite, rewrite_model};
pub use prompt::prompt_tokens;
pub use said::{InBandError, body_error};
pub use too_long::is_too_long;
pub use unasked::UnaskedUsage;
pub use usage::{Usage, body_usage, end_usage};
