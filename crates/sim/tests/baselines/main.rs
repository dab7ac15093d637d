//! The field's routing algorithms, written from their descriptions, as yardsticks for the simulator.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this crate holds tests only"
)]

mod aibrix;
mod choose;
mod conversation;
mod dlpm;
mod dynamo;
mod field;
mod fleet;
mod hit_ratios;
mod hot_spot;
mod latency;
mod llm_d;
mod lmetric;
mod plain;
mod preble;
mod prefixes;
mod queue;
mod sglang;
mod skylb;
mod smg;
mod stage;
mod table;
mod thirty_seven;
mod vtc;
