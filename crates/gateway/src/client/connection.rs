//! One client connection: which protocol it speaks, and for HTTP/1.1 the codec, the watch over the client's presence, and
//! shutting down.

use super::presence::{Exchange, Presence};
use super::socket::Socket;
use super::streams::Stream;
use super::turn::Turns;
use super::{http2, preface, tls};
use crate::exchange;
use crate::lifecycle::{Lifecycle, Phase};
use crate::memory::BodyMemory;
use crate::server::Worker;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;

/// Longest wait for a request's head, idle time between two requests included.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Largest head of a request that the codec reads, bytes. Twice what a request may have, so that one who has somewhat
/// more is told so in its own protocol; the codec can only say a bare 431.
pub(crate) const HEAD_READ_MAX: usize = 2 * crate::exchange::HEAD_MAX;
/// Most headers that the codec reads, for the same reason.
const HEADERS_READ_MAX: usize = 4 * crate::exchange::HEADERS_MAX;

/// What a request may know of its connection.
pub(crate) struct Client {
    pub(crate) peer: SocketAddr,
    pub(crate) exchange: Exchange,
    pub(crate) way: Way,
}

/// The way that answers take.
pub(crate) enum Way {
    /// One after the other, over all of an HTTP/1 connection. Past the codec: never to be written to while it answers.
    Connection(Socket),
    /// Over a stream of an HTTP/2 connection.
    Stream(Rc<Stream>),
    /// To nobody's connection: the gateway itself has asked.
    Own,
}

impl Client {
    /// Whether bytes of the answer still wait for the client to read. If so, the answer's body is polled again later.
    pub(crate) fn is_clogged(&self) -> bool {
        match &self.way {
            Way::Connection(socket) => socket.is_clogged(),
            Way::Stream(stream) => stream.holds_bytes(),
            Way::Own => false,
        }
    }

    /// What the held answers of its connection take, where there may be many at once.
    pub(crate) fn held(&self) -> Option<&Arc<BodyMemory>> {
        match &self.way {
            Way::Connection(_) | Way::Own => None,
            Way::Stream(stream) => Some(stream.held()),
        }
    }

    /// Whether a header of the answer says that the connection ends with it. HTTP/2 knows no such header.
    pub(crate) fn ends_by_header(&self) -> bool {
        matches!(self.way, Way::Connection(_))
    }

    /// The request has ended, though its answer may not be written yet: until then it counts as running.
    pub(crate) fn answered(&self, lifecycle: &Lifecycle) {
        self.exchange.ended();
        match &self.way {
            Way::Connection(_) => {}
            Way::Stream(stream) => stream.answered(lifecycle),
            // What has been read is all there is to be done.
            Way::Own => lifecycle.ended(),
        }
    }
}

/// Requests whose answers the codec has taken, but not all of whose bytes have been written: they still run.
struct Unwritten<'a> {
    lifecycle: &'a Lifecycle,
    client: Rc<Client>,
}

impl Unwritten<'_> {
    fn settle(&self) {
        for _ in 0..self.client.exchange.take_answered() {
            self.lifecycle.ended();
        }
    }
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Counts a connection for as long as it lives.
struct Counted(Rc<Worker>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.gateway.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Serves a connection to its end, under TLS if there is a config for that. The caller has counted it.
pub(crate) async fn serve(
    worker: Rc<Worker>,
    (stream, peer): (TcpStream, SocketAddr),
    tls: Option<Arc<ServerConfig>>,
) {
    let _counted = Counted(worker.clone());
    // What most connections do not need does not make all of them larger.
    let (socket, http2) = match tls {
        None => match tokio::time::timeout(HEAD_TIMEOUT, preface::is_http2(&stream)).await {
            Ok(Ok(http2)) => (Socket::new(stream), http2),
            _ => return,
        },
        Some(config) => match Box::pin(tls::accept(stream, config, peer)).await {
            Some((stream, http2)) => (Socket::encrypted(stream), http2),
            None => return,
        },
    };
    let ended = if http2 {
        Box::pin(http2::converse(worker, socket.clone(), peer)).await
    } else {
        converse(&worker, &socket, peer).await
    };
    match ended {
        Some(ended) => {
            if let Err(error) = ended {
                tracing::debug!(%peer, %error, "client connection ended");
            }
            socket.linger().await;
        }
        None => tracing::debug!(%peer, "client left"),
    }
}

/// Answers requests until the codec ends the connection, or until the client is found to be gone (none).
async fn converse(worker: &Rc<Worker>, socket: &Socket, peer: SocketAddr) -> Option<hyper::Result<()>> {
    let lifecycle = &worker.gateway.lifecycle;
    let client = Rc::new(Client {
        peer,
        exchange: Exchange::default(),
        way: Way::Connection(socket.clone()),
    });
    // Declared before the codec, so dropped after the requests that it may still hold.
    let unwritten = Unwritten {
        lifecycle,
        client: client.clone(),
    };
    // In a box of its own, which goes once the answer has begun: the codec keeps the place of the future as long as the
    // connection lasts, and a stream would hold it for nothing.
    let service = service_fn(|request| Box::pin(exchange::handle(worker.clone(), client.clone(), request)));
    let mut builder = http1::Builder::new();
    builder
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(HEADERS_READ_MAX)
        .max_buf_size(HEAD_READ_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(socket.clone()), service));
    let mut presence = Presence::new(socket.clone());
    let mut cutting = pin!(lifecycle.reached(Phase::Cutting));
    let mut cut = false;
    let mut turns = Turns::default();
    // Ended by the client or by us: the codec drops the request it still holds, which withdraws it.
    poll_fn(|cx| {
        turns.take(cx, |cx| {
            // When the last phase begins, the running request must be polled once more: it ends itself then.
            if !cut {
                cut = cutting.as_mut().poll(cx).is_ready();
            }
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(Some(ended));
            }
            if !socket.is_clogged() {
                unwritten.settle();
            }
            presence.poll_gone(&client.exchange, cx).map(|()| None)
        })
    })
    .await
}
