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

/// A public trace.
struct Trace {
    /// Under the folder of public data.
    file: &'static str,
    /// Its first so many are used, one half of them as one slice and the other as another.
    requests: usize,
    /// Seconds within which a first token counts as in time; tokens after it have 100 ms each.
    first_token_s: u64,
}

const MOONCAKE: Trace = Trace {
    file: "traces/mooncake_conversation_first_half.jsonl",
    requests: 5600,
    first_token_s: 3,
};
const AZURE: Trace = Trace {
    file: "traces/AzureLLMInferenceTrace_conv.csv",
    requests: 19_200,
    first_token_s: 1,
};

impl Traffic {
    /// The requests, at `load` times their rate.
    pub(super) fn workload(
        self,
        (bench, load): (&Bench, f64),
        (slice, seed): (Slice, u64),
    ) -> Result<Workload, CaseError> {
        match self {
            Self::Mooncake { speed } => MOONCAKE.sped((bench, speed * load), (slice, seed)),
            Self::Azure { speed } => AZURE.sped((bench, speed * load), (slice, seed)),
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

/// Cuts a description short, and multiplies its rates and workers.
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
    loops.for_each(|workers| {
        workers.requests = workers.requests.div_ceil(by.max(1));
        workers.users = times(workers.users, load);
    });
}

/// So many times as many workers, at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "workers are few, and no load is below 0"
)]
fn times(users: u32, load: f64) -> u32 {
    ((f64::from(users) * load).round() as u32).max(1)
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

impl Trace {
    /// A slice of it, so many times as fast, what has one time spread by the seed.
    fn sped(
        &self,
        (bench, speed): (&Bench, f64),
        (slice, seed): (Slice, u64),
    ) -> Result<Workload, CaseError> {
        let mut workload = self.half(bench, slice)?;
        transform::speed_up(&mut workload, speed);
        transform::jitter(&mut workload, seed);
        Ok(workload)
    }

    /// One half of its requests, all of one class.
    fn half(&self, bench: &Bench, slice: Slice) -> Result<Workload, CaseError> {
        let path = bench.data.join(self.file);
        let failed = |why: String| CaseError::Data {
            path: path.clone(),
            why,
        };
        let source = File::open(&path).map_err(|error| failed(error.to_string()))?;
        let read =
            read(BufReader::new(source), self.file, None).map_err(|error| failed(error.to_string()))?;
        let mut workload = read.workload;
        let half = self.requests / 2;
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
            slo: Slo {
                first_token: Some(Duration::from_secs(self.first_token_s)),
                per_token: Some(Duration::from_millis(100)),
                end_to_end: None,
            },
        }];
        Ok(workload)
    }
}
