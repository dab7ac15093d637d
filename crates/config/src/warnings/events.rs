//! KV events that come to nothing.

use crate::kv_events::{Place, Source};
use crate::read::Reader;
use crate::resolve::Resolved;
use crate::yaml::NodeId;
use std::collections::BTreeMap;
use weighbridge_core::spec::RouteSpec;
use weighbridge_core::work::Needs;

/// Warns of events at which no route over their pool looks, and of two engines that are said to publish at one place.
pub(crate) fn events(reader: &mut Reader<'_>, routes: &[RouteSpec], pools: &[Resolved]) {
    let mut published: BTreeMap<Place, String> = BTreeMap::new();
    for (index, pool) in pools.iter().enumerate() {
        // Where there is no choice, nothing decides.
        let chosen = pool.spec.endpoints.len() > 1;
        let mut unread = chosen
            && !routes.iter().any(|route| {
                let over = route.targets.iter().any(|target| target.pool == index);
                over && route.needs().meets(Needs::BLOCKS)
            });
        for (endpoint, place) in told(reader, pool) {
            let events = pool
                .pool
                .endpoints
                .get(endpoint)
                .and_then(|endpoint| endpoint.kv_events.as_ref());
            if let Some(Source::Connect(publisher)) = events.map(|events| &events.source) {
                twice(reader, place, (&mut published, publisher));
            }
            if std::mem::take(&mut unread) {
                reader.warn(
                    place,
                    format!(
                        "no route over the pool `{}` looks at what its engines hold, so their events decide nothing",
                        pool.spec.name
                    ),
                    "write `preset: auto`, or add `prefix_cache` to the policies of its route, or leave `kv_events` out",
                );
            }
        }
    }
}

/// Warns where an engine's events are read from where another's are: one of both would be believed to hold what the other does.
fn twice(
    reader: &mut Reader<'_>,
    place: NodeId,
    (published, publisher): (&mut BTreeMap<Place, String>, &Place),
) {
    let own = reader.tree.path(place);
    let Some(other) = published.insert(publisher.clone(), own) else {
        return;
    };
    reader.warn(
        place,
        format!("`{publisher}` is where `{other}` reads from too, so both engines are believed to hold what that one tells"),
        "give each engine the place where it publishes itself",
    );
}

/// The endpoints that have events, by their places in the config.
fn told(reader: &mut Reader<'_>, pool: &Resolved) -> Vec<(usize, NodeId)> {
    let list = reader.child(pool.node, "endpoints");
    let endpoints = list.map(|list| reader.children(list)).unwrap_or_default();
    let events = endpoints.into_iter().enumerate();
    events
        .filter_map(|(at, endpoint)| Some((at, reader.child(endpoint, "kv_events")?)))
        .collect()
}
