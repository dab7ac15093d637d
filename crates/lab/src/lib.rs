//! The policy lab: which policies do best on which work, and by how much; from that come the presets and their defaults.
//!
//! It is a tool of development, `cargo xtask lab`, and no part of the product. [`yardsticks`] holds the field's routing
//! algorithms with the grids over which they are tuned, [`workloads`] what they are tried on, [`trial`] runs one of either.

pub mod trial;
pub mod workloads;
pub mod yardsticks;
