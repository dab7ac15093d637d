//! Following what engines tell of their prefix caches.
//!
//! Each endpoint with `kv_events` has a task on a thread of their own ([`watch`]): it listens for its engine, or connects
//! to it ([`source`]), hands every message to a [`Follower`], asks the engine's replay socket where the follower misses
//! something ([`replay`]), and tells the scheduler what changed. A publisher that is faster than this waits in its own
//! queue and then in the kernel's; traffic never waits for any of it. What decides is in `wire::kv_events`, which has
//! neither sockets nor clocks.
//!
//! [`Follower`]: weighbridge_wire::kv_events::Follower

mod link;
mod replay;
mod source;
mod status;
mod subscriber;
mod watch;

pub(crate) use status::Board;
pub use status::KvShown;
pub(crate) use watch::run;
