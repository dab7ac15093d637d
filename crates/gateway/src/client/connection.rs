//! One client connection: the HTTP/1.1 codec, the watch over the client's presence, and shutting down.

use super::presence::{Exchange, Presence};
use super::socket::Socket;
use super::turn::Turns;
use crate::exchange;
use crate::lifecycle::{Lifecycle, Phase};
use crate::server::Worker;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpStream;

/// Longest wait for a request's head, idle time between two requests included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(75);
/// Largest head of a request that the codec reads, bytes. Twice what a request may have, so that one who has somewhat
/// more is told so in its own protocol; the codec can only say a bare 431.
const HEAD_READ_MAX: usize = 2 * crate::exchange::HEAD_MAX;
/// Most headers that the codec reads, for the same reason.
const HEADERS_READ_MAX: usize = 4 * crate::exchange::HEADERS_MAX;

/// What a request may know of its connection.
pub(crate) struct Client {
    pub(crate) peer: SocketAddr,
    pub(crate) exchange: Exchange,
    /// Past the codec: never to be written to while it answers.
    pub(crate) socket: Socket,
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

/// Serves a connection to its end. The caller has counted it.
pub(crate) async fn serve(worker: Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
    let _counted = Counted(worker.clone());
    let socket = Socket::new(stream);
    let client = Rc::new(Client {
        peer,
        exchange: Exchange::default(),
        socket: socket.clone(),
    });
    match converse(&worker, &client).await {
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
async fn converse(worker: &Rc<Worker>, client: &Rc<Client>) -> Option<hyper::Result<()>> {
    let lifecycle = &worker.gateway.lifecycle;
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
    let socket = TokioIo::new(client.socket.clone());
    let mut connection = pin!(builder.serve_connection(socket, service));
    let mut presence = Presence::new(client.socket.clone());
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
            if !client.socket.is_clogged() {
                unwritten.settle();
            }
            presence.poll_gone(&client.exchange, cx).map(|()| None)
        })
    })
    .await
}
