//! Reading pages: what is asked for, what is made of it, and what is shown.

use crate::shared::*;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};
use weighbridge_test_engine::certificates::Authority;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::upstream::{Record, TlsFront, TlsOptions};
use weighbridge_test_engine::{Upstream, eventually};

/// Reads ten times a second, so that what is older than 0.3 s is stale.
const FAST: &str = "scrape: {interval: 100ms}";

/// One route and pool `r` of these upstreams, read often.
pub(crate) fn config(upstreams: &[&Upstream], policies: &str) -> String {
    let pools = pool("r", upstreams, &[FAST]);
    format!("pools:\n{pools}routes:\n  - {{name: r, targets: [r], policies: {policies}}}\n")
}

/// A page that tells what the upstream does.
pub(crate) fn page() -> &'static str {
    "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} $in_flight\n\
     vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 0\n\
     vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} $total\n"
}

fn staleness(gateway: &Gateway, endpoint: &str) -> Option<bool> {
    let name =
        format!("weighbridge_engine_signals_stale{{pool=\"r\",endpoint=\"{endpoint}\",source=\"engine\"}} ");
    let metrics = gateway.metrics();
    let value = metrics.text.lines().find_map(|line| line.strip_prefix(&name))?;
    Some(value == "1")
}

/// Whether the endpoint's engine is shown as stale, by the metrics.
pub(crate) fn stale(gateway: &Gateway, endpoint: &str) -> bool {
    staleness(gateway, endpoint) == Some(true)
}

/// Whether the endpoint's engine tells something that counts.
pub(crate) fn tells(gateway: &Gateway, endpoint: &str) -> bool {
    staleness(gateway, endpoint) == Some(false)
}

/// What the metrics show of a signal; 0 where they show none.
pub(crate) fn signals(gateway: &Gateway, endpoint: &str, signal: &str) -> f64 {
    let labels = [("pool", "r"), ("endpoint", endpoint), ("signal", signal)];
    gateway.metrics().value("weighbridge_engine_signal", &labels)
}

fn shown(gateway: &Gateway, endpoint: &str) -> Value {
    let all = gateway.api("/api/endpoints");
    let all = all["endpoints"].as_array().unwrap();
    let found = all.iter().find(|one| one["name"] == endpoint).unwrap();
    found["signals"].clone()
}

/// The requests for pages.
fn pages(upstream: &Upstream) -> Vec<Record> {
    let mut log = upstream.log();
    log.retain(|record| record.method == "GET");
    log
}

#[test]
fn what_an_engine_says_is_shown_with_its_age() {
    let a = Upstream::start("A");
    a.set_metrics(
        "vllm:num_requests_running{engine=\"0\"} 12\nvllm:num_requests_waiting{engine=\"0\"} 3\n\
         vllm:kv_cache_usage_perc{engine=\"0\"} 0.414\nvllm:generation_tokens_total{engine=\"0\"} $total\n\
         vllm:cache_config_info{block_size=\"32\",engine=\"0\",num_gpu_blocks=\"100\"} 1\n\
         vllm:lora_requests_info{max_lora=\"4\",running_lora_adapters=\"sql,de\",waiting_lora_adapters=\"\"} 17\n",
    );
    let gateway = gateway(&config(&[&a], "{queue_depth: {}}"));
    assert!(eventually(SOON, || tells(&gateway, "A")));
    let engine = shown(&gateway, "A")["engine"].clone();
    assert_eq!((&engine["stale"], &engine["errors"]), (&json!(false), &json!(0)));
    assert!(engine["age_seconds"].as_f64().unwrap() < 20.0);
    let values = &engine["values"];
    for (signal, value) in [
        ("waiting", 3.0),
        ("running", 12.0),
        ("kv_usage", 0.414),
        ("block_size", 32.0),
        ("cache_tokens", 3200.0),
        ("max_adapters", 4.0),
    ] {
        assert_eq!(values[signal], value, "{signal}");
        assert_eq!(signals(&gateway, "A", signal), value, "{signal}");
    }
    assert_eq!(engine["adapters"], json!(["de", "sql"]));
    let status = Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .args([
            "status",
            "--admin",
            &gateway.admin_url(""),
            "--token",
            gateway.admin_token(),
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(status.stdout).unwrap();
    assert!(text.contains("3 waiting, 12 running, KV 41 %"), "{text}");
    let metrics = gateway.metrics();
    let labels = [("pool", "r"), ("endpoint", "A"), ("source", "engine")];
    assert!(metrics.has("weighbridge_engine_signal_age_seconds"));
    assert_eq!(metrics.value("weighbridge_scrape_errors_total", &labels), 0.0);

    a.set_metrics_status(500);
    assert!(eventually(SOON, || stale(&gateway, "A")));
    let engine = shown(&gateway, "A")["engine"].clone();
    assert_eq!(
        (&engine["stale"], &engine["error"]),
        (&json!(true), &json!("status 500"))
    );
    assert_eq!(
        engine["values"]["waiting"], 3.0,
        "what it said last, marked as old"
    );
    assert!(eventually(SOON, || gateway
        .metrics()
        .value("weighbridge_scrape_errors_total", &labels)
        > 0.0));
    a.set_metrics_status(200);
    assert!(eventually(SOON, || tells(&gateway, "A")));
    let told = |words: &str| eventually(SOON, || gateway.stderr().contains(words));
    assert!(
        told("metrics cannot be read") && told("metrics are read again"),
        "{}",
        gateway.stderr()
    );
}

#[test]
fn pages_are_asked_for_on_one_connection_with_the_credentials_of_the_pool() {
    let a = Upstream::start("A");
    a.set_metrics(page());
    let pools = pool("r", &[&a], &[FAST, "api_key: sk-engine"]);
    let _gateway = gateway(&format!("pools:\n{pools}"));
    assert!(eventually(SOON, || pages(&a).len() >= 10));
    let log = pages(&a);
    assert!(
        log.iter()
            .all(|page| page.target == "/metrics" && page.conn == log[0].conn)
    );
    assert_eq!(log[0].header("authorization"), Some("Bearer sk-engine"));
    assert_eq!(log[0].header("user-agent"), Some("weighbridge-scrape"));
    let gaps: Vec<f64> = log.windows(2).map(|pair| pair[1].t - pair[0].t).collect();
    assert!(gaps.iter().all(|gap| *gap > 0.05), "{gaps:?}");
}

#[test]
fn only_who_has_metrics_is_asked_and_nobody_who_shall_not_be() {
    let [a, b, c, d] = Upstream::start_all(["A", "B", "C", "D"]);
    let pool = |upstream: &Upstream, more: &str| {
        format!(
            "  - {{name: {}, health: false, {more}, endpoints: [{{name: {}, url: \"{}\"}}]}}\n",
            upstream.name().to_lowercase(),
            upstream.name(),
            upstream.url()
        )
    };
    let pools =
        pool(&a, "kind: generic") + &pool(&b, "kind: vllm, scrape: false") + &pool(&c, "kind: openai");
    let gateway = gateway(&format!("pools:\n{pools}{}", pool(&d, "kind: trtllm")));
    assert!(eventually(SOON, || !pages(&d).is_empty()));
    assert_eq!(pages(&d)[0].target, "/prometheus/metrics");
    for upstream in [&a, &b, &c] {
        assert!(pages(upstream).is_empty(), "{}", upstream.name());
    }
    assert_eq!(shown(&gateway, "A"), json!({}));
}

#[test]
fn an_engine_of_ones_own_is_read_by_the_names_of_the_config() {
    let a = Upstream::start("A");
    a.set_metrics("my_engine:queue_size 5\nkv{gpu=\"0\"} 25\nkv{gpu=\"1\"} 99\nn_total $total\n");
    let scrape = "scrape: {path: /metrics, interval: 100ms, names: {waiting: \"my_engine:queue_size\", kv_usage: 'kv{gpu=\"0\"} / 100'}}";
    let pools = pool("r", &[&a], &["kind: generic", scrape]);
    let gateway = gateway(&format!("pools:\n{pools}"));
    assert!(eventually(SOON, || tells(&gateway, "A")));
    assert_eq!(signals(&gateway, "A", "waiting"), 5.0);
    assert_eq!(signals(&gateway, "A", "kv_usage"), 0.25);
}

#[test]
fn gpus_are_read_from_their_exporter_which_gets_no_key() {
    let [a, b, exporter] = Upstream::start_all(["A", "B", "X"]);
    a.set_metrics(page());
    b.set_metrics_status(404);
    exporter.set_metrics(
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-aa\"} 50\nDCGM_FI_DEV_GPU_UTIL{gpu=\"1\", UUID=\"GPU-bb\"} 75\n\
         DCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-aa\"} 10\nDCGM_FI_DEV_FB_FREE{gpu=\"0\",UUID=\"GPU-aa\"} 30\n",
    );
    let gpus = exporter.url();
    let gateway = gateway(&format!(
        "pools:\n  - name: r\n    kind: vllm\n    health: false\n    api_key: sk-engine\n    {FAST}\n    endpoints:\n\
         \x20     - {{name: A, url: \"{}\", gpu_metrics: \"{gpus}/metrics\", gpu_index: 0}}\n\
         \x20     - {{name: B, url: \"{}\", gpu_metrics: \"{gpus}\", gpu_uuid: bb}}\n",
        a.url(),
        b.url()
    ));
    let both = || {
        signals(&gateway, "A", "gpu_utilisation") == 0.5 && signals(&gateway, "B", "gpu_utilisation") == 0.75
    };
    assert!(eventually(SOON, || both() && tells(&gateway, "A")));
    assert_eq!(signals(&gateway, "A", "gpu_memory"), 0.25);
    assert_eq!(shown(&gateway, "B")["gpu"]["stale"], false);
    assert!(eventually(SOON, || shown(&gateway, "B")["engine"]["stale"] == true));
    let log = pages(&exporter);
    assert!(
        log.iter().all(|page| page.conn == log[0].conn),
        "one page for both"
    );
    assert!(log.iter().all(|page| page.header("authorization").is_none()));
    assert_eq!(pages(&a)[0].header("authorization"), Some("Bearer sk-engine"));
}

#[test]
fn a_wrong_gpu_index_is_the_matter_of_its_endpoint_alone() {
    let [a, b, exporter] = Upstream::start_all(["A", "B", "X"]);
    exporter.set_metrics("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-aa\"} 50\n");
    let gpus = exporter.url();
    let scrape = "scrape: {path: /metrics, interval: 100ms}";
    a.set_metrics(page());
    b.set_metrics(page());
    // The wrong one comes first as well as last.
    let gateway = gateway(&format!(
        "pools:\n  - name: r\n    kind: vllm\n    health: false\n    {scrape}\n    endpoints:\n\
         \x20     - {{name: B, url: \"{}\", gpu_metrics: \"{gpus}\", gpu_index: 7}}\n\
         \x20     - {{name: A, url: \"{}\", gpu_metrics: \"{gpus}\", gpu_index: 0}}\n\
         \x20     - {{name: C, url: \"{}/c\", gpu_metrics: \"{gpus}\", gpu_index: 9}}\n",
        b.url(),
        a.url(),
        b.url()
    ));
    assert!(eventually(SOON, || shown(&gateway, "A")["gpu"]["stale"] == false));
    assert!(eventually(SOON, || pages(&exporter).len() >= 10));
    let one = shown(&gateway, "A")["gpu"].clone();
    assert_eq!((&one["errors"], &one["error"]), (&json!(0), &Value::Null));
    for wrong in ["B", "C"] {
        let gpu = shown(&gateway, wrong)["gpu"].clone();
        assert_eq!(gpu["stale"], true, "{wrong}");
        assert_eq!(gpu["error"], "it does not show the endpoint's GPU", "{wrong}");
    }
    let log = pages(&exporter);
    assert!(
        log.iter().all(|page| page.conn == log[0].conn),
        "the link is kept"
    );
    let text = gateway.stderr();
    assert!(!text.contains("metrics are read again"), "{text}");
}

#[test]
fn a_rank_that_the_page_does_not_know_leaves_the_others_fresh() {
    let a = Upstream::start("A");
    a.set_metrics(page());
    let pools = pool("r", &[&a], &["ranks: 2", FAST]);
    let gateway = gateway(&format!("pools:\n{pools}"));
    assert!(eventually(SOON, || tells(&gateway, "A#0")));
    assert!(eventually(SOON, || pages(&a).len() >= 10));
    let [first, second] = ["A#0", "A#1"].map(|name| shown(&gateway, name)["engine"].clone());
    assert_eq!((&first["errors"], &first["error"]), (&json!(0), &Value::Null));
    assert_eq!(second["stale"], true);
    assert_eq!(second["error"], "it holds none of the metrics that are known");
}

#[test]
fn a_page_that_is_too_large_is_a_fault_and_told_as_one() {
    let a = Upstream::start("A");
    a.set_metrics(&format!("{}{}", page(), "# filler\n".repeat(500_000)));
    let gateway = gateway(&config(&[&a], "{queue_depth: {}}"));
    let told = || {
        let text = gateway.stderr();
        let mut lines = text.lines();
        lines.any(|line| line.contains("page of metrics is too large") && line.contains("WARN"))
    };
    assert!(eventually(SOON, told), "{}", gateway.stderr());
    assert!(!gateway.stderr().contains("no metrics here"));
    assert_eq!(shown(&gateway, "A")["engine"]["error"], "it is larger than 4 MiB");
}

#[test]
fn metrics_may_be_at_a_port_of_their_own() {
    let [a, metrics] = Upstream::start_all(["A", "M"]);
    metrics.set_metrics("nv_trt_llm_request_metrics{request_type=\"waiting\"} 2\nn_total $total\n");
    let scrape = format!(
        "scrape: {{path: /metrics, port: {}, interval: 100ms}}",
        metrics.port()
    );
    let pools = pool("r", &[&a], &["kind: trtllm", &scrape]);
    let gateway = gateway(&format!("pools:\n{pools}"));
    assert!(eventually(SOON, || tells(&gateway, "A")));
    assert_eq!(signals(&gateway, "A", "waiting"), 2.0);
    assert!(pages(&a).is_empty());
}

#[test]
fn a_reload_changes_who_is_read() {
    let [a, b] = Upstream::start_all(["A", "B"]);
    a.set_metrics(page());
    b.set_metrics(page());
    let gateway = gateway(&config(&[&a], "{queue_depth: {}}"));
    assert!(eventually(SOON, || tells(&gateway, "A")));
    gateway.write_config(&config(&[&b], "{queue_depth: {}}"));
    assert!(eventually(SOON, || tells(&gateway, "B")));
    let read = pages(&a).len();
    let more = pages(&b).len() + 10;
    assert!(eventually(SOON, || pages(&b).len() >= more));
    assert!(pages(&a).len() <= read + 1, "nobody wants to know of it any more");
    assert!(
        !gateway
            .metrics()
            .text
            .contains("weighbridge_engine_signal{pool=\"r\",endpoint=\"A\"")
    );
}

#[test]
fn the_engine_of_this_program_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let ready = folder.path().join("ready");
    let mut engine = Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .args(["engine", "--listen", "127.0.0.1:0", "--ready-file"])
        .arg(&ready)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert!(eventually(SOON, || Path::new(&ready).exists()));
    let url = std::fs::read_to_string(&ready).unwrap();
    let gateway = gateway(&format!(
        "pools:\n  - {{name: r, kind: vllm, endpoints: [{{name: A, url: \"{}\"}}], {FAST}}}\n",
        url.trim()
    ));
    assert!(eventually(SOON, || tells(&gateway, "A")));
    let values = shown(&gateway, "A")["engine"]["values"].clone();
    let known: Vec<&str> = values.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        known,
        [
            "block_size",
            "cache_blocks",
            "cache_tokens",
            "first_token_seconds_count",
            "first_token_seconds_sum",
            "generation_tokens",
            "inter_token_seconds_count",
            "inter_token_seconds_sum",
            "kv_usage",
            "preemptions",
            "prefix_hits",
            "prefix_queries",
            "prompt_tokens",
            "running",
            "waiting"
        ]
    );
    assert_eq!(
        (&values["block_size"], &values["waiting"]),
        (&json!(16.0), &json!(0.0))
    );
    engine.kill().unwrap();
    engine.wait().unwrap();
}

/// A peer that would rather speak HTTP/2 is read over HTTP/1.1, whose connection is kept.
#[test]
fn over_tls_one_connection_is_kept_too() {
    let upstream = Upstream::start("A");
    upstream.set_metrics(page());
    let folder = tempfile::tempdir().unwrap();
    let engines = Authority::new("engines");
    let ca = engines.write(folder.path(), "ca");
    let options = TlsOptions {
        identity: &engines.issue(&["127.0.0.1"]),
        clients: None,
        alpn: &["h2", "http/1.1"],
    };
    let front = TlsFront::start(&upstream, &options);
    let gateway = gateway(&format!(
        "pools:\n  - {{name: r, kind: vllm, health: false, {FAST}, api_key: sk-engine, tls: {{ca: '{}'}}, \
         endpoints: [{{name: A, url: '{}'}}]}}\n",
        ca.display(),
        front.url()
    ));
    assert!(eventually(SOON, || pages(&upstream).len() >= 5 && tells(&gateway, "A")));
    let log = pages(&upstream);
    assert!(
        log.iter()
            .all(|page| page.conn == log[0].conn && page.version != "HTTP/2"),
        "{log:?}"
    );
    assert_eq!(log[0].header("authorization"), Some("Bearer sk-engine"));
    assert_eq!(send(&gateway, "r").status, 200);
    assert_eq!(
        upstream.posts()[0].version,
        "HTTP/2",
        "requests speak what the peer prefers"
    );
}

#[test]
fn each_rank_has_what_the_page_says_of_it() {
    let a = Upstream::start("A");
    a.set_metrics(
        "vllm:num_requests_running{engine=\"0\"} 1\nvllm:num_requests_running{engine=\"1\"} 9\n\
         vllm:num_requests_waiting{engine=\"0\"} 0\nvllm:num_requests_waiting{engine=\"1\"} 7\n",
    );
    let pools = pool("r", &[&a], &["ranks: 2", FAST]);
    let gateway = gateway(&format!(
        "pools:\n{pools}routes:\n  - {{name: r, targets: [r], policies: {{queue_depth: {{}}}}}}\n"
    ));
    assert!(eventually(SOON, || tells(&gateway, "A#0") && tells(&gateway, "A#1")));
    let running = |endpoint| signals(&gateway, endpoint, "running");
    assert_eq!((running("A#0"), running("A#1")), (1.0, 9.0));
    let waiting = |endpoint| signals(&gateway, endpoint, "waiting");
    assert_eq!((waiting("A#0"), waiting("A#1")), (0.0, 7.0));
}
