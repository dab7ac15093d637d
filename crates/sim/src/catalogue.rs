//! Engines by name: a model on one or more GPUs, `llama-3.1-8b@h100x2`.
//!
//! Where a measured run of this model, GPU and split is at hand, its fit counts ([`Basis::Measured`]). Otherwise a
//! roofline over facts of model and GPU, with the efficiencies of a measured run, stands in
//! ([`Basis::Extrapolated`]). `scripts/fit_engine.py --write` makes `catalogue/fits.json`.

mod facts;
mod file;
mod roofline;

pub use facts::{Gpu, Model, gpus, models};
pub use file::engine_from_json;
pub use roofline::{Efficiency, coefficients};

use crate::coefficients::Coefficients;
use crate::drive::EngineSpec;
use crate::engine::Settings;
use serde::Deserialize;
use std::time::Duration;

/// An engine of the catalogue, or of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueEngine {
    /// What the simulator needs.
    pub spec: EngineSpec,
    /// What its speed rests on.
    pub basis: Basis,
    /// In words: the measurement, or what was extrapolated from.
    pub source: String,
}

/// What an engine's speed rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A measurement of this model on this GPU with this split.
    Measured,
    /// A roofline over facts of model and GPU, with the efficiencies of another measurement.
    Extrapolated,
}

/// Why there is no such engine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// Not of the form MODEL@GPU or MODEL@GPUxN.
    #[error(
        "engine {0:?}: write MODEL@GPU or MODEL@GPUxN, such as llama-3.1-8b@h100x2, or the path of a .json file"
    )]
    Form(String),
    /// No such model or GPU.
    #[error("no {kind} {name:?}{}; known are {known}", nearest.as_ref().map(|n| format!(", did you mean {n:?}?")).unwrap_or_default())]
    Unknown {
        /// `model` or `GPU`.
        kind: &'static str,
        /// As asked for.
        name: String,
        /// The known name most like it.
        nearest: Option<String>,
        /// All known names.
        known: String,
    },
    /// Weights and a minimum of cache need more memory.
    #[error("{model} needs {needed_gb} GB and {gpus} × {gpu} leave {present_gb} GB for it{hint}")]
    TooLarge {
        /// The model.
        model: String,
        /// The GPU.
        gpu: String,
        /// How many.
        gpus: u32,
        /// Weights and a tenth of cache.
        needed_gb: u64,
        /// What is left of the memory that vLLM takes.
        present_gb: u64,
        /// What would do.
        hint: String,
    },
    /// Attention heads cannot be dealt out to so many GPUs.
    #[error("{model} has {heads} attention heads and cannot be split over {gpus} GPUs; use 1, 2, 4 or 8")]
    Split {
        /// The model.
        model: String,
        /// Its heads.
        heads: u32,
        /// GPUs asked for.
        gpus: u32,
    },
    /// A file of coefficients is wrong.
    #[error("engine file: {0}")]
    File(String),
    /// A table of the catalogue is broken: a bug of ours.
    #[error("the built-in catalogue is broken: {0}")]
    BuiltIn(String),
}

/// A measured engine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {
    /// Its model.
    pub model: String,
    /// Its GPU.
    pub gpu: String,
    /// How many of them.
    pub gpus: u32,
    /// Who measured what.
    pub source: String,
    /// What other engines may be extrapolated from; none where the measurement is too old or too coarse.
    pub efficiency: Option<Efficiency>,
    /// The fit itself.
    pub coefficients: Coefficients,
    /// Its errors, in words.
    pub errors: Vec<String>,
}

/// All fits, the best first.
///
/// # Errors
/// [`CatalogueError::BuiltIn`], a bug of ours.
pub fn fits() -> Result<Vec<Fit>, CatalogueError> {
    facts::table("fits.json", include_str!("catalogue/fits.json"))
}

/// Share of the GPU's memory that vLLM takes by default.
const MEMORY_SHARE: f64 = 0.9;
/// What a process takes of a GPU besides weights, cache and activations: context, graphs, communication. Bytes.
const PROCESS: f64 = 2e9;
/// Activations at their peak, in hidden states of the largest batch.
const HIDDEN_STATES: f64 = 12.0;
const BLOCK_SIZE: u32 = 16;
/// Process start, compilation and capture of graphs, and the rate at which weights come from a disk.
const START_S: f64 = 45.0;
const LOAD_PER_S: f64 = 2e9;

/// The engine with this name: `MODEL@GPU` or `MODEL@GPUxN`. A publisher before the model and `-instruct` behind it do
/// not matter, nor do capitals.
///
/// # Errors
/// Unknown names, with the known ones and the nearest; a model that does not fit.
pub fn engine(name: &str) -> Result<CatalogueEngine, CatalogueError> {
    let known = self::gpus()?;
    let (model, gpu, gpus) = parse(name, &known).ok_or_else(|| CatalogueError::Form(name.to_owned()))?;
    let model = find("model", &model, models()?, |m| vec![m.name.clone()])?;
    let gpu = find("GPU", &gpu, known, Gpu::names)?;
    if gpus == 0 || !model.heads.is_multiple_of(gpus) {
        return Err(CatalogueError::Split {
            model: model.name,
            heads: model.heads,
            gpus,
        });
    }
    let kv_tokens = kv_tokens(&model, &gpu, gpus)?;
    let (coefficients, basis, source) = speed(&model, &gpu, gpus)?;
    let settings = Settings {
        coefficients,
        block_size: BLOCK_SIZE,
        kv_blocks: (kv_tokens / f64::from(BLOCK_SIZE)) as u32,
        max_num_seqs: if gpu.large_batches { 1024 } else { 256 },
        max_num_batched_tokens: batched_tokens(&gpu),
        max_model_len: model.context.min(kv_tokens as u32),
    };
    let label = if gpus == 1 {
        format!("{}@{}", model.name, gpu.name)
    } else {
        format!("{}@{}x{gpus}", model.name, gpu.name)
    };
    Ok(CatalogueEngine {
        spec: EngineSpec {
            gpus,
            gpu_hour: gpu.gpu_hour,
            start: Duration::from_secs_f64(START_S + model.bytes() / LOAD_PER_S),
            ..EngineSpec::new(label, settings)
        },
        basis,
        source,
    })
}

/// Model, GPU and number of GPUs. An `x` with digits behind it may be part of a GPU's name.
fn parse(name: &str, known: &[Gpu]) -> Option<(String, String, u32)> {
    let name = name.trim().to_ascii_lowercase();
    let (model, gpu) = name.split_once('@')?;
    let model = model.rsplit('/').next()?;
    let model = model.strip_prefix("meta-").unwrap_or(model);
    let model = ["-instruct", "-chat", "-it"]
        .iter()
        .fold(model, |m, end| m.strip_suffix(end).unwrap_or(m));
    let (gpu, gpus) = match gpu.rsplit_once('x') {
        Some((gpu, count))
            if !known
                .iter()
                .any(|known| known.has_name(&format!("{gpu}x{count}")))
                && !gpu.is_empty()
                && !count.is_empty()
                && count.bytes().all(|b| b.is_ascii_digit()) =>
        {
            (gpu.trim_end_matches('-'), count.parse().ok()?)
        }
        _ => (gpu, 1),
    };
    (!model.is_empty() && !gpu.is_empty()).then(|| (model.to_owned(), gpu.to_owned(), gpus))
}

fn find<T>(
    kind: &'static str,
    name: &str,
    rows: Vec<T>,
    names: impl Fn(&T) -> Vec<String>,
) -> Result<T, CatalogueError> {
    let all: Vec<_> = rows.iter().flat_map(&names).collect();
    let main: Vec<_> = rows
        .iter()
        .filter_map(|row| names(row).into_iter().next())
        .collect();
    rows.into_iter()
        .find(|row| names(row).iter().any(|n| facts::same_name(n, name)))
        .ok_or_else(|| {
            let closeness = |known: &&String| strsim::normalized_levenshtein(known, name);
            let nearest = all.iter().max_by(|a, b| closeness(a).total_cmp(&closeness(b)));
            CatalogueError::Unknown {
                kind,
                name: name.to_owned(),
                nearest: nearest.filter(|known| closeness(known) > 0.4).cloned(),
                known: main.join(", "),
            }
        })
}

fn batched_tokens(gpu: &Gpu) -> u32 {
    if gpu.large_batches { 8192 } else { 2048 }
}

/// Bytes of memory for weights and cache: vLLM's share less the process and the activations of the largest batch.
fn usable(model: &Model, gpu: &Gpu, gpus: u32) -> f64 {
    let activations = f64::from(batched_tokens(gpu)) * f64::from(model.hidden) * facts::BYTES * HIDDEN_STATES;
    f64::from(gpus) * (MEMORY_SHARE * gpu.memory() - PROCESS - activations)
}

/// Tokens that the cache holds, as vLLM finds them when it starts.
fn kv_tokens(model: &Model, gpu: &Gpu, gpus: u32) -> Result<f64, CatalogueError> {
    let fits = |gpus| usable(model, gpu, gpus) >= 1.1 * model.bytes();
    if !fits(gpus) {
        let enough = [2, 4, 8, 16]
            .into_iter()
            .find(|n| *n > gpus && model.heads.is_multiple_of(*n) && fits(*n));
        return Err(CatalogueError::TooLarge {
            model: model.name.clone(),
            gpu: gpu.name.clone(),
            gpus,
            needed_gb: (1.1 * model.bytes() / 1e9).ceil() as u64,
            present_gb: (usable(model, gpu, gpus).max(0.0) / 1e9) as u64,
            hint: enough.map_or_else(String::new, |n| format!("; {}@{}x{n} fits", model.name, gpu.name)),
        });
    }
    Ok((usable(model, gpu, gpus) - model.bytes()) / model.kv_bytes())
}

/// Coefficients, what they rest on, and the source in words.
fn speed(model: &Model, gpu: &Gpu, gpus: u32) -> Result<(Coefficients, Basis, String), CatalogueError> {
    let (fits, models) = (fits()?, models()?);
    let model_of = |fit: &Fit| models.iter().find(|m| m.name == fit.model);
    let same = |fit: &&Fit| {
        fit.gpu == gpu.name
            && fit.gpus == gpus
            && model_of(fit).is_some_and(|measured| measured.is_like(model))
    };
    if let Some(fit) = fits.iter().find(same) {
        return Ok((fit.coefficients, Basis::Measured, fit.source.clone()));
    }
    // Of several runs on the GPU, the one whose share of weights per GPU is closest.
    let distance = |fit: &Fit| {
        let share = model_of(fit).map_or(f64::INFINITY, |m| m.weights() / f64::from(fit.gpus));
        (share * f64::from(gpus) / model.weights()).ln().abs()
    };
    let usable = |fit: &&Fit| fit.gpu == gpu.like;
    let nearest = fits
        .iter()
        .filter(usable)
        .filter_map(|fit| fit.efficiency.map(|e| (fit, e)))
        .min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
    let (fit, efficiency) =
        nearest.ok_or_else(|| CatalogueError::BuiltIn(format!("no measured run of {}", gpu.like)))?;
    let source = format!(
        "roofline with the efficiencies of {}@{}x{} ({})",
        fit.model, fit.gpu, fit.gpus, fit.source
    );
    Ok((
        coefficients(model, gpu, gpus, &efficiency),
        Basis::Extrapolated,
        source,
    ))
}

#[cfg(test)]
#[path = "catalogue/tests.rs"]
mod tests;
