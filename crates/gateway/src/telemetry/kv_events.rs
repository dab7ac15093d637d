//! Series of what engines tell of their caches.

use crate::kv_events::KvShown;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use std::sync::Arc;

/// Name, help, value.
type Series<T> = (&'static str, &'static str, fn(&KvShown) -> T);

const COUNTERS: [Series<u64>; 7] = [
    (
        "weighbridge_kv_batches",
        "Batches of KV events taken on",
        |shown| shown.batches,
    ),
    ("weighbridge_kv_events", "KV events taken on", |shown| {
        shown.events
    }),
    (
        "weighbridge_kv_replays",
        "Times that missing batches were asked for again",
        |shown| shown.replays,
    ),
    (
        "weighbridge_kv_restarts",
        "Times that the engine's publisher began anew",
        |shown| shown.restarts,
    ),
    (
        "weighbridge_kv_losses",
        "Times that batches were missing and could not be had again, so that what the engine holds was forgotten",
        |shown| shown.losses,
    ),
    (
        "weighbridge_kv_unreadable",
        "Messages, batches and events that could not be read, and events of unknown kinds",
        |shown| shown.unreadable,
    ),
    (
        "weighbridge_kv_unplaced_blocks",
        "Blocks that were told of and could not be placed",
        |shown| shown.unplaced,
    ),
];

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
const GAUGES: [Series<Option<f64>>; 5] = [
    (
        "weighbridge_kv_connected",
        "1 while there is a connection to the engine's publisher",
        |shown| Some(f64::from(u8::from(shown.connected))),
    ),
    (
        "weighbridge_kv_whole",
        "1 while everything is known that the engine holds",
        |shown| Some(f64::from(u8::from(shown.whole))),
    ),
    (
        "weighbridge_kv_blocks",
        "Blocks that the engine holds, as far as is known",
        |shown| Some(shown.blocks as f64),
    ),
    (
        "weighbridge_kv_waiting_batches",
        "Batches that wait for missing ones",
        |shown| Some(shown.waiting as f64),
    ),
    (
        "weighbridge_kv_lag_seconds",
        "From when the newest batch was made, by the engine's clock, to when it was taken on, by ours",
        |shown| shown.lag_seconds,
    ),
];

/// Encodes all series of `all`: pool, endpoint, state.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder,
    all: &[(Arc<str>, Arc<str>, KvShown)],
) -> Result<(), std::fmt::Error> {
    if all.is_empty() {
        return Ok(());
    }
    for (name, help, value) in COUNTERS {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (pool, endpoint, shown) in all {
            let labels = [("pool", &**pool), ("endpoint", &**endpoint)];
            ConstCounter::new(value(shown)).encode(family.encode_family(&labels)?)?;
        }
    }
    for (name, help, value) in GAUGES {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (pool, endpoint, shown) in all {
            if let Some(value) = value(shown) {
                let labels = [("pool", &**pool), ("endpoint", &**endpoint)];
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
    }
    Ok(())
}
