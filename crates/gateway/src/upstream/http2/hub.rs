//! The shared connections of one worker to one endpoint, and those who wait for a stream.

use super::super::connect::{ConnectError, Opened, connect};
use super::super::link::Link;
use super::connection::Connection;
use super::stream;
use crate::snapshot::Upstream;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;

/// Most connections that are being made at once.
const CONNECTING_MAX: usize = 16;

/// Connections of one worker to one endpoint.
pub(crate) struct Hub {
    me: Weak<Hub>,
    connections: RefCell<Vec<Rc<Connection>>>,
    waiting: RefCell<VecDeque<Waiting>>,
    connecting: Cell<usize>,
    /// Streams that a connection to this endpoint takes, by the newest: how many connections it takes to serve those
    /// who wait. One, as long as nobody knows: most take more, and then nobody has made too many.
    streams_usual: Cell<usize>,
    /// Whether the endpoint chose HTTP/1.1 when it was asked last.
    http1: Cell<bool>,
}

struct Waiting {
    wish: Wish,
    tell: oneshot::Sender<Told>,
}

/// What a request asks of a connection.
struct Wish {
    upstream: Arc<Upstream>,
    /// Only one that is younger will do.
    after: Option<u64>,
}

impl Wish {
    fn suits(&self, connection: &Connection) -> bool {
        self.after.is_none_or(|after| connection.serial > after)
            && Arc::ptr_eq(&connection.pool, &self.upstream.pool)
    }
}

/// What somebody who waits is told.
enum Told {
    Here(Link),
    Failed(ConnectError),
    /// The endpoint speaks HTTP/1.1: everybody makes a connection of their own.
    Alone,
}

impl Hub {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            connections: RefCell::default(),
            waiting: RefCell::default(),
            connecting: Cell::new(0),
            streams_usual: Cell::new(usize::MAX),
            http1: Cell::new(false),
        })
    }

    /// Whether the endpoint chose HTTP/1.1 when it was asked last.
    pub(crate) fn speaks_http1(&self) -> bool {
        self.http1.get()
    }

    /// A free stream of a connection that is there.
    pub(crate) fn free(&self, upstream: &Arc<Upstream>, after: Option<u64>) -> Option<Link> {
        let wish = Wish {
            upstream: upstream.clone(),
            after,
        };
        self.suiting(&wish)
    }

    fn suiting(&self, wish: &Wish) -> Option<Link> {
        let connections = self.connections.borrow();
        let free = connections
            .iter()
            .find(|connection| wish.suits(connection) && connection.room() > 0)?;
        Some(stream::of(free.clone()))
    }

    /// A stream to `upstream`, of a connection younger than `after`: a free one, or the next that comes free, of those
    /// that are there and those that are made for all who wait.
    pub(crate) async fn link(
        &self,
        upstream: &Arc<Upstream>,
        after: Option<u64>,
    ) -> Result<Link, ConnectError> {
        if let Some(link) = self.free(upstream, after) {
            return Ok(link);
        }
        let (tell, told) = oneshot::channel();
        let wish = Wish {
            upstream: upstream.clone(),
            after,
        };
        self.waiting.borrow_mut().push_back(Waiting { wish, tell });
        self.open_more();
        let deadline = tokio::time::Instant::now() + upstream.pool.config.timeouts.connect;
        match tokio::time::timeout_at(deadline, told).await {
            Ok(Ok(Told::Here(link))) => Ok(link),
            Ok(Ok(Told::Failed(error))) => Err(error),
            Ok(Ok(Told::Alone)) => self.alone(upstream).await,
            Ok(Err(_)) | Err(_) => Err(ConnectError::Timeout),
        }
    }

    /// Makes a connection for one request, and keeps it for others where it turns out that it can be shared.
    pub(crate) async fn alone(&self, upstream: &Arc<Upstream>) -> Result<Link, ConnectError> {
        match connect(upstream, self.me.clone()).await? {
            Opened::Http1(link) => Ok(link),
            Opened::Http2(connection) => {
                let link = stream::of(connection.clone());
                self.keep(connection);
                Ok(link)
            }
        }
    }

    fn keep(&self, connection: Rc<Connection>) {
        self.http1.set(false);
        self.streams_usual.set(connection.streams_max().max(1));
        self.connections.borrow_mut().push(connection);
    }

    /// Makes as many connections as those need who wait.
    fn open_more(&self) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|one| !one.tell.is_closed());
        while self.connecting.get() < CONNECTING_MAX
            && waiting.len() > self.connecting.get().saturating_mul(self.streams_usual.get())
        {
            // Whoever comes after those that the connections on their way will serve.
            let served = self.connecting.get().saturating_mul(self.streams_usual.get());
            let Some(next) = waiting.get(served) else { return };
            let (Some(hub), upstream) = (self.me.upgrade(), next.wish.upstream.clone()) else {
                return;
            };
            self.connecting.set(self.connecting.get() + 1);
            // A task of its own: those for whom it is made may leave, and others wait for it too.
            tokio::task::spawn_local(async move {
                let opened = connect(&upstream, hub.me.clone()).await;
                hub.connecting.set(hub.connecting.get() - 1);
                hub.opened(opened);
            });
        }
    }

    fn opened(&self, opened: Result<Opened, ConnectError>) {
        match opened {
            Ok(Opened::Http2(connection)) if connection.streams_max() == 0 => {
                self.failed(&ConnectError::Other("HTTP/2: the peer allows no request".into()));
            }
            Ok(Opened::Http2(connection)) => {
                self.keep(connection.clone());
                self.has_room(&connection);
            }
            Ok(Opened::Http1(link)) => {
                self.http1.set(true);
                let mut link = Some(link);
                for one in self.waiting.take() {
                    if one.tell.is_closed() {
                        continue;
                    }
                    let told = link.take().map_or(Told::Alone, Told::Here);
                    if let Err(Told::Here(back)) = one.tell.send(told) {
                        link = Some(back);
                    }
                }
            }
            Err(error) => self.failed(&error),
        }
        self.open_more();
    }

    /// Tells those whom a connection would have served that there is none.
    fn failed(&self, error: &ConnectError) {
        let mut waiting = self.waiting.borrow_mut();
        waiting.retain(|one| !one.tell.is_closed());
        let others = self.connecting.get().saturating_mul(self.streams_usual.get());
        let keep = others.min(waiting.len());
        let told: Vec<_> = waiting.drain(keep..).collect();
        drop(waiting);
        for one in told {
            let _ = one.tell.send(Told::Failed(error.clone()));
        }
    }

    /// Gives streams of `connection` to those who wait, or lets go of it where it takes none any more.
    pub(super) fn has_room(&self, connection: &Rc<Connection>) {
        if connection.is_over() {
            let mut connections = self.connections.borrow_mut();
            connections.retain(|one| !Rc::ptr_eq(one, connection));
            return;
        }
        while connection.room() > 0 {
            let mut waiting = self.waiting.borrow_mut();
            waiting.retain(|one| !one.tell.is_closed());
            let Some(at) = waiting.iter().position(|one| one.wish.suits(connection)) else {
                return;
            };
            let Some(one) = waiting.remove(at) else { return };
            drop(waiting);
            let link = stream::of(connection.clone());
            // It can't have left meanwhile: nothing else runs on this thread.
            let _ = one.tell.send(Told::Here(link));
        }
    }

    /// Lets go of connections that have ended, that take no more streams, or that have been idle for too long. Those
    /// that still carry streams live until the last of them ends.
    pub(crate) fn tidy(&self, now: Instant) {
        let kept = |connection: &Rc<Connection>| {
            let keepalive = connection.pool.config.keepalive;
            let idle = connection.idle_since();
            !connection.is_over() && idle.is_none_or(|since| now.duration_since(since) < keepalive)
        };
        let gone: Vec<_> = self
            .connections
            .borrow_mut()
            .extract_if(.., |connection| !kept(connection))
            .collect();
        // Outside the borrow: the last stream of one may tell the hub that it ends.
        drop(gone);
    }

    /// Whether nothing of it is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections.borrow().is_empty() && self.waiting.borrow().is_empty() && self.connecting.get() == 0
    }
}
