//! Requests of the cases.

use super::{Bench, CaseError, Slice};
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_sim::workload::spec::Spec;
use weighbridge_sim::workload::{Class, PrefixGroups, Slo, Workload, generate, read, transform};

/// Where requests come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Traffic {
    /// The first half of the conversation trace, so many times as fast.
    Mooncake { speed: f64 },
    /// The conversation trace of 2023.
    Azure { speed: f64 },
    /// llm-d's experiment 37, two of its stages at each end left out.
    PrefixGroups,
    /// Tasks that are handed to several workers at once.
    FanOut,
    /// A description of `weighbridge simulate --workload`, in JSON.
    Generated(&'static str),
}

/// Requests of Mooncake's half trace that are used, the first of them as one slice and the others as another.
const MOONCAKE: usize = 5600;
const AZURE: usize = 19_200;

impl Traffic {
    /// The requests, at `load` times their rate.
    pub(super) fn workload(
        self,
        (bench, load): (&Bench, f64),
        (slice, seed): (Slice, u64),
    ) -> Result<Workload, CaseError> {
        match self {
            Self::Mooncake { speed } => {
                let file = "traces/mooncake_conversation_first_half.jsonl";
                let bound = Slo {
                    first_token: Some(Duration::from_secs(3)),
                    per_token: Some(Duration::from_millis(100)),
                    end_to_end: None,
                };
                let trace = half((bench, file), (slice, MOONCAKE), bound)?;
                Ok(sped(trace, speed * load, seed))
            }
            Self::Azure { speed } => {
                let file = "traces/AzureLLMInferenceTrace_conv.csv";
                let bound = Slo {
                    first_token: Some(Duration::from_secs(1)),
                    per_token: Some(Duration::from_millis(100)),
                    end_to_end: None,
                };
                let trace = half((bench, file), (slice, AZURE), bound)?;
                Ok(sped(trace, speed * load, seed))
            }
            Self::PrefixGroups => {
                let mut spec = PrefixGroups::default().spec();
                shape(&mut spec, (bench.cut, load));
                for component in &mut spec.components {
                    component.slo.ttft = Some(weighbridge_sim::workload::spec::Span::seconds(2));
                }
                generated(&spec, (slice, seed))
            }
            Self::FanOut => Ok(super::fan_out::generate((bench.cut, load), seeded(slice, seed))),
            Self::Generated(text) => {
                let mut spec: Spec = serde_json::from_str(text)
                    .map_err(|error| CaseError::Description(format!("workload: {error}")))?;
                shape(&mut spec, (bench.cut, load));
                generated(&spec, (slice, seed))
            }
        }
    }
}

/// Cuts a description short, and multiplies its rates.
fn shape(spec: &mut Spec, (by, load): (u32, f64)) {
    let short = |span: &mut weighbridge_sim::workload::spec::Span| span.0 /= by.max(1);
    spec.duration.iter_mut().for_each(short);
    let stages = spec.arrivals.iter_mut().flat_map(|arrivals| &mut arrivals.stages);
    stages.for_each(|stage| {
        short(&mut stage.duration);
        stage.rate *= load;
    });
    let rate = spec
        .arrivals
        .iter_mut()
        .filter_map(|arrivals| arrivals.rate.as_mut());
    rate.for_each(|rate| *rate *= load);
    let loops = spec
        .components
        .iter_mut()
        .filter_map(|component| component.closed_loop.as_mut());
    loops.for_each(|workers| workers.requests = workers.requests.div_ceil(by.max(1)));
}

/// Seeds of the slice that nothing was tuned on start here.
const HELD_SEEDS: u64 = 1_000_000;

fn seeded(slice: Slice, seed: u64) -> u64 {
    match slice {
        Slice::Tuned => seed,
        Slice::Held => seed + HELD_SEEDS,
    }
}

fn generated(spec: &Spec, (slice, seed): (Slice, u64)) -> Result<Workload, CaseError> {
    generate(spec, seeded(slice, seed)).map_err(|error| CaseError::Description(error.to_string()))
}

/// One half of the first `requests` of a trace, all of one class with this bound.
fn half(
    (bench, file): (&Bench, &str),
    (slice, requests): (Slice, usize),
    slo: Slo,
) -> Result<Workload, CaseError> {
    let path = bench.data.join(file);
    let failed = |why: String| CaseError::Data {
        path: path.clone(),
        why,
    };
    let source = File::open(&path).map_err(|error| failed(error.to_string()))?;
    let read = read(BufReader::new(source), file, None).map_err(|error| failed(error.to_string()))?;
    let mut workload = read.workload;
    let half = requests / 2;
    let from = match slice {
        Slice::Tuned => 0,
        Slice::Held => half,
    };
    let count = half / bench.cut.max(1) as usize;
    workload.requests = workload.requests.into_iter().skip(from).take(count).collect();
    let start = workload
        .requests
        .first()
        .map_or(Duration::ZERO, |request| request.at);
    for request in &mut workload.requests {
        request.at = request.at.saturating_sub(start);
        request.class = 0;
    }
    workload.classes = vec![Class {
        name: Arc::from("all"),
        slo,
    }];
    Ok(workload)
}

fn sped(mut workload: Workload, speed: f64, seed: u64) -> Workload {
    transform::speed_up(&mut workload, speed);
    transform::jitter(&mut workload, seed);
    workload
}
