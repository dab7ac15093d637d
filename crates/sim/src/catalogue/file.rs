//! An engine in a JSON file, as `scripts/fit_engine.py --out` writes it.

use super::{Basis, CatalogueEngine, CatalogueError};
use crate::coefficients::Coefficients;
use crate::drive::EngineSpec;
use crate::engine::Settings;
use serde::Deserialize;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    label: String,
    #[serde(default)]
    source: String,
    settings: Sizes,
    coefficients: Coefficients,
    #[serde(default = "one")]
    gpus: u32,
    #[serde(default)]
    gpu_hour: f64,
    #[serde(default)]
    start_s: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sizes {
    block_size: u32,
    kv_blocks: u32,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    max_model_len: u32,
}

const fn one() -> u32 {
    1
}

/// The engine that `text`, the content of a JSON file, describes.
///
/// # Errors
/// [`CatalogueError::File`]: what is wrong, and where.
pub fn engine_from_json(text: &str) -> Result<CatalogueEngine, CatalogueError> {
    let file: File = serde_json::from_str(text).map_err(|e| CatalogueError::File(e.to_string()))?;
    let Sizes {
        block_size,
        kv_blocks,
        max_num_seqs,
        max_num_batched_tokens,
        max_model_len,
    } = file.settings;
    for (name, size) in [
        ("settings.block_size", block_size),
        ("settings.kv_blocks", kv_blocks),
        ("settings.max_num_seqs", max_num_seqs),
        ("settings.max_num_batched_tokens", max_num_batched_tokens),
        ("settings.max_model_len", max_model_len),
        ("gpus", file.gpus),
    ] {
        if size == 0 {
            return Err(CatalogueError::File(format!("{name} is 0; at least 1 is needed")));
        }
    }
    let others = [("gpu_hour", file.gpu_hour), ("start_s", file.start_s)];
    for (name, value) in file.coefficients.named().into_iter().chain(others) {
        if !(0.0..=1e6).contains(&value) {
            let what = format!("{name} is {value}; a number from 0 to a million is needed");
            return Err(CatalogueError::File(what));
        }
    }
    let settings = Settings {
        coefficients: file.coefficients,
        block_size,
        kv_blocks,
        max_num_seqs,
        max_num_batched_tokens,
        max_model_len,
    };
    Ok(CatalogueEngine {
        spec: EngineSpec {
            gpus: file.gpus,
            gpu_hour: file.gpu_hour,
            start: Duration::from_secs_f64(file.start_s),
            ..EngineSpec::new(file.label, settings)
        },
        basis: Basis::Measured,
        source: file.source,
    })
}
