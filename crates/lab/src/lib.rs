//! The policy lab: which policies do best on which work, and by how much; from that come the presets and their defaults.
//!
//! It is a tool of development, `cargo xtask lab`, and no part of the product. [`yardsticks`] holds the field's routing
//! algorithms with the grids over which they are tuned, [`rules`] what the product can do, [`workloads`] what they are tried on,
//! [`trial`] runs one of either. [`contest`] runs them all, [`tuning`] says which settings of a yardstick count, [`gates`] what
//! `auto` must reach, [`floor`] what no rule can beat and [`yardsticks::clairvoyant`] what knowing everything brings, [`capacity`] and [`sweep`] vary the load, [`sensitivity`] the settings,
//! [`candidates`] tries policies of one's own. [`evidence`] is all of that, as
//! tables and plots of the documents.

pub mod candidates;
pub mod capacity;
pub mod contest;
pub mod evidence;
pub mod floor;
pub mod gates;
mod numbers;
pub mod rules;
pub mod sensitivity;
pub mod sweep;
pub mod trial;
pub mod tuning;
pub mod workloads;
pub mod yardsticks;
