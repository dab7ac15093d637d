//! Watching sources, each by a task of its own, and taking what they name.

use super::{Bell, Set, dns, file};
use crate::gateway::Gateway;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use weighbridge_config::discovery::Discovery;

/// Least time between two changes that are taken: a storm of them becomes a few.
const APART: Duration = Duration::from_millis(200);
/// Least time between the starts of two looks, however often the bell is rung.
const RUNG_APART: Duration = Duration::from_millis(250);

/// A source to be watched.
pub(crate) struct Watch {
    pub(super) pool: Arc<str>,
    pub(super) id: u64,
    pub(super) discovery: Discovery,
    pub(super) bell: Bell,
}

/// What one look at a source gave.
pub(super) struct Look {
    /// Whether the source said what the endpoints are.
    pub(super) answered: bool,
    /// What it said, where that is news.
    pub(super) found: Option<Set>,
    /// What failed, wholly or in part.
    pub(super) error: Option<String>,
    /// When to look again.
    pub(super) again: Duration,
}

/// One kind of source.
enum Looker {
    Dns(Box<dns::Looker>),
    File(file::Looker),
}

impl Looker {
    fn new(discovery: Discovery) -> Self {
        match discovery {
            Discovery::Dns(dns) => Self::Dns(Box::new(dns::Looker::new(dns))),
            Discovery::File(list) => Self::File(file::Looker::new(list)),
        }
    }

    /// Looks at the source once; none: nothing has happened that could be told. A source that pushes what it knows waits
    /// here for its next word.
    async fn look(&mut self) -> Option<Look> {
        match self {
            Self::Dns(dns) => Some(dns.look().await),
            Self::File(file) => file.look(),
        }
    }
}

/// Watches every source of the queue, for ever.
pub(crate) async fn run(gateway: Arc<Gateway>, mut queue: super::WatchQueue) {
    tokio::task::spawn_local(take(gateway.clone()));
    while let Some(watch) = queue.recv().await {
        tokio::task::spawn_local(follow(gateway.clone(), watch));
    }
}

/// Takes what sources name whenever it changes.
async fn take(gateway: Arc<Gateway>) {
    loop {
        gateway.fleet.changed.notified().await;
        gateway.take_found();
        sleep(APART).await;
    }
}

/// Looks at one source until nobody wants to know.
async fn follow(gateway: Arc<Gateway>, watch: Watch) {
    let mut looker = Looker::new(watch.discovery.clone());
    loop {
        let began = Instant::now();
        let look = looker.look().await;
        let again = look.as_ref().map_or(file::LOOK_EVERY, |look| look.again);
        let wanted = match look {
            Some(look) => gateway.fleet.deliver(&watch, look),
            None => gateway.fleet.wants(&watch),
        };
        if !wanted {
            return;
        }
        tokio::select! {
            () = sleep(again) => {}
            () = watch.bell.notified() => sleep_until(began + RUNG_APART).await,
        }
    }
}
