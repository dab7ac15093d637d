//! The tables: which metric of which engine says what.
//!
//! `docs/signals.md` shows them and is written from them.

use super::names::{Entry, Read, Table};
use super::signal::Signal;

/// Of the engines.
pub const ALL: &[&Table] = &[
    &VLLM, &SGLANG, &LLAMACPP, &TGI, &TRTLLM, &TRITON, &LMDEPLOY, &MISTRALRS,
];

/// vLLM. Version 0 counted swapped sequences apart, and called the KV cache "gpu cache"; for some releases both names
/// are there.
pub const VLLM: Table = Table {
    engine: "vLLM",
    path: "/metrics",
    rank: "engine",
    repeated: &[],
    entries: &[
        Entry::seen(Signal::Waiting, "vllm:num_requests_waiting"),
        Entry::sample(Signal::Waiting, "vllm:num_requests_swapped"),
        Entry::seen(Signal::Running, "vllm:num_requests_running"),
        Entry::seen(Signal::KvUsage, "vllm:kv_cache_usage_perc"),
        Entry::sample(Signal::KvUsage, "vllm:gpu_cache_usage_perc").place(1),
        Entry::seen(Signal::PrefixQueries, "vllm:prefix_cache_queries_total"),
        Entry::documented(Signal::PrefixQueries, "vllm:gpu_prefix_cache_queries_total").place(1),
        Entry::seen(Signal::PrefixHits, "vllm:prefix_cache_hits_total"),
        Entry::documented(Signal::PrefixHits, "vllm:gpu_prefix_cache_hits_total").place(1),
        Entry::sample(Signal::PrefixHitRate, "vllm:gpu_prefix_cache_hit_rate"),
        Entry::seen(Signal::BlockSize, "vllm:cache_config_info").read(Read::Label("block_size")),
        Entry::seen(Signal::CacheBlocks, "vllm:cache_config_info").read(Read::Label("num_gpu_blocks")),
        Entry::seen(Signal::CacheTokens, "vllm:cache_config_info").read(Read::Label("kv_cache_size_tokens")),
        Entry::sample(Signal::MaxAdapters, "vllm:lora_requests_info").read(Read::Adapters {
            running: "running_lora_adapters",
            waiting: "waiting_lora_adapters",
            max: "max_lora",
        }),
        Entry::seen(Signal::Preemptions, "vllm:num_preemptions_total"),
        Entry::seen(Signal::PromptTokens, "vllm:prompt_tokens_total"),
        Entry::seen(Signal::GenerationTokens, "vllm:generation_tokens_total"),
        Entry::seen(Signal::FirstTokenSum, "vllm:time_to_first_token_seconds_sum"),
        Entry::seen(Signal::FirstTokenCount, "vllm:time_to_first_token_seconds_count"),
        Entry::seen(Signal::InterTokenSum, "vllm:inter_token_latency_seconds_sum"),
        Entry::seen(Signal::InterTokenCount, "vllm:inter_token_latency_seconds_count"),
        Entry::documented(Signal::InterTokenSum, "vllm:time_per_output_token_seconds_sum").place(1),
        Entry::documented(
            Signal::InterTokenCount,
            "vllm:time_per_output_token_seconds_count",
        )
        .place(1),
    ],
};

/// SGLang (`--enable-metrics`). Requests whose grammar is still compiled wait in a queue of their own. Token totals
/// are counted by the front process, which knows of no ranks.
pub const SGLANG: Table = Table {
    engine: "SGLang",
    path: "/metrics",
    rank: "dp_rank",
    repeated: &["tp_rank", "pp_rank", "moe_ep_rank"],
    entries: &[
        Entry::sample(Signal::Waiting, "sglang:num_queue_reqs"),
        Entry::documented(Signal::Waiting, "sglang:num_grammar_queue_reqs"),
        Entry::sample(Signal::Running, "sglang:num_running_reqs"),
        Entry::sample(Signal::KvUsage, "sglang:token_usage"),
        Entry::sample(Signal::PrefixQueries, "sglang:prompt_tokens_total"),
        Entry::documented(Signal::PrefixHits, "sglang:cached_tokens_total"),
        Entry::sample(Signal::PrefixHitRate, "sglang:cache_hit_rate"),
        Entry::documented(Signal::CacheTokens, "sglang:max_total_num_tokens"),
        Entry::documented(Signal::MaxAdapters, "sglang:lora_pool_slots_total"),
        Entry::documented(Signal::Preemptions, "sglang:num_retracted_requests_total"),
        Entry::sample(Signal::PromptTokens, "sglang:prompt_tokens_total"),
        Entry::sample(Signal::GenerationTokens, "sglang:generation_tokens_total"),
        Entry::sample(Signal::FirstTokenSum, "sglang:time_to_first_token_seconds_sum"),
        Entry::sample(
            Signal::FirstTokenCount,
            "sglang:time_to_first_token_seconds_count",
        ),
        Entry::documented(Signal::InterTokenSum, "sglang:inter_token_latency_seconds_sum"),
        Entry::documented(
            Signal::InterTokenCount,
            "sglang:inter_token_latency_seconds_count",
        ),
    ],
};

/// llama.cpp (`--metrics`). Newer releases do not say how full the cache is, but how much of the prompts was in it.
pub const LLAMACPP: Table = Table {
    engine: "llama.cpp",
    path: "/metrics",
    rank: "",
    repeated: &[],
    entries: &[
        Entry::seen(Signal::Waiting, "llamacpp:requests_deferred"),
        Entry::seen(Signal::Running, "llamacpp:requests_processing"),
        Entry::sample(Signal::KvUsage, "llamacpp:kv_cache_usage_ratio"),
        Entry::seen(Signal::PrefixHits, "llamacpp:prompt_tokens_cached_total"),
        Entry::seen(Signal::PrefixMisses, "llamacpp:prompt_tokens_total"),
        Entry::seen(Signal::PromptTokens, "llamacpp:prompt_tokens_total"),
        Entry::seen(Signal::GenerationTokens, "llamacpp:tokens_predicted_total"),
        Entry::seen(Signal::InterTokenSum, "llamacpp:tokens_predicted_seconds_total"),
        Entry::seen(Signal::InterTokenCount, "llamacpp:tokens_predicted_total"),
    ],
};

/// Text Generation Inference. It says nothing of its cache.
pub const TGI: Table = Table {
    engine: "TGI",
    path: "/metrics",
    rank: "",
    repeated: &[],
    entries: &[
        Entry::documented(Signal::Waiting, "tgi_queue_size"),
        Entry::documented(Signal::Running, "tgi_batch_current_size"),
        Entry::documented(Signal::PromptTokens, "tgi_request_input_length_sum"),
        Entry::documented(Signal::GenerationTokens, "tgi_request_generated_tokens_sum"),
        Entry::documented(
            Signal::InterTokenSum,
            "tgi_request_mean_time_per_token_duration_sum",
        ),
        Entry::documented(
            Signal::InterTokenCount,
            "tgi_request_mean_time_per_token_duration_count",
        ),
    ],
};

/// TensorRT-LLM's own server, `trtllm-serve` (`return_perf_metrics: true`).
pub const TRTLLM: Table = Table {
    engine: "TensorRT-LLM (trtllm-serve)",
    path: "/prometheus/metrics",
    rank: "",
    repeated: &[],
    entries: &[
        Entry::documented(Signal::Waiting, "trtllm_num_requests_waiting"),
        Entry::documented(Signal::Running, "trtllm_num_requests_running"),
        Entry::documented(Signal::KvUsage, "trtllm_kv_cache_utilization"),
        Entry::documented(Signal::PrefixHits, "trtllm_kv_cache_reused_blocks_total"),
        Entry::documented(Signal::PrefixMisses, "trtllm_kv_cache_missed_blocks_total"),
        Entry::documented(Signal::PrefixHitRate, "trtllm_kv_cache_hit_rate"),
        Entry::documented(Signal::BlockSize, "trtllm_kv_cache_tokens_per_block"),
        Entry::documented(Signal::CacheBlocks, "trtllm_kv_cache_max_blocks"),
        Entry::documented(Signal::UsedBlocks, "trtllm_kv_cache_used_blocks"),
        Entry::documented(Signal::FreeBlocks, "trtllm_kv_cache_free_blocks"),
        Entry::documented(Signal::MaxSequences, "trtllm_max_num_active_requests"),
        Entry::documented(Signal::MaxSequences, "trtllm_max_batch_size_runtime").place(1),
        Entry::documented(Signal::PromptTokens, "trtllm_prompt_tokens_total"),
        Entry::documented(Signal::GenerationTokens, "trtllm_generation_tokens_total"),
        Entry::documented(Signal::FirstTokenSum, "trtllm_time_to_first_token_seconds_sum"),
        Entry::documented(
            Signal::FirstTokenCount,
            "trtllm_time_to_first_token_seconds_count",
        ),
        Entry::documented(Signal::InterTokenSum, "trtllm_time_per_output_token_seconds_sum"),
        Entry::documented(
            Signal::InterTokenCount,
            "trtllm_time_per_output_token_seconds_count",
        ),
    ],
};

/// TensorRT-LLM inside Triton, whose page is on a port of its own (8002) and tells quantities apart by a label.
pub const TRITON: Table = Table {
    engine: "TensorRT-LLM (Triton)",
    path: "/metrics",
    rank: "",
    repeated: &[],
    entries: &[
        Entry::part(
            Signal::Waiting,
            "nv_trt_llm_request_metrics",
            ("request_type", "waiting"),
        ),
        Entry::part(
            Signal::Running,
            "nv_trt_llm_request_metrics",
            ("request_type", "active"),
        ),
        Entry::part(
            Signal::MaxSequences,
            "nv_trt_llm_request_metrics",
            ("request_type", "max"),
        ),
        Entry::part(
            Signal::BlockSize,
            "nv_trt_llm_kv_cache_block_metrics",
            ("kv_cache_block_type", "tokens_per"),
        ),
        Entry::part(
            Signal::CacheBlocks,
            "nv_trt_llm_kv_cache_block_metrics",
            ("kv_cache_block_type", "max"),
        ),
        Entry::part(
            Signal::UsedBlocks,
            "nv_trt_llm_kv_cache_block_metrics",
            ("kv_cache_block_type", "used"),
        ),
        Entry::part(
            Signal::FreeBlocks,
            "nv_trt_llm_kv_cache_block_metrics",
            ("kv_cache_block_type", "free"),
        ),
    ],
};

/// LMDeploy. Requests wait in the server before they wait in the engine.
pub const LMDEPLOY: Table = Table {
    engine: "LMDeploy",
    path: "/metrics",
    rank: "engine",
    repeated: &[],
    entries: &[
        Entry::documented(Signal::Waiting, "lmdeploy:num_requests_waiting"),
        Entry::documented(Signal::Waiting, "lmdeploy:num_api_requests_waiting"),
        Entry::documented(Signal::Running, "lmdeploy:num_requests_running"),
        Entry::documented(Signal::KvUsage, "lmdeploy:gpu_cache_usage_perc"),
        Entry::documented(Signal::PrefixQueries, "lmdeploy:prompt_tokens_total"),
        Entry::documented(Signal::PrefixHits, "lmdeploy:cached_tokens_total"),
        Entry::documented(Signal::PrefixHitRate, "lmdeploy:prefix_cache_hit_rate"),
        Entry::documented(Signal::PromptTokens, "lmdeploy:prompt_tokens_total"),
        Entry::documented(Signal::GenerationTokens, "lmdeploy:generation_tokens_total"),
        Entry::documented(Signal::FirstTokenSum, "lmdeploy:time_to_first_token_seconds_sum"),
        Entry::documented(
            Signal::FirstTokenCount,
            "lmdeploy:time_to_first_token_seconds_count",
        ),
        Entry::documented(
            Signal::InterTokenSum,
            "lmdeploy:time_per_output_token_seconds_sum",
        ),
        Entry::documented(
            Signal::InterTokenCount,
            "lmdeploy:time_per_output_token_seconds_count",
        ),
    ],
};

/// mistral.rs. Its prefix counters count sequences, not tokens. Blocks that are kept for their prefix alone are "used"
/// to it; newer releases tell those in use by sequences apart.
pub const MISTRALRS: Table = Table {
    engine: "mistral.rs",
    path: "/metrics",
    rank: "",
    repeated: &[],
    entries: &[
        Entry::documented(Signal::Waiting, "mistralrs_sequences_waiting"),
        Entry::documented(Signal::Waiting, "mistralrs_requests_pending_admission"),
        Entry::documented(Signal::Running, "mistralrs_sequences_running"),
        Entry::documented(Signal::UsedBlocks, "mistralrs_kv_cache_blocks_active"),
        Entry::documented(Signal::UsedBlocks, "mistralrs_kv_cache_blocks_used").place(1),
        Entry::documented(Signal::CacheBlocks, "mistralrs_kv_cache_blocks_total"),
        Entry::documented(Signal::PrefixQueries, "mistralrs_prefix_cache_lookups_total"),
        Entry::documented(Signal::PrefixHits, "mistralrs_prefix_cache_hits_total"),
        Entry::documented(Signal::MaxSequences, "mistralrs_sequences_capacity"),
        Entry::documented(Signal::PromptTokens, "mistralrs_prefill_tokens_processed_total"),
        Entry::documented(
            Signal::GenerationTokens,
            "mistralrs_decode_tokens_processed_total",
        ),
    ],
};
