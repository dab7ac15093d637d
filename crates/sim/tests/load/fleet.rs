//! Ten engines, the conversations of Azure, and a load that is a share of what the engines bear.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use weighbridge_core::policies::{
    Policies, expected_wait, latency, least_inflight, least_work, predicted_latency, prefill_batch,
};
use weighbridge_core::spec::{EndpointSpec, PoolSpec, RouteSpec, TargetSpec};
use weighbridge_sim::drive::{Chooser, EngineSpec, Fault, FaultKind, Setup, run};
use weighbridge_sim::engine::Settings;
use weighbridge_sim::outcome::{Fate, Run};
use weighbridge_sim::workload::{Workload, read, transform};

/// Requests of the trace that a run takes.
const REQUESTS: usize = 8000;

fn data() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("WEIGHBRIDGE_DATA").map_or(beside, PathBuf::from)
}

/// The trace, as it is.
fn azure() -> &'static Workload {
    static TRACE: OnceLock<Workload> = OnceLock::new();
    TRACE.get_or_init(|| {
        let path = data().join("traces/AzureLLMInferenceTrace_conv.csv");
        let file = File::open(&path).unwrap_or_else(|e| {
            panic!(
                "{}: {e}; set WEIGHBRIDGE_DATA to the folder of test data",
                path.display()
            )
        });
        let mut workload = read(BufReader::new(file), "azure", None).unwrap().workload;
        transform::first(&mut workload, REQUESTS);
        workload
    })
}

pub(crate) fn settings() -> Settings {
    Settings::default()
}

/// Requests a second that one engine ends when it always has some waiting.
fn bearable() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let mut workload = azure().clone();
        transform::first(&mut workload, 2000);
        for request in &mut workload.requests {
            request.at = Duration::ZERO;
        }
        let ended = driven(&setup(1, least_inflight()), &workload).ended;
        2000.0 / ended.as_secs_f64()
    })
}

/// The trace at such a share of what `speed` engines bear.
pub(crate) fn at(share: f64, speed: f64) -> Workload {
    let mut workload = azure().clone();
    let last = workload.requests.last().unwrap().at.as_secs_f64();
    let rate = workload.requests.len() as f64 / last;
    transform::speed_up(&mut workload, share * speed * bearable() / rate);
    workload
}

pub(crate) fn setup(engines: usize, policies: Policies) -> Setup {
    let endpoint = |number| EndpointSpec::new(format!("e{number}"), format!("e{number}"));
    let pool = PoolSpec {
        breaker: None,
        ..PoolSpec::new("p", (0..engines).map(endpoint).collect())
    };
    let route = RouteSpec {
        policies,
        ..RouteSpec::new("r", vec![TargetSpec::new("p", 0)])
    };
    Setup::new(vec![(pool, EngineSpec::new("engine", settings()))], route)
}

pub(crate) fn fault(at: u64, endpoint: &str, kind: FaultKind) -> Fault {
    Fault {
        at: Duration::from_secs(at),
        endpoint: ("p".into(), endpoint.into()),
        kind,
    }
}

/// Runs it; all requests are answered.
pub(crate) fn driven(setup: &Setup, workload: &Workload) -> Run {
    let run = run(setup, workload, Chooser::Scheduler, &mut |_| {}).unwrap();
    assert!(run.records.iter().all(|record| record.fate == Fate::Answered));
    run
}

pub(crate) fn least_inflight() -> Policies {
    Policies {
        least_inflight: Some(least_inflight::Config::default()),
        ..Policies::default()
    }
}

/// The policies that go by load, each as it is meant to be used.
pub(crate) fn by_load() -> Vec<(&'static str, Policies)> {
    let alone = Policies::default;
    let beside = least_inflight;
    vec![
        (
            "least_work",
            Policies {
                least_work: Some(least_work::Config::default()),
                ..alone()
            },
        ),
        (
            "expected_wait",
            Policies {
                expected_wait: Some(expected_wait::Config::default()),
                ..beside()
            },
        ),
        (
            "prefill_batch",
            Policies {
                prefill_batch: Some(prefill_batch::Config::default()),
                ..alone()
            },
        ),
        (
            "latency",
            Policies {
                latency: Some(latency::Config::default()),
                ..beside()
            },
        ),
        (
            "predicted_latency",
            Policies {
                predicted_latency: Some(predicted_latency::Config::default()),
                ..beside()
            },
        ),
    ]
}

pub(crate) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(crate) fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}
