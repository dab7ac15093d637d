//! The field's routing algorithms, written from their descriptions, as yardsticks: on fleets of modelled engines.
//!
//! Each says in its file where its rule comes from and works it out by hand on examples. What each reproduces besides:
//!
//! | yardstick | figure, published or measured | here |
//! |---|---|---|
//! | random | hit ratio .074 and .072 on 4 and 8 caches; the fullest of n bins (Poisson) | .077 and .075; within .4 of a ball |
//! | prefix, naive and under a guard (no product) | load factor 4 and 8; hit ratio .176 and .256 | the same; .175 and .256 |
//! | power of two | fullest bin about ln ln n / ln 2 | 2.0 to 3.1 balls for 256 |
//! | round robin, least in-flight | none; the latter fills bins evenly | 1 ball each |
//! | SGLang 0.3 cache-aware | hot spot 4.0 and 2.6 (16 and 128 clients) | 4.00 and 2.44 |
//! | SMG 1.13 cache-aware | hot spot 1.11 and 1.04 | 1.13 and 1.13 |
//! | llm-d load only, approximate, precise | experiment 37: 3,018, 5,096 and 5,650 tokens/s, random 2,895 | 2,928, 5,601, 5,652 and 2,799 |
//! | llm-d 0.10, sticky | none with its engines | rule by hand: sticks until too far behind, then the fewest tokens |
//! | LMetric | mean time to first token −52 % against a tuned linear scorer | −48 % against llm-d's default on Mooncake |
//! | VTC | two clients with work waiting differ by at most 2 · max(prompt, 2 · batch) | holds; first come, first served does not |
//! | DLPM | the same and 2 quanta; more hits than counters | holds; the longest match alone does not |
//! | D²LPM | none for one engine's choice; a deficit moves work away from its prefix | by hand |
//! | Dynamo, Preble, AIBrix, SkyLB, latency of two, peak EWMA | none on hardware that is modelled here | rules by hand, among them softmax shares, exploitation from half on, mean + σ, nothing pushed behind what is pending, peaks that fade |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "this crate holds tests only"
)]

mod conversation;
mod dlpm;
mod field;
mod fleet;
mod gates;
mod hit_ratios;
mod hot_spot;
mod queue;
mod table;
mod thirty_seven;
mod vtc;
