//! Gauges that are read from the scheduler at each scrape.

use crate::discovery::SourceShown;
use crate::gateway::Gateway;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use weighbridge_core::view::{FleetView, StateKind};

/// Registers the gauges of `gateway`.
pub(crate) fn register(gateway: &Arc<Gateway>) {
    gateway
        .metrics()
        .collect_from(Box::new(Fleet(Arc::downgrade(gateway))));
}

struct Fleet(Weak<Gateway>);

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fleet")
    }
}

impl Collector for Fleet {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let Some(gateway) = self.0.upgrade() else {
            return Ok(());
        };
        let view = gateway.view();
        inflight(&mut encoder, &view)?;
        states(&mut encoder, &view)?;
        sources(&mut encoder, &gateway)?;
        super::kv_events::encode(&mut encoder, &gateway.kv.all())?;
        balance(&mut encoder, &gateway, &view)?;
        super::signals::encode(&mut encoder, &gateway.snapshot(), &view)?;
        let mut gauge = |name: &str, help: &str, value: i64| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
        };
        let connections = gateway.connections.load(std::sync::atomic::Ordering::Relaxed);
        gauge(
            "weighbridge_connections",
            "Client connections",
            i64::try_from(connections).unwrap_or(i64::MAX),
        )?;
        let running = i64::try_from(gateway.lifecycle.running()).unwrap_or(i64::MAX);
        gauge(
            "weighbridge_requests_running",
            "Requests between their first and last byte",
            running,
        )?;
        gauge(
            "weighbridge_body_memory_bytes",
            "Memory that the bodies of requests take",
            i64::try_from(gateway.body_memory.used()).unwrap_or(i64::MAX),
        )
    }
}

fn inflight(encoder: &mut DescriptorEncoder, view: &FleetView) -> Result<(), std::fmt::Error> {
    let help = "Requests in flight at the endpoint";
    let mut family = encoder.encode_descriptor("weighbridge_inflight", help, None, MetricType::Gauge)?;
    // One that is on its way out counts under its name beside the one that has taken its place.
    let mut counts: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for endpoint in &view.endpoints {
        *counts.entry((&endpoint.pool, &endpoint.name)).or_default() += i64::from(endpoint.inflight);
    }
    for ((pool, endpoint), count) in counts {
        let labels = [("pool", pool), ("endpoint", endpoint)];
        ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

fn states(encoder: &mut DescriptorEncoder, view: &FleetView) -> Result<(), std::fmt::Error> {
    let help = "1 for the state that the endpoint is in";
    let mut family =
        encoder.encode_descriptor("weighbridge_endpoint_state", help, None, MetricType::Gauge)?;
    let mut seen = BTreeSet::new();
    // Those in service come first, so a name has the state of the one that serves.
    for endpoint in &view.endpoints {
        if !seen.insert((&endpoint.pool, &endpoint.name)) {
            continue;
        }
        for kind in StateKind::ALL {
            let labels = [
                ("pool", &*endpoint.pool),
                ("endpoint", &*endpoint.name),
                ("state", kind.as_str()),
            ];
            let value = i64::from(endpoint.state.kind == kind);
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn sources(encoder: &mut DescriptorEncoder, gateway: &Gateway) -> Result<(), std::fmt::Error> {
    let sources = gateway.sources();
    if sources.is_empty() {
        return Ok(());
    }
    let name = "weighbridge_discovery_endpoints";
    let help = "Endpoints that the source of the pool named last";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (pool, source) in &sources {
        let count = i64::try_from(source.endpoints).unwrap_or(i64::MAX);
        ConstGauge::new(count).encode(family.encode_family(&[("pool", &**pool)])?)?;
    }
    let name = "weighbridge_discovery_age_seconds";
    let help = "Since the source last said what the endpoints are; absent until it has";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (pool, source) in &sources {
        if let Some(age) = source.age_seconds {
            ConstGauge::new(age).encode(family.encode_family(&[("pool", &**pool)])?)?;
        }
    }
    let counter =
        |encoder: &mut DescriptorEncoder, (name, help): (&str, &str), of: fn(&SourceShown) -> u64| {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (pool, source) in &sources {
                ConstCounter::new(of(source)).encode(family.encode_family(&[("pool", &**pool)])?)?;
            }
            Ok(())
        };
    let errors = (
        "weighbridge_discovery_errors",
        "Looks at the source that failed, wholly or in part",
    );
    counter(encoder, errors, |source| source.errors)?;
    let changes = (
        "weighbridge_discovery_changes",
        "How often what the source names has changed",
    );
    counter(encoder, changes, |source| source.changes)
}

fn balance(
    encoder: &mut DescriptorEncoder,
    gateway: &Gateway,
    view: &FleetView,
) -> Result<(), std::fmt::Error> {
    let help = "Least ÷ most busy seconds per weight in the pool over the last minute";
    let mut family = encoder.encode_descriptor("weighbridge_balance_ratio", help, None, MetricType::Gauge)?;
    for (pool, ratio) in gateway.balance.ratios(view) {
        ConstGauge::new(ratio).encode(family.encode_family(&[("pool", &*pool)])?)?;
    }
    Ok(())
}
