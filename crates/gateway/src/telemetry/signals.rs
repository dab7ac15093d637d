//! What engines and GPU exporters say, as gauges and for the admin API.

use crate::scrape::{SignalsAt, Source};
use crate::snapshot::{Snapshot, Upstream};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weighbridge_core::Time;
use weighbridge_core::view::{EndpointView, FleetView};

/// What one page says of an endpoint. Own counts stand elsewhere and are never put together with these.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SignalsShown {
    /// Since the page was read; absent until it has been.
    pub age_seconds: Option<f64>,
    /// Whether it is too old to count, so that the gateway goes by its own counts.
    pub stale: bool,
    /// What it said last, each value under its signal's name.
    pub values: BTreeMap<&'static str, f64>,
    /// Loaded adapters, where the engine names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapters: Option<Vec<Arc<str>>>,
    /// Attempts to read it that failed.
    pub errors: u64,
    /// Why it cannot be read now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
}

/// By page: `engine`, `gpu`. Pages that do not exist or were not asked yet are absent.
pub(crate) fn shown(
    upstream: &Upstream,
    (view, endpoint): (&FleetView, &EndpointView),
) -> BTreeMap<&'static str, SignalsShown> {
    let of = |source: Source| {
        let mut at = upstream.signals.at(source)?;
        if let (Source::Engine, Some((_, read_at)), Some(heard)) = (source, &mut at.last, endpoint.heard_at) {
            // A page that is there but frozen has told nothing since.
            *read_at = heard.min(*read_at);
        }
        Some((source.as_str(), page(at, view.now)))
    };
    Source::ALL.into_iter().filter_map(of).collect()
}

fn page(at: SignalsAt, now: Time) -> SignalsShown {
    let (age, stale) = (at.age(now), at.is_stale(now));
    let found = at.last.map(|(found, _)| found).unwrap_or_default();
    SignalsShown {
        age_seconds: age.map(|age| age.as_secs_f64()),
        stale,
        values: found
            .values
            .known()
            .map(|(signal, value)| (signal.as_str(), value))
            .collect(),
        adapters: found.adapters,
        errors: at.errors,
        error: at.error,
    }
}

/// One page of one endpoint.
struct Line<'a> {
    pool: &'a str,
    endpoint: &'a str,
    source: &'static str,
    shown: SignalsShown,
}

impl Line<'_> {
    fn labels(&self) -> [(&'static str, &str); 3] {
        [
            ("pool", self.pool),
            ("endpoint", self.endpoint),
            ("source", self.source),
        ]
    }
}

/// Writes the gauges. A value that is stale is left out, so that nobody takes it for what is; that it is stale stands in
/// a gauge of its own.
pub(crate) fn encode(
    encoder: &mut DescriptorEncoder,
    snapshot: &Snapshot,
    view: &FleetView,
) -> Result<(), std::fmt::Error> {
    let lines = lines(snapshot, view);
    if lines.is_empty() {
        return Ok(());
    }
    let name = "weighbridge_engine_signal";
    let help = "What the engine, or its GPU's exporter, says; absent where it does not, or too long ago";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for line in lines.iter().filter(|line| !line.shown.stale) {
        for (signal, value) in &line.shown.values {
            let labels = [
                ("pool", line.pool),
                ("endpoint", line.endpoint),
                ("signal", *signal),
            ];
            ConstGauge::new(*value).encode(family.encode_family(&labels)?)?;
        }
    }
    let name = "weighbridge_engine_signal_age_seconds";
    let help = "Since the page was read; absent until it has been";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for line in &lines {
        if let Some(age) = line.shown.age_seconds {
            ConstGauge::new(age).encode(family.encode_family(&line.labels())?)?;
        }
    }
    let name = "weighbridge_engine_signals_stale";
    let help = "1 where what the page said is too old to count, or never came: own counts are used";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for line in &lines {
        ConstGauge::new(i64::from(line.shown.stale)).encode(family.encode_family(&line.labels())?)?;
    }
    let name = "weighbridge_scrape_errors";
    let help = "Attempts to read the page that failed";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for line in &lines {
        ConstCounter::new(line.shown.errors).encode(family.encode_family(&line.labels())?)?;
    }
    Ok(())
}

fn lines<'a>(snapshot: &'a Snapshot, view: &'a FleetView) -> Vec<Line<'a>> {
    let mut seen = BTreeSet::new();
    let mut lines = Vec::new();
    // Those in service come first, so a name has the signals of the one that serves.
    for endpoint in view.endpoints.iter().filter(|endpoint| !endpoint.removed) {
        let Some(upstream) = snapshot.upstream(endpoint.id) else {
            continue;
        };
        if !seen.insert((&endpoint.pool, &endpoint.name)) {
            continue;
        }
        for (source, shown) in shown(upstream, (view, endpoint)) {
            lines.push(Line {
                pool: &endpoint.pool,
                endpoint: &endpoint.name,
                source,
                shown,
            });
        }
    }
    lines
}
