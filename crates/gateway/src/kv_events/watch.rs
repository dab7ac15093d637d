//! One task for each endpoint whose engine tells of its cache.

use super::status::Status;
use super::subscriber::Subscriber;
use crate::gateway::Gateway;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::AbortHandle;
use weighbridge_config::kv_events::KvEvents;
use weighbridge_core::signals::CacheChange;
use weighbridge_core::{EndpointId, Event};

struct Followed {
    events: KvEvents,
    task: AbortHandle,
}

/// Follows the engines of whatever the gateway runs on, for ever.
pub(crate) async fn run(gateway: Arc<Gateway>) {
    let mut followed: BTreeMap<EndpointId, Followed> = BTreeMap::new();
    let mut replaced = gateway.replaced.subscribe();
    loop {
        let snapshot = gateway.snapshot_full();
        let wanted = |id: &EndpointId| {
            snapshot
                .upstream(*id)
                .and_then(|upstream| upstream.kv_events.as_ref())
        };
        followed.retain(|id, followed| {
            let stays = wanted(id) == Some(&followed.events);
            if !stays {
                followed.task.abort();
                gateway.kv.remove(*id);
                // An endpoint that is gone holds nothing anyway.
                let changes = vec![CacheChange::Lost];
                gateway.tell(Event::Cache {
                    endpoint: *id,
                    changes,
                });
            }
            stays
        });
        for upstream in snapshot.upstreams() {
            let Some(events) = &upstream.kv_events else {
                continue;
            };
            if followed.contains_key(&upstream.id) {
                continue;
            }
            let status = Arc::new(Status::new(upstream.pool_name(), &upstream.name));
            gateway.kv.add(upstream.id, status.clone());
            let told = upstream.pool.blocks.told.clone();
            let of = (events.replay.clone(), status, told);
            let subscriber = Subscriber::new(gateway.clone(), upstream.id, of);
            let task = tokio::task::spawn_local(subscriber.run(events.source.clone())).abort_handle();
            followed.insert(
                upstream.id,
                Followed {
                    events: events.clone(),
                    task,
                },
            );
        }
        drop(snapshot);
        // The sender is the gateway's own, which lives as long as this.
        let _ = replaced.changed().await;
    }
}
