//! What replicas of the gateway that share nothing cost: token hit ratio and times to the first token with 1 and with several
//! replicas, by session, by the prompt's head, and by what each replica learned.
//!
//! `cargo run --release -p weighbridge-sim --example replicas -- agents|chat|prefix-groups|mooncake.jsonl [SPEED] [REPLICAS]`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "an example for the command line; it measures and says so"
)]

use std::time::Duration;
use weighbridge_core::policies::session_affinity::{Config as Affinity, KeySource};
use weighbridge_core::policies::{Policies, least_inflight, prefix_cache};
use weighbridge_core::presets::Preset;
use weighbridge_core::spec::{EndpointSpec, FleetSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_core::units::Size;
use weighbridge_sim::drive::{Chooser, EngineSpec, Fleet, Setup, run};
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::Run;
use weighbridge_sim::workload::{Format, Workload, generate, named, read, transform};

const ENGINES: usize = 8;

fn setup(policies: Policies, replicas: u32) -> Setup {
    let endpoints = (0..ENGINES).map(|number| EndpointSpec::new(format!("e{number}"), format!("e{number}")));
    let mut route = RouteSpec::new("r", vec![TargetSpec::new("p", 0)]);
    route.policies = policies;
    let engine = EngineSpec::new("default", Settings::default());
    Setup {
        fleet: Fleet {
            spec: FleetSpec {
                pools: vec![PoolSpec::new("p", endpoints.collect())],
                routes: vec![route],
                seed: 0,
                ..FleetSpec::default()
            }
            .into(),
            engines: vec![engine],
        },
        route: "r".into(),
        faults: vec![],
        replicas,
        scrape: Duration::from_secs(1),
        seed: 1,
    }
}

fn workload(name: &str, speed: f64, seed: u64) -> Workload {
    let mut workload = match std::fs::read(name) {
        Ok(bytes) => {
            let mut workload = read(&bytes[..], "trace", Some(Format::Mooncake))
                .unwrap()
                .workload;
            transform::jitter(&mut workload, seed);
            workload
        }
        Err(_) => generate(&named(name).unwrap(), seed).unwrap(),
    };
    transform::speed_up(&mut workload, speed);
    workload
}

/// Hit ratio, mean and p90 of seconds to the first token, attempts of the busiest endpoint over the mean.
fn figures(run: &Run) -> [f64; 4] {
    let of = |get: fn(&weighbridge_sim::outcome::EndpointRun) -> u64| run.endpoints.iter().map(get);
    let attempts = of(|endpoint| endpoint.attempts).sum::<u64>() as f64;
    let busiest = of(|endpoint| endpoint.attempts).max().unwrap_or(0) as f64;
    let waited = |record: &weighbridge_sim::outcome::Record| record.first.map(|first| first - record.arrived);
    let mut waits: Vec<f64> = run
        .records
        .iter()
        .filter_map(waited)
        .map(|wait| wait.as_secs_f64())
        .collect();
    waits.sort_by(f64::total_cmp);
    [
        run.hit_ratio(),
        waits.iter().sum::<f64>() / waits.len() as f64,
        waits[waits.len() * 9 / 10],
        busiest * ENGINES as f64 / attempts,
    ]
}

fn affinity(keys: Vec<KeySource>, load: Option<f64>, bound: Option<f64>) -> Policies {
    Policies {
        session_affinity: Some(Affinity {
            keys,
            bound,
            ..Affinity::default()
        }),
        least_inflight: load.map(|weight| least_inflight::Config { weight }),
        ..Policies::default()
    }
}

fn policies() -> Vec<(String, Policies)> {
    let session = || vec![KeySource::Header("session-id".into())];
    let mut all = vec![
        (
            "least_inflight".into(),
            Policies {
                least_inflight: Some(least_inflight::Config::default()),
                ..Policies::default()
            },
        ),
        ("session".into(), affinity(session(), None, None)),
        (
            "session, bound 1.25".into(),
            affinity(session(), None, Some(1.25)),
        ),
        ("session 1 : load 1".into(), affinity(session(), Some(1.0), None)),
        ("session 1 : load 2".into(), affinity(session(), Some(2.0), None)),
    ];
    for kib in [1, 4, 8, 16, 32, 64, 128] {
        let head = || vec![KeySource::PromptHead(Size(kib << 10))];
        all.push((format!("head {kib}KiB"), affinity(head(), None, None)));
        all.push((
            format!("head {kib}KiB, bound 1.25"),
            affinity(head(), None, Some(1.25)),
        ));
        if kib == 32 {
            all.push((
                format!("head {kib}KiB, bound 2"),
                affinity(head(), None, Some(2.0)),
            ));
            all.push((
                format!("head {kib}KiB 1 : load 2"),
                affinity(head(), Some(2.0), None),
            ));
        }
    }
    let prefix = Policies {
        prefix_cache: Some(prefix_cache::Config::default()),
        least_inflight: Some(least_inflight::Config::default()),
        ..Policies::default()
    };
    all.push(("prefix_cache 1 : load 1".into(), prefix));
    all.push(("auto".into(), Preset::Auto.policies()));
    let presets = [("chat", Preset::Chat), ("agents", Preset::Agents)];
    for (name, preset) in presets {
        let policies = preset.policies();
        all.push((format!("preset {name}"), policies.clone()));
        for weight in [0.5, 1.0, 2.0] {
            let head = Affinity {
                keys: vec![KeySource::PromptHead(Size(16 << 10))],
                weight,
                ..Affinity::default()
            };
            let with_head = Policies {
                session_affinity: Some(head),
                ..policies.clone()
            };
            all.push((format!("{name}, head {weight}"), with_head));
        }
    }
    all
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().expect("a workload");
    let number =
        |place: usize, default: f64| arguments.get(place).map_or(default, |text| text.parse().unwrap());
    let (speed, replicas) = (number(1, 1.0), number(2, 8.0) as u32);
    println!(
        "{name} × {speed}: hit ratio, TTFT mean and p90, busiest over mean; 1 and {replicas} replicas; kept hits"
    );
    for (label, policies) in policies() {
        let mean = |replicas: u32| {
            let mut sums = [0.0; 4];
            let seeds = [1, 2];
            for seed in seeds {
                let setup = setup(policies.clone(), replicas);
                let run = run(
                    &setup,
                    &workload(name, speed, seed),
                    Chooser::Scheduler,
                    &mut |_| {},
                )
                .unwrap();
                for (sum, figure) in sums.iter_mut().zip(figures(&run)) {
                    *sum += figure / seeds.len() as f64;
                }
            }
            sums
        };
        let (one, several) = (mean(1), mean(replicas));
        let show =
            |[hits, mean, p90, busiest]: [f64; 4]| format!("{hits:.3} {mean:7.3} {p90:7.3} {busiest:.2}");
        println!(
            "{label:26} | {} | {} | {:.3}",
            show(one),
            show(several),
            several[0] / one[0]
        );
    }
}
