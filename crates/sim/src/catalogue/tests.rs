//! The catalogue finds engines, says what it lacks, and computes what the fit's script computes.

use super::*;
use crate::coefficients::{Batch, LLAMA_3_1_8B_RTX_PRO_6000};

/// Milliseconds per token with `sequences` decoding, each with `context` tokens.
fn per_token_ms(name: &str, sequences: u64, context: u64) -> f64 {
    let batch = Batch {
        tokens: sequences,
        sequences,
        context_tokens: sequences * context,
        ..Batch::default()
    };
    let settings = engine(name).unwrap().spec.settings;
    settings.coefficients.iteration(&batch).as_secs_f64() * 1e3
}

#[test]
fn the_tables_agree_with_each_other() {
    let (models, gpus) = (models().unwrap(), gpus().unwrap());
    for fit in fits().unwrap() {
        let model = models.iter().find(|m| m.name == fit.model).unwrap();
        let gpu = gpus.iter().find(|g| g.name == fit.gpu).unwrap();
        let Some(efficiency) = fit.efficiency else {
            continue;
        };
        let ours = coefficients(model, gpu, fit.gpus, &efficiency);
        for ((name, ours), (_, theirs)) in ours.named().into_iter().zip(fit.coefficients.named()) {
            assert!(
                (ours - theirs).abs() <= 1e-5 * theirs.abs(),
                "{} {name}: {ours} {theirs}",
                fit.model
            );
        }
    }
    for gpu in gpus {
        assert!(
            fits()
                .unwrap()
                .iter()
                .any(|fit| fit.gpu == gpu.like && fit.efficiency.is_some()),
            "{}",
            gpu.name
        );
    }
}

#[test]
fn the_default_engine_is_the_first_fit() {
    assert_eq!(fits().unwrap()[0].coefficients, LLAMA_3_1_8B_RTX_PRO_6000);
}

#[test]
fn sizes_of_known_models_are_theirs() {
    // Parameters in billions, as their publishers state them.
    for (name, billions) in [
        ("llama-3.1-8b", 8.03),
        ("llama-3.1-70b", 70.6),
        ("qwen3-32b", 32.8),
        ("qwen3-30b-a3b", 30.5),
        ("mixtral-8x7b", 46.7),
        ("llama-3.2-1b", 1.24),
        ("qwen2.5-7b", 7.62),
        ("bloom-176b", 176.2),
        ("opt-13b", 12.85),
    ] {
        let model = models().unwrap().into_iter().find(|m| m.name == name).unwrap();
        let ours = model.bytes() / facts::BYTES / 1e9;
        assert!((ours / billions - 1.0).abs() < 0.02, "{name}: {ours}");
    }
}

#[test]
fn a_measured_engine_is_marked_so_and_another_is_not() {
    for (name, basis) in [
        ("llama-3.1-8b@rtx-pro-6000", Basis::Measured),
        ("Qwen/Qwen3-32B@RTX-PRO-6000x2", Basis::Measured),
        ("meta-llama/Meta-Llama-3-8B-Instruct@h100", Basis::Measured),
        ("llama-3.1-8b-instruct@H100-80GB", Basis::Measured),
        ("bloom-176b@a100x8", Basis::Measured),
        ("llama-3.1-70b@h100x4", Basis::Extrapolated),
        ("llama-3.1-8b@l4", Basis::Extrapolated),
        ("mixtral-8x7b@mi300x", Basis::Extrapolated),
    ] {
        let found = engine(name).unwrap();
        assert_eq!(found.basis, basis, "{name}: {}", found.source);
    }
    assert_eq!(
        &*engine("Llama-3.1-8B@h100x2").unwrap().spec.label,
        "llama-3.1-8b@h100x2"
    );
}

#[test]
fn every_model_runs_on_some_number_of_each_gpu_or_says_why_not() {
    for model in models().unwrap() {
        for gpu in gpus().unwrap() {
            let fitting = [1, 2, 4, 8]
                .into_iter()
                .find_map(|n| engine(&format!("{}@{}x{n}", model.name, gpu.name)).ok());
            let Some(found) = fitting else {
                let error = engine(&format!("{}@{}x8", model.name, gpu.name)).unwrap_err();
                assert!(
                    matches!(
                        error,
                        CatalogueError::TooLarge { .. } | CatalogueError::Split { .. }
                    ),
                    "{error}"
                );
                continue;
            };
            let settings = found.spec.settings;
            assert!(
                settings.kv_blocks > 50 && settings.max_model_len > 800,
                "{} {settings:?}",
                found.spec.label
            );
            for (name, value) in settings.coefficients.named() {
                assert!(
                    value.is_finite() && value >= 0.0,
                    "{} {name} {value}",
                    found.spec.label
                );
            }
        }
    }
}

#[test]
fn a_faster_gpu_and_a_wider_split_decode_faster() {
    let time = |name: &str| per_token_ms(name, 32, 1000);
    assert!(time("llama-3.1-8b@l4") > 4.0 * time("llama-3.1-8b@a100"));
    assert!(time("llama-3.1-8b@a100") > time("llama-3.1-8b@h100"));
    assert!(time("llama-3.1-8b@h100") > time("llama-3.1-8b@h200"));
    assert!(time("llama-3.1-70b@h100x4") > 1.4 * time("llama-3.1-70b@h100x8"));
}

#[test]
fn wrong_names_are_answered_with_what_would_do() {
    let error = |name: &str| engine(name).unwrap_err().to_string();
    assert_eq!(
        error("llama"),
        "engine \"llama\": write MODEL@GPU or MODEL@GPUxN, such as llama-3.1-8b@h100x2, or the path of a .json file"
    );
    let text = error("lama-3.1-8b@h100");
    assert!(
        text.starts_with(
            "no model \"lama-3.1-8b\", did you mean \"llama-3.1-8b\"?; known are llama-3.2-1b, "
        ),
        "{text}"
    );
    let text = error("llama-3.1-8b@h10");
    assert!(
        text.starts_with("no GPU \"h10\", did you mean \"h100\"?") && text.contains("mi300x"),
        "{text}"
    );
    assert_eq!(
        error("llama-3.1-70b@h100"),
        "llama-3.1-70b needs 156 GB and 1 × h100 leave 73 GB for it; llama-3.1-70b@h100x4 fits"
    );
    assert!(error("llama-3.1-8b@h100x3").contains("use 1, 2, 4 or 8"));
    assert!(error("llama-3.1-8b@h100x0").contains("use 1, 2, 4 or 8"));
}

/// 461,376 tokens by the report of llm-d's experiment 37.
#[test]
fn the_cache_of_a_large_model_is_what_vllm_found() {
    let tokens = engine("llama-3.1-70b@h100x4").unwrap().spec.settings.kv_tokens() as f64;
    assert!((tokens / 461_376.0 - 1.0).abs() < 0.02, "{tokens}");
}

#[test]
fn a_file_describes_an_engine_or_says_where_it_is_wrong() {
    let text = r#"{"label": "mine", "settings": {"block_size": 16, "kv_blocks": 512, "max_num_seqs": 4,
        "max_num_batched_tokens": 2048, "max_model_len": 2048}, "coefficients": COEFFICIENTS, "start_s": 10}"#;
    let coefficients = serde_json::to_string(&LLAMA_3_1_8B_RTX_PRO_6000).unwrap();
    let text = text.replace("COEFFICIENTS", &coefficients);
    let found = engine_from_json(&text).unwrap();
    assert_eq!(found.spec.settings.coefficients, LLAMA_3_1_8B_RTX_PRO_6000);
    assert_eq!((found.spec.gpus, found.spec.start), (1, Duration::from_secs(10)));
    for (from, to, error) in [
        (
            "\"kv_blocks\": 512",
            "\"kv_blocks\": 0",
            "settings.kv_blocks is 0",
        ),
        ("\"start_s\": 10", "\"start_s\": -1", "start_s is -1"),
        ("\"overhead_s\":", "\"overhead\":", "unknown field `overhead`"),
        ("\"label\": \"mine\",", "", "missing field `label`"),
    ] {
        assert!(text.contains(from), "{from}");
        let found = engine_from_json(&text.replace(from, to)).unwrap_err().to_string();
        assert!(
            found.starts_with("engine file: ") && found.contains(error),
            "{found}"
        );
    }
}

#[test]
fn a_gpu_with_an_x_in_its_name_is_no_number_of_gpus() {
    for (name, label) in [
        ("llama-3.1-8b@rtx4090", "llama-3.1-8b@rtx-4090"),
        ("llama-3.1-8b@rtx-4090x2", "llama-3.1-8b@rtx-4090x2"),
        ("llama-3.1-8b@RTX4090x2", "llama-3.1-8b@rtx-4090x2"),
        ("Llama-3.1-8B@a100-80gb-x2", "llama-3.1-8b@a100-80gbx2"),
    ] {
        assert_eq!(&*engine(name).unwrap().spec.label, label, "{name}");
    }
}
