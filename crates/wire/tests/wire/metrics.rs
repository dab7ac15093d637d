//! Published samples of real `/metrics` pages, read to exact values.

use crate::recorded;
use weighbridge_wire::metrics::{
    Entry, GpuReading, GpuSelect, Names, Origin, Reading, Signal, Table, engines, read, read_gpus, samples,
};

fn page(file: &str) -> Vec<u8> {
    recorded::read(&format!("../metrics/{file}"))
}

pub(crate) fn values(reading: &Reading) -> Vec<(Signal, f64)> {
    reading.values.known().collect()
}

fn whole(page: &[u8], table: &Table) -> Reading {
    let reading = read(page, &Names::new(&[table], &[]), 1).remove(0);
    let all = read(page, &Names::new(engines::ALL, &[]), 1).remove(0);
    assert_eq!(reading, all, "no table reads another engine's page");
    reading
}

#[test]
fn vllm_of_version_0() {
    let reading = whole(&page("vllm_v0_aibrix_doc.prom"), &engines::VLLM);
    let wanted = [
        (Signal::Waiting, 0.0),
        (Signal::Running, 0.0),
        (Signal::KvUsage, 0.0),
        (Signal::BlockSize, 16.0),
        (Signal::CacheBlocks, 81_767.0),
        (Signal::CacheTokens, 1_308_272.0),
        (Signal::MaxAdapters, 0.0),
        (Signal::Preemptions, 0.0),
        (Signal::PromptTokens, 148.0),
        (Signal::GenerationTokens, 955.0),
    ];
    assert_eq!(values(&reading), wanted, "a hit rate of -1 is not known");
    let adapters = reading.adapters.unwrap();
    assert!(adapters.running.is_empty() && adapters.waiting.is_empty());
}

#[test]
fn sglang() {
    let reading = whole(&page("sglang_production_metrics_doc.prom"), &engines::SGLANG);
    let wanted = [
        (Signal::Waiting, 2826.0),
        (Signal::Running, 162.0),
        (Signal::KvUsage, 0.28),
        (Signal::PrefixQueries, 8_128_902.0),
        (Signal::PrefixHitRate, 0.007_507_552_643_049_313),
        (Signal::PromptTokens, 8_128_902.0),
        (Signal::GenerationTokens, 7_557_572.0),
        (Signal::FirstTokenSum, 2_351_897.947_411_775_6),
        (Signal::FirstTokenCount, 11_008.0),
    ];
    assert_eq!(values(&reading), wanted);
    assert_eq!(reading.adapters, None);
}

#[test]
fn llama_cpp_when_it_told_of_its_cache() {
    let reading = whole(&page("llamacpp_issue_quote.prom"), &engines::LLAMACPP);
    let wanted = [
        (Signal::Waiting, 0.0),
        (Signal::Running, 0.0),
        (Signal::KvUsage, 0.491_063),
        (Signal::InterTokenSum, 3544.27),
    ];
    assert_eq!(values(&reading), wanted);
}

#[test]
fn dcgm() {
    let page = page("dcgm_readme.prom");
    let all: Vec<(String, Option<String>, f64)> = samples(&page, Some)
        .map(|(name, sample)| {
            let uuid = sample.labels.get("UUID").map(|uuid| uuid.into_owned());
            (String::from_utf8_lossy(name).into_owned(), uuid, sample.value)
        })
        .collect();
    let uuid = Some("GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52".to_owned());
    let wanted = [
        ("DCGM_FI_DEV_SM_CLOCK".to_owned(), uuid.clone(), 139.0),
        ("DCGM_FI_DEV_MEM_CLOCK".to_owned(), uuid.clone(), 405.0),
        (
            "DCGM_FI_DEV_MEMORY_TEMP".to_owned(),
            uuid.clone(),
            9_223_372_036_854_775_794.0,
        ),
        ("DCGM_FI_DEV_SM_CLOCK".to_owned(), uuid, 139.0),
    ];
    assert_eq!(all, wanted);
    assert_eq!(
        read_gpus(&page, &GpuSelect::default()),
        GpuReading::default(),
        "none of these is a load"
    );
}

#[test]
fn the_counters_of_dcgm_that_are_read_are_on_by_default() {
    let counters = String::from_utf8(page("dcgm_default-counters.csv")).unwrap();
    for (name, _) in weighbridge_wire::metrics::gpu_names() {
        if name.starts_with("DCGM") {
            assert!(
                counters.lines().any(|line| line.starts_with(&format!("{name},"))),
                "{name}"
            );
        }
    }
}

/// The shape of TensorRT-LLM's page in Triton, from its documentation.
#[test]
fn triton_tells_quantities_apart_by_a_label() {
    let page = br#"nv_trt_llm_request_metrics{model="a",request_type="waiting",version="1"} 3
nv_trt_llm_request_metrics{model="a",request_type="scheduled",version="1"} 5
nv_trt_llm_request_metrics{model="a",request_type="max",version="1"} 512
nv_trt_llm_request_metrics{model="a",request_type="active",version="1"} 7
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="a",version="1"} 0.25
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="a",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="a",version="1"} 156
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="a",version="1"} 468
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="a",version="1"} 624
"#;
    let wanted = [
        (Signal::Waiting, 3.0),
        (Signal::Running, 7.0),
        (Signal::KvUsage, 0.25),
        (Signal::BlockSize, 64.0),
        (Signal::CacheBlocks, 624.0),
        (Signal::CacheTokens, 39_936.0),
        (Signal::MaxSequences, 512.0),
    ];
    assert_eq!(values(&whole(page, &engines::TRITON)), wanted);
}

#[test]
fn trtllm_serve_counts_blocks() {
    let page = b"trtllm_num_requests_waiting{model_name=\"m\",engine_type=\"trtllm\"} 2.0\n\
        trtllm_kv_cache_reused_blocks_total{model_name=\"m\"} 30.0\n\
        trtllm_kv_cache_missed_blocks_total{model_name=\"m\"} 90.0\n\
        trtllm_kv_cache_used_blocks{model_name=\"m\"} 10.0\n\
        trtllm_kv_cache_free_blocks{model_name=\"m\"} 30.0\n";
    let wanted = [
        (Signal::Waiting, 2.0),
        (Signal::KvUsage, 0.25),
        (Signal::PrefixQueries, 120.0),
        (Signal::PrefixHits, 30.0),
        (Signal::CacheBlocks, 40.0),
    ];
    assert_eq!(values(&whole(page, &engines::TRTLLM)), wanted);
}

const TWO_RANKS: &[u8] = br#"vllm:num_requests_running{engine="0",model_name="m"} 4.0
vllm:num_requests_running{engine="1",model_name="m"} 6.0
vllm:num_requests_waiting{engine="0",model_name="m"} 0.0
vllm:num_requests_waiting{engine="1",model_name="m"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100",num_gpu_blocks_override="None"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="200"} 1.0
"#;

#[test]
fn ranks_of_one_page_are_told_apart() {
    let names = Names::new(&[&engines::VLLM], &[]);
    let readings = read(TWO_RANKS, &names, 3);
    let rank = |running, waiting, usage, blocks| {
        vec![
            (Signal::Waiting, waiting),
            (Signal::Running, running),
            (Signal::KvUsage, usage),
            (Signal::BlockSize, 16.0),
            (Signal::CacheBlocks, blocks),
            (Signal::CacheTokens, blocks * 16.0),
        ]
    };
    assert_eq!(values(&readings[0]), rank(4.0, 0.0, 0.25, 100.0));
    assert_eq!(values(&readings[1]), rank(6.0, 9.0, 0.75, 200.0));
    assert!(readings[2].is_empty(), "a rank that the page does not know");
    let whole = read(TWO_RANKS, &names, 1);
    assert_eq!(values(&whole[0]), rank(10.0, 9.0, 0.5, 300.0));
}

#[test]
fn what_is_said_of_the_whole_url_is_no_ranks_load() {
    let page = b"sglang:num_queue_reqs{dp_rank=\"1\",tp_rank=\"4\"} 5\nsglang:num_queue_reqs{dp_rank=\"0\",tp_rank=\"0\"} 2\n\
        sglang:num_queue_reqs{dp_rank=\"0\",tp_rank=\"1\"} 2\nsglang:num_queue_reqs{dp_rank=\"1\",tp_rank=\"5\"} 5\n\
        sglang:max_total_num_tokens{model_name=\"m\"} 4096\nsglang:prompt_tokens_total{model_name=\"m\"} 77\n";
    let names = Names::new(&[&engines::SGLANG], &[]);
    let readings = read(page, &names, 2);
    assert_eq!(
        values(&readings[0]),
        [(Signal::Waiting, 2.0), (Signal::CacheTokens, 4096.0)]
    );
    assert_eq!(
        values(&readings[1]),
        [(Signal::Waiting, 5.0), (Signal::CacheTokens, 4096.0)]
    );
    let whole = &read(page, &names, 1)[0];
    assert_eq!(
        whole.values.get(Signal::Waiting),
        Some(7.0),
        "workers of one rank are counted once"
    );
    assert_eq!(whole.values.get(Signal::PromptTokens), Some(77.0));
}

#[test]
fn old_names_are_believed_only_where_there_are_no_new_ones() {
    let names = Names::new(&[&engines::VLLM], &[]);
    let usage = |page: &str| read(page.as_bytes(), &names, 1)[0].values.get(Signal::KvUsage);
    let (old, new) = (
        "vllm:gpu_cache_usage_perc 0.5\n",
        "vllm:kv_cache_usage_perc 0.25\n",
    );
    assert_eq!(usage(old), Some(0.5));
    assert_eq!(usage(&format!("{old}{new}")), Some(0.25));
    assert_eq!(usage(&format!("{new}{old}")), Some(0.25));
    assert_eq!(
        usage("vllm:kv_cache_usage_perc NaN\nvllm:gpu_cache_usage_perc 0.5\n"),
        Some(0.5)
    );
    let swapped = read(
        b"vllm:num_requests_waiting 2\nvllm:num_requests_swapped 3\n",
        &names,
        1,
    );
    assert_eq!(swapped[0].values.get(Signal::Waiting), Some(5.0));
}

#[test]
fn the_newest_series_tells_the_adapters() {
    let page = br#"vllm:lora_requests_info{max_lora="4",running_lora_adapters="a,b",waiting_lora_adapters="c"} 1700000002.5
vllm:lora_requests_info{max_lora="4",running_lora_adapters="old",waiting_lora_adapters=""} 1700000001.0
"#;
    let reading = whole(page, &engines::VLLM);
    let adapters = reading.adapters.unwrap();
    assert_eq!(adapters.running, ["a".into(), "b".into()] as [Box<str>; 2]);
    assert_eq!(adapters.waiting, ["c".into()] as [Box<str>; 1]);
    assert_eq!(reading.values.get(Signal::MaxAdapters), Some(4.0));
}

#[test]
fn an_engine_of_ones_own_is_read_by_its_own_names() {
    let own = [
        Entry::custom(Signal::Waiting, "my_engine:queue_size".into(), None, 1.0),
        Entry::custom(
            Signal::Running,
            "my_requests".into(),
            Some(("state".into(), "busy".into())),
            1.0,
        ),
        Entry::custom(Signal::KvUsage, "my_percent".into(), None, 0.01),
    ];
    let names = Names::new(&[], &own);
    let page = b"my_engine:queue_size 3\nmy_requests{state=\"idle\"} 9\nmy_requests{state=\"busy\"} 4\nmy_percent 25\n";
    assert_eq!(
        values(&read(page, &names, 1)[0]),
        [
            (Signal::Waiting, 3.0),
            (Signal::Running, 4.0),
            (Signal::KvUsage, 0.25)
        ]
    );
}

#[test]
fn a_page_that_is_none_says_nothing() {
    let names = Names::new(engines::ALL, &[]);
    for page in [
        "",
        "<html><body>404</body></html>\n",
        "{\"iterLatencyMS\": 5}\n",
        "vllm:num_requests_waiting 12",
    ] {
        assert!(read(page.as_bytes(), &names, 1)[0].is_empty(), "{page}");
    }
}

/// llama.cpp (build 11434) with 4 slots and 7 requests, a moment after they came.
#[test]
fn llama_cpp_as_it_is_now() {
    let page = b"# HELP llamacpp:prompt_tokens_total Of prompts.\n# TYPE llamacpp:prompt_tokens_total counter\n\
        llamacpp:prompt_tokens_total 172\nllamacpp:prompt_tokens_cached_total 0\nllamacpp:prompt_seconds_total 1.12243\n\
        llamacpp:tokens_predicted_total 0\nllamacpp:tokens_predicted_seconds_total 0\nllamacpp:n_decode_total 24\n\
        llamacpp:prompt_tokens_seconds 153.239\nllamacpp:requests_processing 4\nllamacpp:requests_deferred 3\n\
        llamacpp:n_busy_slots_per_decode 4\n";
    let wanted = [
        (Signal::Waiting, 3.0),
        (Signal::Running, 4.0),
        (Signal::PrefixQueries, 172.0),
        (Signal::PrefixHits, 0.0),
        (Signal::PromptTokens, 172.0),
        (Signal::GenerationTokens, 0.0),
        (Signal::InterTokenSum, 0.0),
        (Signal::InterTokenCount, 0.0),
    ];
    assert_eq!(values(&whole(page, &engines::LLAMACPP)), wanted);
}

/// The same process after they were answered, and one of them once more.
#[test]
fn llama_cpp_tells_what_its_cache_was_good_for() {
    let page = b"llamacpp:prompt_tokens_total 206\nllamacpp:prompt_tokens_cached_total 138\n\
        llamacpp:tokens_predicted_total 848\nllamacpp:tokens_predicted_seconds_total 294.723\n\
        llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n";
    let reading = whole(page, &engines::LLAMACPP);
    let told = |signal| reading.values.get(signal);
    assert_eq!(
        (told(Signal::PrefixHits), told(Signal::PrefixQueries)),
        (Some(138.0), Some(344.0))
    );
    assert_eq!(
        (told(Signal::GenerationTokens), told(Signal::InterTokenSum)),
        (Some(848.0), Some(294.723))
    );
}

/// vLLM 0.32 on a CPU, `--max-num-seqs 8`, with 14 requests that share two blocks of 32 tokens.
const VLLM_032: &[u8] = br#"# HELP vllm:num_requests_running Of the engine.
# TYPE vllm:num_requests_running gauge
python_gc_objects_collected_total{generation="0"} 13321.0
process_resident_memory_bytes 1.103728640e+09
vllm:num_requests_running{engine="0",model_name="tiny"} 8.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 6.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 6.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.0010071108127078787
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 457.0
vllm:prefix_cache_queries_created{engine="0",model_name="tiny"} 1.7960011199638355e+09
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 224.0
vllm:external_prefix_cache_queries_total{engine="0",model_name="tiny"} 0.0
vllm:num_preemptions_total{engine="0",model_name="tiny"} 0.0
vllm:prompt_tokens_total{engine="0",model_name="tiny"} 457.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 617.0
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.001",model_name="tiny"} 0.0
vllm:time_to_first_token_seconds_count{engine="0",model_name="tiny"} 8.0
vllm:time_to_first_token_seconds_sum{engine="0",model_name="tiny"} 2.1675631999969482
vllm:inter_token_latency_seconds_count{engine="0",model_name="tiny"} 609.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="tiny"} 20.924365262995707
vllm:cache_config_info{_block_size_resolved="True",block_size="32",engine="0",hash_block_size="None",kv_cache_dtype_skip_layers="[]",kv_cache_max_concurrency="512.0",kv_cache_size_tokens="1048576",num_gpu_blocks="32768",num_gpu_blocks_override="None"} 1.0
"#;

#[test]
fn vllm_as_it_is_now() {
    let wanted = [
        (Signal::Waiting, 6.0),
        (Signal::Running, 8.0),
        (Signal::KvUsage, 0.001_007_110_812_707_878_7),
        (Signal::PrefixQueries, 457.0),
        (Signal::PrefixHits, 224.0),
        (Signal::BlockSize, 32.0),
        (Signal::CacheBlocks, 32_768.0),
        (Signal::CacheTokens, 1_048_576.0),
        (Signal::Preemptions, 0.0),
        (Signal::PromptTokens, 457.0),
        (Signal::GenerationTokens, 617.0),
        (Signal::FirstTokenSum, 2.167_563_199_996_948_2),
        (Signal::FirstTokenCount, 8.0),
        (Signal::InterTokenSum, 20.924_365_262_995_707),
        (Signal::InterTokenCount, 609.0),
    ];
    let reading = whole(VLLM_032, &engines::VLLM);
    assert_eq!(values(&reading), wanted);
    assert_eq!(reading.adapters, None);
}

#[test]
fn every_name_that_is_marked_as_seen_is_on_a_page_that_was_seen() {
    let llamacpp = "llamacpp:requests_deferred llamacpp:requests_processing llamacpp:prompt_tokens_total \
        llamacpp:prompt_tokens_cached_total llamacpp:tokens_predicted_total llamacpp:tokens_predicted_seconds_total";
    let vllm = String::from_utf8(VLLM_032.to_vec()).unwrap();
    for entry in engines::ALL.iter().flat_map(|table| table.entries) {
        if entry.origin == Origin::Seen {
            assert!(
                vllm.contains(&format!("{}{{", entry.name)) || llamacpp.contains(&*entry.name),
                "{}",
                entry.name
            );
        }
    }
}
