//! What the fuzzers check, apart from any fuzzer: one function a target, from bytes to a panic or nothing.
//!
//! The functions compare the product with small models of their own ([`json`], [`sse`], [`http1`], [`multipart`]), which are written from
//! the standards and not from the product's code, or drive it through two ways that must come to the same. The binaries of
//! `fuzz/` hand them what libFuzzer makes up; `tests/seeds.rs` hands them the seeds in every test run.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a finding is reported by its panic"
)]

pub mod body;
pub mod config;
mod edge;
pub mod form;
mod http1;
pub mod http_answer;
pub mod http_request;
mod input;
mod json;
pub mod kv_events;
mod multipart;
pub mod scheduler;
pub mod seeds;
mod sse;
pub mod stream;

/// One target: what its inputs are put to.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of its binary, and of the folder of its seeds.
    pub name: &'static str,
    /// Panics where something does not hold.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 8] = [
    Target {
        name: "stream",
        check: stream::check,
    },
    Target {
        name: "body",
        check: body::check,
    },
    Target {
        name: "form",
        check: form::check,
    },
    Target {
        name: "http_request",
        check: http_request::check,
    },
    Target {
        name: "http_answer",
        check: http_answer::check,
    },
    Target {
        name: "kv_events",
        check: kv_events::check,
    },
    Target {
        name: "config",
        check: config::check,
    },
    Target {
        name: "scheduler",
        check: scheduler::check,
    },
];
