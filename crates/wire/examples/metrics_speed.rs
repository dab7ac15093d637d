//! How fast pages of metrics are read: `cargo run --release -p weighbridge-wire --example metrics_speed`.
//!
//! The page has the shape of vLLM's: some thirty families, most of its 30 KB buckets of histograms.

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;
use weighbridge_wire::metrics::{Names, Signal, engines, read};

const ROUNDS: u32 = 20_000;

fn page() -> String {
    let labels = r#"engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct""#;
    let mut page = String::new();
    let scalars = [
        ("num_requests_running", 12.0),
        ("num_requests_waiting", 3.0),
        ("kv_cache_usage_perc", 0.41),
        ("prefix_cache_queries_total", 812_345.0),
        ("prefix_cache_hits_total", 512_345.0),
        ("num_preemptions_total", 4.0),
        ("prompt_tokens_total", 1_812_345.0),
        ("generation_tokens_total", 612_345.0),
    ];
    for (name, value) in scalars {
        let _ = writeln!(
            page,
            "# HELP vllm:{name} Of the engine.\n# TYPE vllm:{name} gauge\nvllm:{name}{{{labels}}} {value:?}"
        );
    }
    let mut family = 0;
    while page.len() < 30_000 {
        let name = [
            "time_to_first_token",
            "inter_token_latency",
            "e2e_request_latency",
            "request_queue_time",
        ][family % 4];
        for bound in 0..25 {
            let _ = writeln!(
                page,
                "vllm:{name}_seconds_bucket{{{labels},le=\"{bound}.5\"}} {}.0",
                bound * 37
            );
        }
        let _ = writeln!(
            page,
            "vllm:{name}_seconds_sum{{{labels}}} 913.25\nvllm:{name}_seconds_count{{{labels}}} 925.0"
        );
        family += 1;
    }
    page
}

fn main() -> std::io::Result<()> {
    let page = page();
    let names = Names::new(engines::ALL, &[]);
    let started = Instant::now();
    let mut waiting = 0.0;
    for _ in 0..ROUNDS {
        let readings = read(black_box(page.as_bytes()), &names, 1);
        waiting += readings
            .first()
            .and_then(|one| one.values.get(Signal::Waiting))
            .unwrap_or_default();
    }
    let each = started.elapsed() / ROUNDS;
    assert_eq!(waiting, 3.0 * f64::from(ROUNDS));
    let share = each.as_secs_f64() * 1000.0 * 100.0;
    let line = format!(
        "{} bytes, {} lines: {each:?} a page; 1,000 endpoints a second: {share:.1} % of a core\n",
        page.len(),
        page.lines().count()
    );
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes())
}
