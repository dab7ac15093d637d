//! Upstream connections of one worker thread, by endpoint: idle ones, and those that are shared.

use super::connect::{ConnectError, connect_once};
use super::http2::hub::Hub;
use super::link::Link;
use crate::server::Worker;
use crate::snapshot::Upstream;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weighbridge_config::resolved::HttpVersion;
use weighbridge_core::EndpointId;

/// Most idle connections per endpoint and thread; what comes back beyond them is closed.
const IDLE_MAX: usize = 1024;
/// How often idle connections past their time are closed.
const TIDY_EVERY: Duration = Duration::from_secs(1);

/// The connections.
#[derive(Default)]
pub(crate) struct Connections {
    idle: RefCell<HashMap<EndpointId, Vec<Idle>>>,
    /// Of endpoints that may be spoken to in HTTP/2.
    shared: RefCell<HashMap<EndpointId, Rc<Hub>>>,
}

struct Idle {
    link: Link,
    since: Instant,
    until: Instant,
}

/// Whether connections to `upstream` may be shared ones.
fn may_share(upstream: &Upstream) -> bool {
    match upstream.pool.config.http {
        HttpVersion::Auto => upstream.url.https,
        HttpVersion::One => false,
        HttpVersion::Two => true,
    }
}

impl Connections {
    /// A connection to `upstream` that is there: a free stream of a shared one, or the most recently used idle one.
    pub(crate) async fn take(&self, upstream: &Arc<Upstream>) -> Option<Link> {
        if may_share(upstream)
            && let Some(link) = self.hub(upstream).free(upstream, None)
        {
            return Some(link);
        }
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
            if link.suits(upstream) && link.is_open().await {
                link.reused = true;
                link.idle = now.duration_since(since);
                return Some(link);
            }
        }
    }

    /// A new connection to `upstream`, or a stream of a shared one that is new to whoever comes from `instead_of`.
    ///
    /// Whom two of them have failed gets one made for itself: the first stream of a connection is within whatever the
    /// peer takes before it goes away.
    pub(crate) async fn connect(
        &self,
        upstream: &Arc<Upstream>,
        instead_of: Option<&Link>,
    ) -> Result<Link, ConnectError> {
        if may_share(upstream) {
            let hub = self.hub(upstream);
            let failed = instead_of.map_or(0, |link| link.stands_in + 1);
            let mut link = if hub.speaks_http1() || failed > 1 {
                Box::pin(hub.alone(upstream)).await?
            } else {
                Box::pin(hub.link(upstream, instead_of.and_then(Link::serial))).await?
            };
            link.stands_in = failed;
            return Ok(link);
        }
        let deadline = tokio::time::Instant::now() + upstream.pool.config.timeouts.connect;
        let mut link = connect_once(upstream, deadline).await?;
        link.stands_in = instead_of.map_or(0, |link| link.stands_in + 1);
        Ok(link)
    }

    fn hub(&self, upstream: &Upstream) -> Rc<Hub> {
        let mut shared = self.shared.borrow_mut();
        shared.entry(upstream.id).or_insert_with(Hub::new).clone()
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

    /// Closes idle connections past their time, and those to endpoints that are gone, and lets go of shared ones that ended,
    /// for ever.
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
            let hubs: Vec<_> = worker.upstreams.shared.borrow().values().cloned().collect();
            hubs.iter().for_each(|hub| hub.tidy(now));
            drop(hubs);
            let used =
                |id: &EndpointId, hub: &mut Rc<Hub>| snapshot.upstream(*id).is_some() || !hub.is_empty();
            worker.upstreams.shared.borrow_mut().retain(used);
        }
    }
}
