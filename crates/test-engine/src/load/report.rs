//! Counting and reporting.

use super::exchange::{Answered, Failure};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longest time that is told apart, ten minutes in nanoseconds.
const LONGEST_NS: u64 = 600_000_000_000;

/// Quantiles of a time, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Number of samples.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Half of the samples are at most this.
    pub p50: f64,
    /// 90 % of the samples are at most this.
    pub p90: f64,
    /// 99 % of the samples are at most this.
    pub p99: f64,
    /// 99.9 % of the samples are at most this.
    pub p999: f64,
    /// The largest sample.
    pub max: f64,
}

impl Latency {
    fn of(times: &Histogram<u64>) -> Latency {
        let us = |ns: u64| (ns as f64 / 100.0).round() / 10.0;
        let at = |q| us(times.value_at_quantile(q));
        Latency {
            count: times.len(),
            mean: (times.mean() / 100.0).round() / 10.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: us(times.max()),
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Requests answered as they should be.
    pub requests: u64,
    /// Requests that failed, of whatever kind.
    pub errors: u64,
    /// Failures by kind: `connect`, `write`, `closed`, `reset`, `truncated`, `timeout`, `bad_response`,
    /// `stream_without_end`, `status_N`.
    pub errors_by_kind: BTreeMap<String, u64>,
    /// Open loop: requests that were due and never sent because all connections were busy.
    pub unsent: u64,
    /// True if the run was cut off because answers did not come.
    pub cut_off: bool,
    /// Seconds in which requests were begun.
    pub seconds: f64,
    /// Good answers per second.
    pub rps: f64,
    /// Time of good answers, from due or sent to the last byte.
    pub latency_us: Latency,
    /// Streams: time to the first byte of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_chunk_us: Option<Latency>,
    /// Streams: time between two arrivals of body bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_gap_us: Option<Latency>,
    /// Streams of stamped events: from when an event was written to its arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<Latency>,
    /// Streams: events received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Body bytes received.
    pub bytes: u64,
}

/// What the connections count together.
pub(super) struct Tally {
    latency: Histogram<u64>,
    first_chunk: Histogram<u64>,
    gaps: Histogram<u64>,
    delays: Histogram<u64>,
    errors: BTreeMap<String, u64>,
    events: u64,
    bytes: u64,
    streams: bool,
}

impl Default for Tally {
    fn default() -> Tally {
        let histogram = || Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("fixed bounds that are valid");
        let (latency, first_chunk, gaps, delays) = (histogram(), histogram(), histogram(), histogram());
        Tally {
            latency,
            first_chunk,
            gaps,
            delays,
            errors: BTreeMap::new(),
            events: 0,
            bytes: 0,
            streams: false,
        }
    }
}

fn record(times: &mut Histogram<u64>, time: Duration) {
    times.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1));
}

impl Tally {
    /// Counts one request that was due at `due`.
    pub(super) fn add(&mut self, due: Instant, outcome: Result<Answered<'_>, Failure>) {
        match outcome {
            Err(failure) => *self.errors.entry(failure.kind()).or_default() += 1,
            Ok(answered) => {
                record(&mut self.latency, answered.end.saturating_duration_since(due));
                self.bytes += answered.bytes;
                if let Some(first) = answered.first_chunk {
                    self.streams = true;
                    self.events += answered.events;
                    record(&mut self.first_chunk, first.saturating_duration_since(due));
                    for gap in answered.gaps {
                        record(&mut self.gaps, *gap);
                    }
                    for delay in answered.delays {
                        record(&mut self.delays, *delay);
                    }
                }
            }
        }
    }

    pub(super) fn report(self, time: Duration, unsent: u64, whole: bool) -> Report {
        let requests = self.latency.len();
        let streams = |value| self.streams.then_some(value);
        Report {
            requests,
            errors: self.errors.values().sum(),
            errors_by_kind: self.errors,
            unsent,
            cut_off: !whole,
            seconds: time.as_secs_f64(),
            rps: (requests as f64 / time.as_secs_f64() * 10.0).round() / 10.0,
            latency_us: Latency::of(&self.latency),
            first_chunk_us: streams(Latency::of(&self.first_chunk)),
            chunk_gap_us: streams(Latency::of(&self.gaps)),
            delay_us: streams(Latency::of(&self.delays)).filter(|delay| delay.count > 0),
            events: self.streams.then_some(self.events),
            bytes: self.bytes,
        }
    }
}
