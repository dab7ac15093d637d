//! Prometheus metrics. Labels come from the config only, never from a client.

use super::outcome::Outcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Seconds; from a cache hit to an hour of generation.
const DURATION_BUCKETS: [f64; 16] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 3600.0,
];
/// Seconds; time per token and time to first token.
const TOKEN_BUCKETS: [f64; 14] = [
    0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 120.0,
];
/// Seconds; what the gateway itself adds.
const OVERHEAD_BUCKETS: [f64; 12] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 1e-1,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    route: Arc<str>,
    target: Arc<str>,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TargetLabels {
    route: Arc<str>,
    target: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TokenLabels {
    route: Arc<str>,
    target: Arc<str>,
    kind: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AttemptLabels {
    pool: Arc<str>,
    endpoint: Arc<str>,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    route: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AbstainedLabels {
    policy: String,
    reason: &'static str,
}

#[derive(Clone, Copy)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

type Histograms = Family<TargetLabels, Histogram, Buckets>;

/// All series; cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Series>);

struct Series {
    registry: Mutex<Registry>,
    requests: Family<RequestLabels, Counter>,
    attempts: Family<AttemptLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
    duration: Histograms,
    first_token: Histograms,
    per_token: Histograms,
    retries: Family<RouteLabels, Counter>,
    fallbacks: Family<RouteLabels, Counter>,
    abstained: Family<AbstainedLabels, Counter>,
    session_moves: Counter,
    overhead: Histogram,
    decision: Histogram,
    reload_success: Gauge,
    log_dropped: Counter,
}

impl Metrics {
    /// Registers every metric.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let series = Series {
            requests: Family::default(),
            attempts: Family::default(),
            tokens: Family::default(),
            duration: Family::new_with_constructor(Buckets(&DURATION_BUCKETS)),
            first_token: Family::new_with_constructor(Buckets(&TOKEN_BUCKETS)),
            per_token: Family::new_with_constructor(Buckets(&TOKEN_BUCKETS)),
            retries: Family::default(),
            fallbacks: Family::default(),
            abstained: Family::default(),
            session_moves: Counter::default(),
            overhead: Buckets(&OVERHEAD_BUCKETS).new_metric(),
            decision: Buckets(&OVERHEAD_BUCKETS).new_metric(),
            reload_success: Gauge::default(),
            log_dropped: Counter::default(),
            registry: Mutex::new(Registry::default()),
        };
        series.register(&mut registry);
        *series.registry.lock().unwrap_or_else(PoisonError::into_inner) = registry;
        Self(Arc::new(series))
    }

    /// Registers a collector that is asked at each scrape.
    pub fn collect_from(&self, collector: Box<dyn prometheus_client::collector::Collector>) {
        self.0
            .registry
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .register_collector(collector);
    }

    /// The text that a scrape gets.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        let registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            text.clear();
        }
        text
    }

    pub(crate) fn target(&self, route: &Arc<str>, target: impl Into<Arc<str>> + AsRef<str>) -> TargetSeries {
        TargetSeries {
            metrics: self.clone(),
            labels: TargetLabels {
                route: route.clone(),
                target: target.into(),
            },
            requests: Default::default(),
            tokens: Default::default(),
            histograms: Default::default(),
        }
    }

    pub(crate) fn attempts(&self, pool: &Arc<str>, endpoint: &Arc<str>) -> AttemptCounters {
        AttemptCounters {
            metrics: self.clone(),
            pool: pool.clone(),
            endpoint: endpoint.clone(),
            gone: AtomicBool::new(false),
            counters: Default::default(),
        }
    }

    /// Drops the series of an endpoint that is gone.
    pub(crate) fn forget(&self, of: &AttemptCounters) {
        of.gone.store(true, Ordering::Relaxed);
        for outcome in Outcome::ALL {
            self.0.attempts.remove(&of.labels(outcome));
        }
    }

    /// A request that named no route.
    pub(crate) fn routeless(&self, outcome: Outcome) {
        let labels = RequestLabels {
            route: "".into(),
            target: "".into(),
            outcome: outcome.as_str(),
        };
        self.0.requests.get_or_create(&labels).inc();
    }

    pub(crate) fn retried(&self, route: &Arc<str>) {
        self.0
            .retries
            .get_or_create(&RouteLabels { route: route.clone() })
            .inc();
    }

    pub(crate) fn fell_back(&self, route: &Arc<str>) {
        self.0
            .fallbacks
            .get_or_create(&RouteLabels { route: route.clone() })
            .inc();
    }

    pub(crate) fn abstained(&self, policy: &str, reason: &'static str) {
        self.0
            .abstained
            .get_or_create(&AbstainedLabels {
                policy: policy.to_owned(),
                reason,
            })
            .inc();
    }

    pub(crate) fn session_moved(&self) {
        self.0.session_moves.inc();
    }

    pub(crate) fn overhead(&self, seconds: f64) {
        self.0.overhead.observe(seconds);
    }

    pub(crate) fn decided(&self, seconds: f64) {
        self.0.decision.observe(seconds);
    }

    pub(crate) fn reloaded(&self, well: bool) {
        self.0.reload_success.set(i64::from(well));
    }

    pub(crate) fn log_dropped(&self) -> Counter {
        self.0.log_dropped.clone()
    }

    /// Shows `dropped`, the count of the gateway's own messages that were not read.
    pub fn show_dropped_messages(&self, dropped: Counter) {
        let mut registry = self.0.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register(
            "weighbridge_messages_dropped",
            "Messages of the gateway dropped because standard error was not read",
            dropped,
        );
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Series {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "weighbridge_requests",
            "What the client got, one per request",
            self.requests.clone(),
        );
        registry.register(
            "weighbridge_attempts",
            "Attempts at endpoints, by how they ended",
            self.attempts.clone(),
        );
        registry.register(
            "weighbridge_tokens",
            "Tokens as the upstreams counted them",
            self.tokens.clone(),
        );
        registry.register(
            "weighbridge_request_duration_seconds",
            "From the request's last byte to the answer's last byte",
            self.duration.clone(),
        );
        registry.register(
            "weighbridge_time_to_first_token_seconds",
            "From the request's last byte to the stream's first event that is not a comment",
            self.first_token.clone(),
        );
        registry.register(
            "weighbridge_time_per_output_token_seconds",
            "Stream time after the first token, per further token",
            self.per_token.clone(),
        );
        registry.register(
            "weighbridge_retries",
            "Attempts after the first",
            self.retries.clone(),
        );
        registry.register(
            "weighbridge_fallbacks",
            "Requests handed to another route",
            self.fallbacks.clone(),
        );
        registry.register(
            "weighbridge_policy_abstained",
            "Policies that gave no scores",
            self.abstained.clone(),
        );
        registry.register(
            "weighbridge_session_moves",
            "Requests of a session sent elsewhere than its first choice",
            self.session_moves.clone(),
        );
        registry.register(
            "weighbridge_overhead_seconds",
            "From the request's last byte to its being handed to the upstream connection",
            self.overhead.clone(),
        );
        registry.register(
            "weighbridge_decision_seconds",
            "One decision of the scheduler",
            self.decision.clone(),
        );
        registry.register(
            "weighbridge_config_reload_success",
            "1 if the newest config was taken, 0 if it was refused",
            self.reload_success.clone(),
        );
        registry.register(
            "weighbridge_log_dropped",
            "Request log lines dropped because standard output was not read",
            self.log_dropped.clone(),
        );
    }
}

/// The series of one target of one route, looked up once each.
pub struct TargetSeries {
    metrics: Metrics,
    labels: TargetLabels,
    requests: [OnceLock<Counter>; Outcome::ALL.len()],
    tokens: [OnceLock<Counter>; 3],
    histograms: [OnceLock<Histogram>; 3],
}

/// Kinds of `weighbridge_tokens_total`.
const TOKEN_KINDS: [&str; 3] = ["prompt", "completion", "cached"];

impl TargetSeries {
    pub(crate) fn request(&self, outcome: Outcome) {
        let counter = self.requests[outcome as usize].get_or_init(|| {
            let TargetLabels { route, target } = self.labels.clone();
            let labels = RequestLabels {
                route,
                target,
                outcome: outcome.as_str(),
            };
            self.metrics.0.requests.get_or_create_owned(&labels)
        });
        counter.inc();
    }

    /// Prompt, completion and cached tokens.
    pub(crate) fn tokens(&self, counts: [u64; 3]) {
        for ((cell, kind), count) in self.tokens.iter().zip(TOKEN_KINDS).zip(counts) {
            if count > 0 {
                let counter = cell.get_or_init(|| {
                    let TargetLabels { route, target } = self.labels.clone();
                    self.metrics
                        .0
                        .tokens
                        .get_or_create_owned(&TokenLabels { route, target, kind })
                });
                counter.inc_by(count);
            }
        }
    }

    fn observe(&self, which: usize, family: &Histograms, seconds: f64) {
        self.histograms[which]
            .get_or_init(|| family.get_or_create_owned(&self.labels))
            .observe(seconds);
    }

    pub(crate) fn duration(&self, seconds: f64) {
        self.observe(0, &self.metrics.0.duration, seconds);
    }

    pub(crate) fn first_token(&self, seconds: f64) {
        self.observe(1, &self.metrics.0.first_token, seconds);
    }

    pub(crate) fn per_token(&self, seconds: f64) {
        self.observe(2, &self.metrics.0.per_token, seconds);
    }
}

/// The attempt counters of one endpoint, looked up once each.
pub struct AttemptCounters {
    metrics: Metrics,
    pool: Arc<str>,
    endpoint: Arc<str>,
    /// Its series have been dropped and must not come back.
    gone: AtomicBool,
    counters: [OnceLock<Counter>; Outcome::ALL.len()],
}

impl AttemptCounters {
    pub(crate) fn ended(&self, outcome: Outcome) {
        let counter = self.counters[outcome as usize].get_or_init(|| {
            if self.gone.load(Ordering::Relaxed) {
                return Counter::default();
            }
            self.metrics.0.attempts.get_or_create_owned(&self.labels(outcome))
        });
        counter.inc();
    }

    fn labels(&self, outcome: Outcome) -> AttemptLabels {
        AttemptLabels {
            pool: self.pool.clone(),
            endpoint: self.endpoint.clone(),
            outcome: outcome.as_str(),
        }
    }
}
