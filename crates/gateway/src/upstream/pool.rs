//! Idle upstream connections of one worker thread, by endpoint.

use super::link::Link;
use crate::server::Worker;
use crate::snapshot::Upstream;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weighbridge_core::EndpointId;

/// Most idle connections per endpoint and thread; what comes back beyond them is closed.
const IDLE_MAX: usize = 1024;
/// How often idle connections past their time are closed.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// The idle connections.
#[derive(Default)]
pub(crate) struct Connections {
    idle: RefCell<HashMap<EndpointId, Vec<Idle>>>,
}

struct Idle {
    link: Link,
    since: Instant,
    until: Instant,
}

impl Connections {
    /// The most recently used open connection to `upstream`.
    pub(crate) async fn take(&self, upstream: &Upstream) -> Option<Link> {
        loop {
            let Idle {
                mut link,
                since,
                until,
            } = self.pop(upstream.id)?;
            let now = Instant::now();
            if now >= until {
                // The rest are older still.
                self.idle.borrow_mut().remove(&upstream.id);
                return None;
            }
            if link.is_open().await {
                link.reused = true;
                link.idle = now.duration_since(since);
                return Some(link);
            }
        }
    }

    fn pop(&self, endpoint: EndpointId) -> Option<Idle> {
        self.idle.borrow_mut().get_mut(&endpoint)?.pop()
    }

    /// Keeps `link`, whose answer has been read to its end, for the next request.
    pub(crate) fn put(&self, upstream: &Upstream, link: Link) {
        let keepalive = upstream.pool.config.keepalive;
        // An upstream that closes after n seconds may close a moment before we think it does.
        let keepalive = link.keep_alive.map_or(keepalive, |said| {
            keepalive.min(said.saturating_sub(Duration::from_secs(1)))
        });
        if keepalive.is_zero() {
            return;
        }
        let since = Instant::now();
        let mut idle = self.idle.borrow_mut();
        let links = idle.entry(upstream.id).or_default();
        if links.len() < IDLE_MAX {
            links.push(Idle {
                link,
                since,
                until: since + keepalive,
            });
        }
    }

    /// Closes idle connections past their time, and those to endpoints that are gone, for ever.
    pub(crate) async fn keep_tidy(worker: Rc<Worker>) {
        loop {
            tokio::time::sleep(TIDY_EVERY).await;
            let now = Instant::now();
            let snapshot = worker.gateway.snapshot_full();
            worker.upstreams.idle.borrow_mut().retain(|endpoint, links| {
                // An endpoint that was taken out gets no request any more.
                let serves = snapshot.upstream(*endpoint).is_some();
                links.retain(|link| serves && now < link.until);
                !links.is_empty()
            });
        }
    }
}
