//! Llama-3.1-8B (bf16) on one RTX PRO 6000. Written by `scripts/fit_engine.py --write`; do not edit.
//!
//! Source: casys-kaist/LLMServingSim (MIT), a run of vLLM 0.19 of 300 requests and its kernel times. Fit:
//!
//! - dense layers over 1 to 2,048 tokens, mean error: 2.9%
//! - time to first token, mean: measured 7097.2 ms, replayed 7046.5 ms (-0.7%)
//! - time per output token, mean: measured 32.5 ms, replayed 32.5 ms (-0.0%)
//! - makespan: measured 65.9 s, replayed 66.5 s (+0.8%)
//! - time from first to last token, mean error of one request: 0.5%

use super::Coefficients;

/// Coefficients of Llama-3.1-8B on one RTX PRO 6000.
pub const LLAMA_3_1_8B_RTX_PRO_6000: Coefficients = Coefficients {
    memory_s: 9.987997e-03,
    memory_per_token_s: 1.502685e-05,
    compute_s: 5.354130e-03,
    compute_per_token_s: 3.524323e-05,
    sampling_s: 7.029329e-04,
    per_sequence_s: 1.094508e-06,
    per_prefill_pair_s: 1.323739e-09,
    overhead_s: 2.832034e-03,
    prefill_s: 6.895559e-03,
    per_context_token_s: 8.789557e-08,
};
