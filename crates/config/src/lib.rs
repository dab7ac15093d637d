//! From the user's file to a resolved configuration.

pub mod resolved;

pub use resolved::Config;
