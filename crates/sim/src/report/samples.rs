//! Made-up runs for tests: what they hold is known, and nothing is simulated.

use super::objective::{Measure, Objective, Objectives, Statistic};
use super::{About, Curves, Engine, Policy, Report, Summary};
use crate::outcome::{EndpointRun, Fate, Point, Record, Run};
use crate::workload::{Class, Slo, Workload};
use std::time::Duration;

pub(super) const REQUESTS: usize = 600;

/// Seconds of a run.
const SECONDS: f64 = 300.0;

/// Draws that depend on their place alone.
fn draw(seed: u64, place: u64) -> f64 {
    // SplitMix64 (Steele, Lea and Flood 2014).
    let mut z = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(place.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as f64 / u64::MAX as f64
}

/// How much slower than a `better` policy; those of another name differ from `plain` by chance alone.
fn slowness(name: &str) -> f64 {
    if name.starts_with("better") { 0.5 } else { 1.0 }
}

fn salt(name: &str) -> u64 {
    name.bytes().fold(7, |salt, byte| {
        salt.wrapping_mul(31).wrapping_add(u64::from(byte))
    })
}

pub(super) fn workload() -> Workload {
    let class = |name: &str, first: u64| Class {
        name: name.into(),
        slo: Slo {
            first_token: Some(Duration::from_secs(first)),
            ..Slo::default()
        },
    };
    Workload {
        name: "sample".into(),
        classes: vec![class("chat", 1), class("batch <b>", 3)],
        tenants: vec!["north".into(), "south & co".into()],
        ..Workload::default()
    }
}

pub(super) fn run(name: &str, seed: u64, endpoints: usize) -> Run {
    let record = |at: usize| {
        let place = at as u64;
        let shared = draw(seed, place);
        let own = draw(seed ^ salt(name), place);
        let arrived = SECONDS * 0.95 * at as f64 / REQUESTS as f64;
        let crowd = 1.0 + 2.0 * (-((arrived - 150.0) / 40.0).powi(2)).exp();
        let wait = slowness(name) * crowd * (0.05 + 0.4 * shared * shared + 0.02 * own);
        let first = wait + slowness(name) * 0.1 * crowd * (1.0 + 4.0 * shared.powi(6));
        let tokens = 20 + (200.0 * draw(seed, place + 7_000)) as u32;
        let fate = match at % 97 {
            13 => Fate::Rejected,
            57 => Fate::Failed,
            _ => Fate::Answered,
        };
        let prompt = 500 + (2_000.0 * shared) as u32;
        let answered = fate == Fate::Answered;
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds);
        Record {
            arrived: seconds(arrived),
            sent: answered.then(|| seconds(arrived)),
            scheduled: answered.then(|| seconds(arrived + wait)),
            first: answered.then(|| seconds(arrived + first)),
            ended: seconds(arrived + first + f64::from(tokens) * 0.02),
            fate,
            endpoint: answered.then_some((at % endpoints) as u32),
            attempts: u32::from(answered),
            prompt_tokens: prompt,
            cached_tokens: if answered {
                (f64::from(prompt) * 0.6 * (1.0 - slowness(name) * 0.6 * own)) as u32
            } else {
                0
            },
            output_tokens: tokens,
            tenant: (at % 2) as u16,
            class: u16::from(at.is_multiple_of(3)),
        }
    };
    let records: Vec<Record> = (0..REQUESTS).map(record).collect();
    Run {
        ended: records.iter().map(|record| record.ended).max().unwrap(),
        attempts: records.iter().map(|record| u64::from(record.attempts)).sum(),
        decisions: REQUESTS as u64,
        endpoints: (0..endpoints)
            .map(|place| endpoint(name, (seed, place)))
            .collect(),
        step: Duration::from_secs(1),
        records,
    }
}

fn endpoint(name: &str, (seed, place): (u64, usize)) -> EndpointRun {
    let point = |second: u64| {
        let crowd = (-((second as f64 - 150.0) / 40.0).powi(2)).exp();
        let load = slowness(name) * (4.0 + 40.0 * crowd) * (0.5 + draw(seed, place as u64))
            + 2.0 * draw(seed, second);
        Point {
            running: load.min(16.0) as u32,
            waiting: (load - 16.0).max(0.0) as u32,
            kv_usage: 0.5,
            up: place != 1 || !(60..90).contains(&second),
        }
    };
    EndpointRun {
        pool: "gpus".into(),
        name: format!("e{place}").into(),
        gpus: 2,
        gpu_hour: 2.5,
        price: None,
        elsewhere: None,
        in_service: Duration::from_secs(300),
        busy: Duration::from_secs(200),
        attempts: 50 + place as u64,
        uncached_tokens: 10_000 * (1 + place as u64),
        cached_tokens: 5_000,
        output_tokens: 9_000,
        preemptions: 3,
        points: (0..300).map(point).collect(),
    }
}

pub(super) fn objectives() -> Objectives {
    Objectives(vec![Objective {
        measure: Measure::Ttft,
        statistic: Statistic::Percentile(95.0),
        bound: Duration::from_millis(900),
    }])
}

/// A report on made-up runs over as many seeds.
pub(super) fn report(names: &[&str], seeds: u64) -> Report {
    report_of(names, seeds, 8)
}

pub(super) fn report_of(names: &[&str], seeds: u64, endpoints: usize) -> Report {
    let policy = |name: &&str| Policy {
        name: (*name).to_owned(),
        runs: (1..=seeds)
            .map(|seed| Summary {
                seed,
                ..Summary::of(&run(name, seed, endpoints), &workload(), &objectives())
            })
            .collect(),
        curves: Curves::of(&run(name, 1, endpoints)),
    };
    let mut about = About {
        version: "0.0.0".into(),
        workload: "sample".into(),
        seeds: (1..=seeds).collect(),
        engines: vec![Engine {
            pool: "gpus".into(),
            engines: endpoints,
            label: "Llama-3.1-8B on 2 × H100".into(),
            basis: "extrapolated by a roofline".into(),
        }],
        objectives: objectives(),
        first_token_bounds: vec![0.9],
        notes: vec!["3 rows were left out: line 7 has no input_length".into()],
        ..About::default()
    };
    about.parameter("requests", "600 in 300 s");
    Report {
        about,
        policies: names.iter().map(policy).collect(),
    }
}
