//! The record of one request: filled while it runs, turned into its log line and its metrics at its end.

use super::log::LogWriter;
use super::metrics::Metrics;
use super::outcome::Outcome;
use super::slowest::Slowest;
use super::trace::{Trace, TraceId};
use crate::clock::rfc3339;
use crate::snapshot::{RouteEntry, Upstream};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use weighbridge_config::resolved::{Log, LogRequests};
use weighbridge_core::explain::Explanation;
use weighbridge_store::{KeyRecord, Usage as UsageStore, UsageTotal};
use weighbridge_wire::{Api, Usage};

/// What is known of a request so far.
pub struct Record {
    /// As the client sees it.
    pub request_id: Arc<str>,
    pub(crate) trace: Trace,
    pub(crate) api: Option<Api>,
    pub(crate) key: Option<Arc<KeyRecord>>,
    pub(crate) route: Option<Arc<RouteEntry>>,
    pub(crate) target: Option<u16>,
    pub(crate) upstream: Option<Arc<Upstream>>,
    pub(crate) model: Option<String>,
    pub(crate) stream: bool,
    /// Arrival of the request's head.
    pub(crate) started: Instant,
    pub(crate) started_wall: SystemTime,
    /// Last byte of the request's body.
    pub(crate) received: Instant,
    /// Handed to the first upstream connection.
    pub(crate) dispatched: Option<Instant>,
    pub(crate) first_token: Option<Instant>,
    pub(crate) last_token: Option<Instant>,
    pub(crate) decision_time: Duration,
    pub(crate) attempts: u32,
    pub(crate) content_events: u64,
    pub(crate) usage: Option<Usage>,
    /// Whether the upstream did not say it all.
    pub(crate) usage_estimated: bool,
    /// Of the latest decision, where the client asked for it.
    pub(crate) explanation: Option<Box<Explanation>>,
    /// Why it failed, for the log: never a secret, never prompt text.
    pub(crate) reason: Option<String>,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    request_id: &'a str,
    trace_id: TraceId,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    route_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preset: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preset_implied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    endpoint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_estimated: Option<bool>,
    queue_ms: f64,
    route_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_token_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inference_ms: Option<f64>,
    total_ms: f64,
    attempts: u32,
    outcome: &'static str,
    status: u16,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

/// Where records go.
pub struct Sink {
    /// Series.
    pub metrics: Metrics,
    /// Log lines.
    pub log: LogWriter,
    /// Totals per key.
    pub usage: Arc<dyn UsageStore>,
    /// Tells the slowest requests.
    pub slowest: Slowest,
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

impl Record {
    /// A request whose head has just arrived.
    #[must_use]
    pub(crate) fn new(request_id: Arc<str>, trace: Trace) -> Self {
        let started = Instant::now();
        Self {
            request_id,
            trace,
            api: None,
            key: None,
            route: None,
            target: None,
            upstream: None,
            model: None,
            stream: false,
            started,
            started_wall: SystemTime::now(),
            received: started,
            dispatched: None,
            first_token: None,
            last_token: None,
            decision_time: Duration::ZERO,
            attempts: 0,
            content_events: 0,
            usage: None,
            usage_estimated: false,
            explanation: None,
            reason: None,
        }
    }

    fn target_name(&self) -> Option<&Arc<str>> {
        let route = self.route.as_ref()?;
        route
            .targets
            .get(usize::from(self.target?))
            .map(|target| &target.name)
    }

    /// The request is over: `status` is what the client got (499 where it left).
    pub(crate) fn finish(&mut self, (sink, log): (&Sink, &Log), outcome: Outcome, status: u16) {
        let now = Instant::now();
        self.count(sink, outcome, now);
        let took = now.duration_since(self.started);
        let slow =
            sink.slowest.is_among(log.slow_share * 100.0, took) || log.slow.is_some_and(|slow| took >= slow);
        let wanted = match log.requests {
            LogRequests::All => true,
            LogRequests::Errors => false,
            LogRequests::Share(share) => share_of(&self.request_id) < share,
        };
        if wanted || slow || outcome.is_failure() {
            sink.log.line(self.line(outcome, status, now));
        }
    }

    fn count(&self, sink: &Sink, outcome: Outcome, now: Instant) {
        let Some(route) = &self.route else {
            sink.metrics.routeless(outcome);
            return;
        };
        let target = self
            .target
            .and_then(|index| route.targets.get(usize::from(index)));
        let series = target.map_or(&route.unserved, |target| &target.series);
        series.request(outcome);
        sink.metrics.decided(self.decision_time.as_secs_f64());
        if let Some(dispatched) = self.dispatched {
            sink.metrics
                .overhead(dispatched.duration_since(self.received).as_secs_f64());
            series.duration(now.duration_since(self.received).as_secs_f64());
        }
        if let Some(first) = self.first_token {
            series.first_token(first.duration_since(self.received).as_secs_f64());
            let tokens = self
                .usage
                .filter(|_| !self.usage_estimated)
                .map_or(self.content_events, |usage| usage.completion_tokens);
            if let (Some(last), Some(further @ 1..)) = (self.last_token, tokens.checked_sub(1)) {
                #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
                series.per_token(last.duration_since(first).as_secs_f64() / further as f64);
            }
        }
        if let Some(usage) = self.usage {
            let cached = usage.cached_tokens.unwrap_or_default();
            series.tokens([usage.prompt_tokens, usage.completion_tokens, cached]);
        }
        if let (Some(key), Some(usage)) = (&self.key, self.usage) {
            sink.usage.add(
                &key.name,
                UsageTotal {
                    requests: 1,
                    prompt_tokens: usage.prompt_tokens,
                    completion_tokens: usage.completion_tokens,
                },
            );
        }
    }

    fn line(&self, outcome: Outcome, status: u16, now: Instant) -> Vec<u8> {
        let labels = self.upstream.as_ref().map(|upstream| &upstream.labels);
        let behind = self.route.as_ref().and_then(|route| route.behind);
        let line = Line {
            time: rfc3339(self.started_wall),
            request_id: &self.request_id,
            trace_id: self.trace.id,
            key: self.key.as_ref().map(|key| &*key.name),
            tenant: self.key.as_ref().and_then(|key| key.tenant.as_deref()),
            api: self.api.map(Api::path),
            route: self.route.as_ref().map(|route| &*route.name),
            route_by: self.route.as_ref().map(|route| route.route_by),
            preset: behind.map(|behind| behind.preset),
            preset_implied: behind.map(|behind| behind.implied),
            target: self.target_name().map(|name| &**name),
            endpoint: self.upstream.as_ref().map(|upstream| &*upstream.name),
            gpu_type: labels.and_then(|labels| {
                labels
                    .iter()
                    .find(|(label, _)| label == "gpu")
                    .map(|(_, value)| value.as_str())
            }),
            model: self.model.as_deref(),
            prompt_tokens: self.usage.map(|usage| usage.prompt_tokens),
            completion_tokens: self.usage.map(|usage| usage.completion_tokens),
            cached_tokens: self.usage.and_then(|usage| usage.cached_tokens),
            usage_estimated: self.usage_estimated.then_some(true),
            queue_ms: 0.0,
            route_us: millis(self.decision_time) * 1e3,
            first_token_ms: self
                .first_token
                .map(|first| millis(first.duration_since(self.received))),
            inference_ms: self
                .dispatched
                .map(|dispatched| millis(now.duration_since(dispatched))),
            total_ms: millis(now.duration_since(self.started)),
            attempts: self.attempts,
            outcome: outcome.as_str(),
            status,
            stream: self.stream,
            reason: self.reason.as_deref(),
        };
        let mut text = serde_json::to_vec(&line).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

/// A number in [0, 1) that depends on the request id alone, so that all replicas log the same requests.
fn share_of(request_id: &str) -> f64 {
    let hash = request_id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
    let share = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
    share
}
