//! How following goes, for metrics and the admin API.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use weighbridge_core::EndpointId;
use weighbridge_wire::kv_events::Follower;

/// What is known of an engine's cache by its own events.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Serialize)]
pub struct KvShown {
    /// Whether there is a connection to the publisher.
    pub connected: bool,
    /// Blocks that the engine holds, as far as is known.
    pub blocks: usize,
    /// Tokens of a block; absent until one was stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_tokens: Option<u32>,
    /// Whether everything is known that the engine holds.
    pub whole: bool,
    /// Batches of events taken on.
    pub batches: u64,
    /// Events of them.
    pub events: u64,
    /// Batches that wait for missing ones.
    pub waiting: usize,
    /// Times that missing batches were asked for.
    pub replays: u64,
    /// Times that the engine began anew.
    pub restarts: u64,
    /// Times that batches were missing and could not be had again.
    pub losses: u64,
    /// Messages, batches and events that could not be read, and events of unknown kinds.
    pub unreadable: u64,
    /// Blocks that were told of and could not be placed: behind unknown ones, of other sizes, beyond what is kept.
    pub unplaced: u64,
    /// From when the newest batch was made, by the engine's clock, to when it was taken on, by ours; absent where the clocks
    /// disagree: below 0, or above a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_seconds: Option<f64>,
    /// What failed last; absent where nothing has since the last connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The state of one endpoint's following.
#[derive(Debug, Default)]
pub(super) struct Status {
    pool: Arc<str>,
    endpoint: Arc<str>,
    shown: Mutex<KvShown>,
}

impl Status {
    pub(super) fn new(pool: &Arc<str>, endpoint: &Arc<str>) -> Self {
        Self {
            pool: pool.clone(),
            endpoint: endpoint.clone(),
            shown: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, KvShown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn connected(&self) {
        let mut shown = self.lock();
        shown.connected = true;
        shown.error = None;
        tracing::info!(pool = %self.pool, endpoint = %self.endpoint, "following the engine's KV events");
    }

    pub(super) fn disconnected(&self, why: &str) {
        self.lock().connected = false;
        self.failed(why);
    }

    /// Says it once, however often it is tried again.
    pub(super) fn failed(&self, why: &str) {
        let mut shown = self.lock();
        if shown.error.as_deref() != Some(why) {
            tracing::warn!(pool = %self.pool, endpoint = %self.endpoint, "KV events: {why}");
            shown.error = Some(why.to_owned());
        }
    }

    pub(super) fn unreadable(&self) {
        self.lock().unreadable += 1;
    }

    /// Takes over what the follower knows, and how often the engine was asked. `lag` is that of the newest batch, where there
    /// is news of it; one that is not known takes the place of the one before too.
    pub(super) fn update(
        &self,
        follower: &Follower,
        (faults, replays, lag): (u64, u64, Option<Option<f64>>),
    ) {
        let (counts, placed) = (follower.counts(), follower.placed());
        let mut shown = self.lock();
        shown.blocks = follower.held();
        shown.block_tokens = follower.block_size().or(shown.block_tokens);
        shown.whole = follower.whole();
        shown.waiting = follower.waiting();
        shown.batches = counts.batches;
        shown.events = counts.events;
        shown.replays = replays;
        shown.restarts = counts.restarts;
        shown.losses = counts.losses;
        shown.unreadable = counts.broken + counts.unknown + counts.unusable + faults;
        shown.unplaced = placed.orphans + placed.other_size + placed.ambiguous + placed.over;
        shown.lag_seconds = lag.unwrap_or(shown.lag_seconds);
    }
}

/// The state of all following.
#[derive(Debug, Default)]
pub(crate) struct Board {
    followed: Mutex<BTreeMap<EndpointId, Arc<Status>>>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<EndpointId, Arc<Status>>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, id: EndpointId, status: Arc<Status>) {
        self.lock().insert(id, status);
    }

    pub(super) fn remove(&self, id: EndpointId) {
        self.lock().remove(&id);
    }

    /// What is known of this endpoint; none: it has no events.
    pub(crate) fn shown(&self, id: EndpointId) -> Option<KvShown> {
        self.lock().get(&id).map(|status| status.lock().clone())
    }

    /// Of all endpoints with events: pool, endpoint, state.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Arc<str>, KvShown)> {
        let followed = self.lock();
        let shown = |status: &Arc<Status>| {
            (
                status.pool.clone(),
                status.endpoint.clone(),
                status.lock().clone(),
            )
        };
        followed.values().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_is_what_was_asked_and_the_newest_lag() {
        let status = Status::default();
        let mut follower = Follower::new(1);
        let mut changes = Vec::new();
        // Wanted, which without a place to ask at is not asked.
        assert!(follower.connected(&mut changes).is_some());
        status.update(&follower, (0, 0, Some(Some(1.5))));
        assert_eq!(status.lock().replays, 0);
        status.update(&follower, (0, 1, None));
        assert_eq!(status.lock().replays, 1);
        assert_eq!(status.lock().lag_seconds, Some(1.5));
        status.update(&follower, (0, 1, Some(None)));
        assert_eq!(status.lock().lag_seconds, None);
    }
}
