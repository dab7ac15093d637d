//! `scrape` and `gpu_metrics`.

use super::pools::path;
use crate::forms::{OneOrMany, Toggle};
use crate::leaf::or;
use crate::model::pools as model;
use crate::model::scrape::Scrape as Given;
use crate::read::{At, Reader};
use crate::resolved::{Endpoint, Kind};
use crate::scrape::{GpuMetrics, Scrape};
use crate::units::show_duration;
use std::collections::HashMap;
use std::time::Duration;

/// Unless the config says otherwise.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);
/// Engines build their page anew each time they are asked.
const INTERVAL_MIN: Duration = Duration::from_millis(50);

/// None: the pool's engines are not asked.
pub(super) fn scrape(
    reader: &mut Reader<'_>,
    given: Option<At<Toggle<Given>>>,
    kind: Kind,
) -> Option<Scrape> {
    let (node, given) = match given {
        None => {
            return kind.metrics().map(|path| Scrape {
                path: path.to_owned(),
                port: None,
                interval: INTERVAL,
                names: Vec::new(),
            });
        }
        Some(At {
            value: Toggle::Off, ..
        }) => return None,
        Some(At {
            node,
            value: Toggle::On(given),
        }) => (node, given),
    };
    if kind.is_provider() {
        reader.warn(
            node,
            format!("providers such as `{}` have no metrics to read", kind.as_str()),
            "remove `scrape`, unless a proxy of yours before the provider has them",
        );
    }
    let mut interval = or(
        given.interval.as_ref().map(|at| At {
            node: at.node,
            value: at.value.0,
        }),
        |span| span,
        INTERVAL,
    );
    if let Some(at) = given.interval.filter(|_| interval < INTERVAL_MIN) {
        reader.problem(
            at.node,
            format!("`{}` is less than {}", show_duration(interval), show_duration(INTERVAL_MIN)),
            "an engine builds its page anew each time; `1s` is enough, because the gateway counts its own requests between two readings",
        );
        interval = INTERVAL;
    }
    Some(Scrape {
        path: path(reader, given.path).unwrap_or_else(|| kind.metrics().unwrap_or("/metrics").to_owned()),
        port: given.port.and_then(|port| u16::try_from(port.value.0).ok()),
        interval,
        names: given.names.map(|names| names.value.given()).unwrap_or_default(),
    })
}

/// The GPU gauges of one endpoint.
pub(super) fn gpus(
    reader: &mut Reader<'_>,
    url: Option<At<crate::address::Url>>,
    indexes: Option<At<OneOrMany<model::GpuIndex>>>,
    uuids: Option<At<OneOrMany<crate::leaf::Name>>>,
) -> Option<GpuMetrics> {
    let Some(url) = url else {
        let named = indexes
            .map(|at| (at.node, "gpu_index"))
            .or(uuids.map(|at| (at.node, "gpu_uuid")));
        if let Some((node, key)) = named {
            reader.problem(
                node,
                format!("`{key}` says which GPU of an exporter it is, but there is no `gpu_metrics`"),
                "add the exporter's page, as `gpu_metrics: http://host:9400/metrics`",
            );
        }
        return None;
    };
    let mut url = url.value.0;
    if url.prefix.is_empty() {
        "/metrics".clone_into(&mut url.prefix);
    }
    Some(GpuMetrics {
        url,
        indexes: or(
            indexes,
            |all| all.0.into_iter().map(|index| index.value.0).collect(),
            Vec::new(),
        ),
        uuids: or(
            uuids,
            |all| all.0.into_iter().map(|uuid| uuid.value.0).collect(),
            Vec::new(),
        ),
    })
}

/// Warns where several endpoints read one exporter and nothing tells their GPUs apart.
pub(super) fn shared_gpus(reader: &mut Reader<'_>, node: crate::yaml::NodeId, endpoints: &[Endpoint]) {
    let mut users: HashMap<_, (usize, bool)> = HashMap::new();
    for gpus in endpoints.iter().filter_map(|endpoint| endpoint.gpus.as_ref()) {
        let (count, all) = users.entry(gpus.url.identity()).or_default();
        *count += 1;
        *all |= gpus.indexes.is_empty() && gpus.uuids.is_empty();
    }
    if users.values().any(|(count, all)| *count > 1 && *all) {
        reader.warn(
            node,
            "several endpoints read the GPUs of one exporter, and one of them does not say which are its own, so it counts all",
            "give each its `gpu_index` (or `gpu_uuid`)",
        );
    }
}
