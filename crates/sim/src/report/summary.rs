//! One run in figures.

use super::distribution::{Distribution, Sorted};
use super::objective::{Measure, Objective, Objectives, Statistic};
use crate::outcome::{EndpointRun, Fate, Record, Run};
use crate::workload::{Slo, Workload};
use serde::Serialize;
use std::time::Duration;

/// One run in figures. Times are in seconds, shares from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// The run's seed.
    pub seed: u64,
    /// All requests.
    #[serde(flatten)]
    pub served: Served,
    /// The engines.
    #[serde(flatten)]
    pub fleet: FleetUse,
    /// The objectives given, each with what became of it.
    #[serde(rename = "slo")]
    pub objectives: Vec<Checked>,
    /// Requests by class, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_class: Vec<Part>,
    /// Requests by tenant, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_tenant: Vec<Part>,
}

/// A part of the requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The class or tenant.
    pub name: String,
    /// Its requests.
    #[serde(flatten)]
    pub served: Served,
}

/// An objective and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// The objective.
    #[serde(flatten)]
    pub objective: Objective,
    /// The value of the run, seconds; none: no answer has one.
    pub seconds: Option<f64>,
    /// Whether the bound is kept. A run that answers nothing keeps none.
    pub met: bool,
}

/// What came of some requests. Times are those of answered requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Served {
    /// Requests.
    pub requests: u64,
    /// Answered in full.
    pub answered: u64,
    /// Refused with 429: all candidates full or cooling.
    pub rejected: u64,
    /// Refused with 503: nothing in service.
    pub unavailable: u64,
    /// Longer than any engine's context.
    pub too_long: u64,
    /// No first token came in time: 504.
    pub timed_out: u64,
    /// Its engine failed and no other took it.
    pub failed: u64,
    /// From the client's sending to the first token.
    #[serde(rename = "ttft_seconds")]
    pub ttft: Option<Distribution>,
    /// (last token − first token) ÷ (output tokens − 1), of answers with two tokens or more.
    #[serde(rename = "tpot_seconds")]
    pub tpot: Option<Distribution>,
    /// From the client's sending to the last token.
    #[serde(rename = "e2e_seconds")]
    pub e2e: Option<Distribution>,
    /// From the client's sending until the engine that answered begins to compute; failed attempts before count in.
    #[serde(rename = "queue_wait_seconds")]
    pub queue_wait: Option<Distribution>,
    /// Answered requests per second, from the first request to the end of the last.
    pub requests_per_second: f64,
    /// Tokens of answered requests per second, over the same time.
    pub output_tokens_per_second: f64,
    /// Share of all requests that were answered within their bounds; none: nothing has a bound.
    pub goodput_share: Option<f64>,
    /// Of those, how many per second.
    pub goodput_per_second: Option<f64>,
    /// Cached prompt tokens ÷ prompt tokens, of requests that an engine began with.
    pub hit_ratio: Option<f64>,
}

/// How the engines were used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FleetUse {
    /// From the first request to the end of the last, seconds.
    pub duration_seconds: f64,
    /// Endpoints that took part.
    pub endpoints: u64,
    /// Attempts sent, retries among them.
    pub attempts: u64,
    /// Prompt tokens that had to be computed, per endpoint and second in service: the busiest ÷ the mean. 1: even.
    pub uncached_busiest_over_mean: Option<f64>,
    /// The same of the idlest. 1: even, 0: one computes nothing.
    pub uncached_idlest_over_mean: Option<f64>,
    /// Attempts per endpoint and second in service: the busiest ÷ the mean.
    pub attempts_busiest_over_mean: Option<f64>,
    /// The same of the idlest.
    pub attempts_idlest_over_mean: Option<f64>,
    /// GPUs × seconds in service.
    pub gpu_seconds: f64,
    /// Share of those in which the engine computed.
    pub busy_share: Option<f64>,
    /// What they cost, in the currency of the prices given; none: no price is known.
    pub cost: Option<f64>,
    /// Cost per million tokens of answers.
    pub cost_per_million_output_tokens: Option<f64>,
    /// What the tokens of prompts and answers cost by the prices of the pools; none: no pool has one.
    pub token_cost: Option<f64>,
    /// Share of the attempts that went into another zone; none: no zone is known.
    pub cross_zone_share: Option<f64>,
    /// Times that a running sequence lost its cache and had to start over.
    pub preemptions: u64,
}

impl Summary {
    /// Of a run of this workload. `objectives` are checked, and hold for every request's goodput; without any, each class's
    /// own bounds do.
    #[must_use]
    pub fn of(run: &Run, workload: &Workload, objectives: &Objectives) -> Self {
        let given = (!objectives.0.is_empty()).then(|| objectives.slo());
        let slos: Vec<Slo> = match given {
            Some(slo) => vec![slo; workload.classes.len().max(1)],
            None => workload.classes.iter().map(|class| class.slo).collect(),
        };
        let whole = Whole {
            slos: &slos,
            span: span(run),
        };
        let records: Vec<&Record> = run.records.iter().collect();
        let times = Times::of(&records);
        let names = |place: usize, names: &[String]| names.get(place).cloned().unwrap_or_default();
        let classes: Vec<String> = workload
            .classes
            .iter()
            .map(|class| class.name.to_string())
            .collect();
        let tenants: Vec<String> = workload.tenants.iter().map(ToString::to_string).collect();
        let parts = |all: &[String], of: fn(&Record) -> u16| -> Vec<Part> {
            if all.len() < 2 {
                return Vec::new();
            }
            split(&records, all.len(), of)
                .into_iter()
                .enumerate()
                .map(|(place, records)| Part {
                    name: names(place, all),
                    served: whole.served(&records, &Times::of(&records)),
                })
                .collect()
        };
        let served = whole.served(&records, &times);
        Self {
            seed: 0,
            fleet: FleetUse::of(run, whole.span),
            objectives: objectives
                .0
                .iter()
                .map(|&objective| times.check(objective))
                .collect(),
            by_class: parts(&classes, |record| record.class),
            by_tenant: parts(&tenants, |record| record.tenant),
            served,
        }
    }
}

/// Seconds from the first request to the end of the last.
fn span(run: &Run) -> f64 {
    let first = run
        .records
        .iter()
        .map(|record| record.arrived)
        .min()
        .unwrap_or_default();
    run.ended.saturating_sub(first).as_secs_f64()
}

/// The records of each class or tenant; one that counts beyond them belongs to the first.
fn split<'a>(records: &[&'a Record], parts: usize, of: fn(&Record) -> u16) -> Vec<Vec<&'a Record>> {
    let mut split = vec![Vec::new(); parts];
    for &record in records {
        let place = usize::from(of(record));
        if let Some(part) = split.get_mut(if place < parts { place } else { 0 }) {
            part.push(record);
        }
    }
    split
}

/// The times of answered requests.
struct Times {
    ttft: Sorted,
    tpot: Sorted,
    e2e: Sorted,
    queue_wait: Sorted,
}

impl Times {
    fn of(records: &[&Record]) -> Self {
        let answered = || {
            records
                .iter()
                .copied()
                .filter(|record| record.fate == Fate::Answered)
        };
        Self {
            ttft: Sorted::of(answered().filter_map(ttft).map(nanos)),
            tpot: Sorted::of(answered().filter_map(tpot).map(nanos)),
            e2e: Sorted::of(answered().map(|record| nanos(e2e(record)))),
            queue_wait: Sorted::of(answered().filter_map(queue_wait).map(nanos)),
        }
    }

    fn check(&self, objective: Objective) -> Checked {
        let sorted = match objective.measure {
            Measure::Ttft => &self.ttft,
            Measure::Tpot => &self.tpot,
            Measure::E2e => &self.e2e,
            Measure::QueueWait => &self.queue_wait,
        };
        let seconds = match objective.statistic {
            Statistic::Mean => sorted.mean(),
            Statistic::Percentile(percent) => sorted.percentile(percent),
        };
        let bound = objective.bound.as_secs_f64();
        Checked {
            objective,
            seconds,
            met: seconds.is_some_and(|seconds| seconds <= bound),
        }
    }
}

/// Time to first token.
pub(super) fn ttft(record: &Record) -> Option<Duration> {
    Some(record.first?.saturating_sub(record.arrived))
}

/// Time per output token after the first.
fn tpot(record: &Record) -> Option<Duration> {
    let after_first = record.output_tokens.checked_sub(1).filter(|&tokens| tokens > 0)?;
    Some(record.ended.saturating_sub(record.first?) / after_first)
}

fn e2e(record: &Record) -> Duration {
    record.ended.saturating_sub(record.arrived)
}

fn queue_wait(record: &Record) -> Option<Duration> {
    Some(record.scheduled?.saturating_sub(record.arrived))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What all parts of a run share.
struct Whole<'a> {
    /// One per class, or one for all; none: nothing has a bound.
    slos: &'a [Slo],
    /// Seconds of the run.
    span: f64,
}

impl Whole<'_> {
    fn served(&self, records: &[&Record], times: &Times) -> Served {
        let count = |fate: Fate| records.iter().filter(|record| record.fate == fate).count() as u64;
        let sum = |of: fn(&Record) -> u32, wanted: &dyn Fn(&&Record) -> bool| -> u64 {
            records
                .iter()
                .copied()
                .filter(wanted)
                .map(|record| u64::from(of(record)))
                .sum()
        };
        let began = |record: &&Record| record.scheduled.is_some();
        let prompt = sum(|record| record.prompt_tokens, &began);
        let cached = sum(|record| record.cached_tokens, &began);
        let output = sum(|record| record.output_tokens, &|record| {
            record.fate == Fate::Answered
        });
        let answered = count(Fate::Answered);
        let bounded = self.slos.iter().any(|slo| *slo != Slo::default());
        let in_time = records.iter().filter(|record| self.in_time(record)).count();
        Served {
            requests: records.len() as u64,
            answered,
            rejected: count(Fate::Rejected),
            unavailable: count(Fate::Unavailable),
            too_long: count(Fate::TooLong),
            timed_out: count(Fate::TimedOut),
            failed: count(Fate::Failed),
            ttft: times.ttft.distribution(),
            tpot: times.tpot.distribution(),
            e2e: times.e2e.distribution(),
            queue_wait: times.queue_wait.distribution(),
            requests_per_second: self.per_second(answered as f64),
            output_tokens_per_second: self.per_second(output as f64),
            goodput_share: bounded
                .then(|| ratio(in_time as f64, records.len() as f64))
                .flatten(),
            goodput_per_second: bounded.then(|| self.per_second(in_time as f64)),
            hit_ratio: ratio(cached as f64, prompt as f64),
        }
    }

    fn per_second(&self, number: f64) -> f64 {
        ratio(number, self.span).unwrap_or_default()
    }

    /// Whether it was answered within the bounds of its class.
    fn in_time(&self, record: &Record) -> bool {
        let none = Slo::default();
        let slo = self
            .slos
            .get(usize::from(record.class))
            .or(self.slos.first())
            .unwrap_or(&none);
        let within = |time: Option<Duration>, bound: Option<Duration>| match (time, bound) {
            (Some(time), Some(bound)) => time <= bound,
            // An answer without a second token, or without any, has no such time to be late with.
            (None, _) | (_, None) => true,
        };
        record.fate == Fate::Answered
            && within(ttft(record), slo.first_token)
            && within(tpot(record), slo.per_token)
            && within(Some(e2e(record)), slo.end_to_end)
    }
}

impl FleetUse {
    fn of(run: &Run, span: f64) -> Self {
        let sum = |of: &dyn Fn(&EndpointRun) -> f64| -> f64 { run.endpoints.iter().map(of).sum() };
        let gpu_seconds = sum(&|endpoint| f64::from(endpoint.gpus) * endpoint.in_service.as_secs_f64());
        let busy = sum(&|endpoint| f64::from(endpoint.gpus) * endpoint.busy.as_secs_f64());
        let cost = sum(&|endpoint| {
            f64::from(endpoint.gpus) * endpoint.in_service.as_secs_f64() / 3600.0 * endpoint.gpu_hour
        });
        let priced = run.endpoints.iter().any(|endpoint| endpoint.gpu_hour > 0.0);
        let answered = run.records.iter().filter(|record| record.fate == Fate::Answered);
        let output: u64 = answered.map(|record| u64::from(record.output_tokens)).sum();
        let [uncached_busiest, uncached_idlest] = balance(run, |endpoint| endpoint.uncached_tokens);
        let [attempts_busiest, attempts_idlest] = balance(run, |endpoint| endpoint.attempts);
        Self {
            duration_seconds: span,
            endpoints: run.endpoints.len() as u64,
            attempts: run.attempts,
            uncached_busiest_over_mean: uncached_busiest,
            uncached_idlest_over_mean: uncached_idlest,
            attempts_busiest_over_mean: attempts_busiest,
            attempts_idlest_over_mean: attempts_idlest,
            gpu_seconds,
            busy_share: ratio(busy, gpu_seconds),
            cost: priced.then_some(cost),
            cost_per_million_output_tokens: priced.then(|| ratio(cost * 1e6, output as f64)).flatten(),
            token_cost: token_cost(run),
            cross_zone_share: cross_zone_share(run),
            preemptions: run.endpoints.iter().map(|endpoint| endpoint.preemptions).sum(),
        }
    }
}

fn token_cost(run: &Run) -> Option<f64> {
    let cost = |endpoint: &EndpointRun| {
        let (input, output) = endpoint.price?;
        let prompt = endpoint.uncached_tokens + endpoint.cached_tokens;
        Some((prompt as f64 * input + endpoint.output_tokens as f64 * output) / 1e6)
    };
    run.endpoints
        .iter()
        .filter_map(cost)
        .reduce(|sum, cost| sum + cost)
}

fn cross_zone_share(run: &Run) -> Option<f64> {
    let attempts = |elsewhere: bool| -> u64 {
        let there = run
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.elsewhere == Some(elsewhere));
        there.map(|endpoint| endpoint.attempts).sum()
    };
    let (away, home) = (attempts(true), attempts(false));
    ratio(away as f64, (away + home) as f64)
}

/// The busiest and the idlest endpoint's rate ÷ the mean of all endpoints' rates.
fn balance(run: &Run, of: fn(&EndpointRun) -> u64) -> [Option<f64>; 2] {
    let served = run
        .endpoints
        .iter()
        .filter(|endpoint| !endpoint.in_service.is_zero());
    let rates: Vec<f64> = served
        .map(|endpoint| of(endpoint) as f64 / endpoint.in_service.as_secs_f64())
        .collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let busiest = rates.iter().copied().fold(0.0, f64::max);
    let idlest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    [ratio(busiest, mean), ratio(idlest, mean)]
}

fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

#[cfg(test)]
#[path = "summary_tests.rs"]
mod tests;
