//! What vLLM and SGLang publish of their prefix caches: which blocks an engine stored, removed and cleared.
//!
//! A publisher numbers its batches from 0 and keeps the newest ones for those who missed some. [`Batch`] is one batch
//! decoded; [`Sequence`] brings batches into order, says what to ask for again, and notices that a publisher began anew;
//! [`Blocks`] gives each block the name that a request's tokens give it ([`chain`]); [`Follower`] is the three together,
//! from bytes to [`Change`]s of what an engine holds. None of them has a socket or a clock.
//!
//! What holds: an index that applies the changes never believes a block cached that the engine, as far as its events
//! say, has removed. In doubt a view is cleared, and the doubt is counted.

mod batch;
mod blocks;
pub mod chain;
mod follower;
mod pack;
mod sequence;

pub use batch::{Batch, BatchError, Event, Stored};
pub use blocks::{Blocks, Change, Placed};
pub use follower::{Ask, Fault, Follower, FollowerCounts};
pub use sequence::{Numbered, Reset, Sequence, Step};
