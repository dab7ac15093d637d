//! `/metrics` under the names of vLLM's current releases.

use super::EngineConfig;
use super::driver::Report;
use std::fmt::Write;
use weighbridge_sim::engine::{Settings, Stats};

const FIRST_TOKEN_S: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
const INTER_TOKEN_S: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
const LATENCY_S: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];

/// A Prometheus histogram.
#[derive(Clone)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len()],
            sum: 0.0,
            count: 0,
        }
    }

    pub(super) fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += value;
        self.count += 1;
    }
}

/// What the driver counts beside the model's own totals.
#[derive(Clone)]
pub(super) struct Telemetry {
    pub(super) first_token: Histogram,
    pub(super) inter_token: Histogram,
    pub(super) latency: Histogram,
    pub(super) stopped: u64,
    pub(super) cut_by_length: u64,
    pub(super) aborted: u64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            first_token: Histogram::new(FIRST_TOKEN_S),
            inter_token: Histogram::new(INTER_TOKEN_S),
            latency: Histogram::new(LATENCY_S),
            stopped: 0,
            cut_by_length: 0,
            aborted: 0,
        }
    }
}

struct Page {
    text: String,
    labels: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}");
    }

    fn value(&mut self, name: &str, more_labels: &str, value: f64) {
        let _ = writeln!(self.text, "vllm:{name}{{{}{more_labels}}} {value:?}", self.labels);
    }

    fn single(&mut self, name: &str, kind: &str, (value, help): (f64, &str)) {
        self.head(name, kind, help);
        self.value(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        self.head(name, "histogram", help);
        let mut below = 0;
        for (bound, count) in histogram.bounds.iter().zip(&histogram.counts) {
            below += count;
            self.value(
                &format!("{name}_bucket"),
                &format!(",le=\"{bound:?}\""),
                below as f64,
            );
        }
        self.value(&format!("{name}_bucket"), ",le=\"+Inf\"", histogram.count as f64);
        self.value(&format!("{name}_sum"), "", histogram.sum);
        self.value(&format!("{name}_count"), "", histogram.count as f64);
    }
}

fn escaped(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// The page.
pub(super) fn render(config: &EngineConfig, report: &Report) -> String {
    let model = config
        .models
        .first()
        .map(|name| escaped(name))
        .unwrap_or_default();
    let mut page = Page {
        text: String::new(),
        labels: format!("engine=\"0\",model_name=\"{model}\""),
    };
    totals(&mut page, &report.stats);
    let telemetry = &report.telemetry;
    page.head(
        "request_success_total",
        "counter",
        "Requests that ended, by reason.",
    );
    let ends = [
        ("stop", telemetry.stopped),
        ("length", telemetry.cut_by_length),
        ("abort", telemetry.aborted),
    ];
    for (reason, value) in ends {
        page.value(
            "request_success_total",
            &format!(",finished_reason=\"{reason}\""),
            value as f64,
        );
    }
    page.histogram(
        "time_to_first_token_seconds",
        "Time to the first token.",
        &telemetry.first_token,
    );
    page.histogram(
        "inter_token_latency_seconds",
        "Time between two tokens.",
        &telemetry.inter_token,
    );
    page.histogram(
        "e2e_request_latency_seconds",
        "Time from arrival to the last token.",
        &telemetry.latency,
    );
    cache_config(&mut page, &config.settings);
    page.text
}

fn totals(page: &mut Page, stats: &Stats) {
    let gauges = [
        (
            "num_requests_running",
            stats.running as f64,
            "Sequences in the running batch.",
        ),
        (
            "num_requests_waiting",
            stats.waiting as f64,
            "Sequences that wait for admission.",
        ),
        (
            "kv_cache_usage_perc",
            stats.kv_usage(),
            "Share of the KV cache in use, 1 is all.",
        ),
    ];
    for (name, value, help) in gauges {
        page.single(name, "gauge", (value, help));
    }
    let counters = [
        (
            "num_preemptions_total",
            stats.preemptions,
            "Sequences that lost their cache and started over.",
        ),
        (
            "prefix_cache_queries_total",
            stats.prefix_queries,
            "Prompt tokens looked up in the prefix cache.",
        ),
        (
            "prefix_cache_hits_total",
            stats.prefix_hits,
            "Prompt tokens found in the prefix cache.",
        ),
        (
            "prompt_tokens_total",
            stats.prompt_tokens,
            "Prompt tokens processed.",
        ),
        (
            "generation_tokens_total",
            stats.generation_tokens,
            "Tokens generated.",
        ),
    ];
    for (name, value, help) in counters {
        page.single(name, "counter", (value as f64, help));
    }
}

fn cache_config(page: &mut Page, settings: &Settings) {
    page.head("cache_config_info", "gauge", "Sizes of the KV cache.");
    let sizes = format!(
        ",block_size=\"{}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",kv_cache_size_tokens=\"{}\",\
         num_gpu_blocks=\"{}\"",
        settings.block_size,
        settings.kv_tokens(),
        settings.kv_blocks
    );
    page.value("cache_config_info", &sizes, 1.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative_and_names_are_escaped() {
        let mut telemetry = Telemetry::default();
        [0.001, 0.03, 9_999.0]
            .iter()
            .for_each(|value| telemetry.first_token.observe(*value));
        let config = EngineConfig {
            models: vec!["a\"b".to_owned()],
            speed: 1.0,
            seed: 0,
            settings: Settings::default(),
        };
        let page = render(
            &config,
            &Report {
                stats: Stats::default(),
                telemetry,
            },
        );
        for line in [
            r#"vllm:time_to_first_token_seconds_bucket{engine="0",model_name="a\"b",le="0.001"} 1.0"#,
            r#"vllm:time_to_first_token_seconds_bucket{engine="0",model_name="a\"b",le="0.04"} 2.0"#,
            r#"vllm:time_to_first_token_seconds_bucket{engine="0",model_name="a\"b",le="2560.0"} 2.0"#,
            r#"vllm:time_to_first_token_seconds_bucket{engine="0",model_name="a\"b",le="+Inf"} 3.0"#,
            r#"vllm:num_requests_running{engine="0",model_name="a\"b"} 0.0"#,
        ] {
            assert!(page.lines().any(|l| l == line), "{line} is missing in\n{page}");
        }
    }
}
