//! Published samples of real `/metrics` pages, read to exact values.

use crate::recorded;
use weighbridge_wire::metrics::{
    Entry, GpuReading, GpuSelect, Names, Reading, Signal, Table, engines, read, read_gpus, samples,
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
