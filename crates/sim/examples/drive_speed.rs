//! How fast whole simulations run, scheduler and engines together, on one core: a trace on 8 engines, then a million
//! requests on 1,000 engines, and what a decision costs as the fleet grows.
//!
//! `cargo run --release -p weighbridge-sim --example drive_speed -- mooncake.jsonl [trace|million|decisions]`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example for the command line; it measures and says so"
)]

use std::time::{Duration, Instant};
use weighbridge_core::policies::{Policies, least_inflight};
use weighbridge_core::spec::{EndpointSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_sim::drive::{Chooser, EngineSpec, Setup, run};
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::Run;
use weighbridge_sim::workload::spec::Spec;
use weighbridge_sim::workload::{Workload, generate, read, transform};

fn setup(endpoints: usize, settings: Settings) -> Setup {
    let endpoint = |number| EndpointSpec::new(format!("e{number}"), format!("e{number}"));
    let pool = PoolSpec {
        breaker: None,
        ..PoolSpec::new("p", (0..endpoints).map(endpoint).collect())
    };
    let route = RouteSpec {
        policies: Policies {
            least_inflight: Some(least_inflight::Config::default()),
            ..Policies::default()
        },
        ..RouteSpec::new("r", vec![TargetSpec::new("p", 0)])
    };
    Setup::new(vec![(pool, EngineSpec::new("default", settings))], route)
}

fn timed(what: &str, setup: &Setup, workload: &Workload) -> (Run, Duration) {
    let began = Instant::now();
    let run = run(setup, workload, Chooser::Scheduler, &mut |_| {}).unwrap();
    let took = began.elapsed();
    println!(
        "{what}: {} requests, {} s simulated in {:.2} s",
        run.records.len(),
        run.ended.as_secs(),
        took.as_secs_f64()
    );
    (run, took)
}

fn generated(requests: usize, rate: f64, output: u32) -> Workload {
    let text = format!(
        r#"{{"name": "load", "requests": {requests}, "arrivals": {{"rate": {rate}}}, "components": [{{"name": "a",
        "question": {{"log_normal": {{"median": 600, "p90": 2000}}}}, "output": {output}}}]}}"#
    );
    let spec: Spec = serde_json::from_str(&text).unwrap();
    generate(&spec, 1).unwrap()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .expect("the path of a Mooncake trace as first argument");
    let part = arguments.next();
    let wanted = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if wanted("trace") {
        let file = std::fs::File::open(path).unwrap();
        let mut trace = read(std::io::BufReader::new(file), "trace", None)
            .unwrap()
            .workload;
        transform::jitter(&mut trace, 1);
        let settings = Settings {
            block_size: 512,
            kv_blocks: 2000,
            ..Settings::default()
        };
        timed("trace on 8 engines", &setup(8, settings), &trace);
    }
    if wanted("decisions") {
        for endpoints in [8, 64, 512, 4096] {
            // Short answers, so that deciding is most of the work.
            let load = generated(20_000, 100.0 * endpoints as f64, 1);
            let (_, took) = timed(
                &format!("{endpoints} engines"),
                &setup(endpoints, Settings::default()),
                &load,
            );
            println!("  {:.2} µs a request", took.as_secs_f64() * 1e6 / 20_000.0);
        }
    }
    if wanted("million") {
        let load = generated(1_000_000, 2500.0, 200);
        timed("1,000 engines", &setup(1000, Settings::default()), &load);
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find(|line| line.starts_with("VmHWM"));
        println!("{}", peak.unwrap_or_default());
    }
}
