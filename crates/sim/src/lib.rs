//! A model of inference engines on a virtual clock.
//!
//! Nothing here reads a clock, opens a socket or draws global random numbers: time is an argument, so one model
//! serves the simulator (virtual time) and `weighbridge engine` (real time), and a run repeats exactly.
//!
//! - [`engine`]: the [`Engine`](engine::Engine) trait and [`BatchingEngine`](engine::BatchingEngine), continuous
//!   batching over a block-wise KV cache with prefix reuse.
//! - [`coefficients`]: how long an iteration takes.
//! - [`catalogue`]: engines by name, `llama-3.1-8b@h100x2`: measured, or extrapolated and marked so.
//! - [`workload`]: requests from traces and generators.
//! - [`cache`]: a prefix cache without an engine, to compare hit ratios.
//! - [`text`]: an approximate tokenizer with block hashes, and repeatable pseudo text.

pub mod cache;
pub mod catalogue;
pub mod coefficients;
pub mod drive;
pub mod engine;
pub mod outcome;
pub mod parallel;
pub mod size;
pub mod text;
pub mod workload;
