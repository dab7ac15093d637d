//! A model of inference engines on a virtual clock.
//!
//! Nothing here reads a clock, opens a socket or draws global random numbers: time is an argument, so one model
//! serves the simulator (virtual time) and `weighbridge engine` (real time), and a run repeats exactly.
//!
//! - [`engine`]: the [`Engine`](engine::Engine) trait and [`BatchingEngine`](engine::BatchingEngine), continuous
//!   batching over a block-wise KV cache with prefix reuse.
//! - [`coefficients`]: how long an iteration takes, fitted to a measured run.
//! - [`text`]: an approximate tokenizer with block hashes, and repeatable pseudo text.

pub mod coefficients;
pub mod drive;
pub mod engine;
pub mod outcome;
pub mod parallel;
pub mod size;
pub mod text;
pub mod workload;
