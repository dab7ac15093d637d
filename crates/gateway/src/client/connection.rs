//! One client connection: the HTTP/1.1 codec, the watch over the client's presence, and shutting down.

use super::presence::{Exchange, Presence};
use super::socket::Socket;
use crate::exchange;
use crate::lifecycle::Phase;
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
    });
    let service = service_fn({
        let (worker, client) = (worker.clone(), client.clone());
        move |request| exchange::handle(worker.clone(), client.clone(), request)
    });
    let mut builder = http1::Builder::new();
    builder
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(HEADERS_READ_MAX)
        .max_buf_size(HEAD_READ_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(socket.clone()), service));
    let mut presence = Presence::new(socket);
    let lifecycle = &worker.gateway.lifecycle;
    let mut cutting = pin!(lifecycle.reached(Phase::Cutting));
    let mut cut = false;
    let served = poll_fn(|cx| {
        // When the last phase begins, the running request must be polled once more: it ends itself then.
        if !cut {
            cut = cutting.as_mut().poll(cx).is_ready();
        }
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(Some(ended));
        }
        match presence.poll_gone(&client.exchange, cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    // Ended by the client or by us: the codec drops the request it still holds, which withdraws it.
    match served.await {
        Some(Err(error)) => tracing::debug!(%peer, %error, "client connection ended"),
        Some(Ok(())) => {}
        None => tracing::debug!(%peer, "client left"),
    }
}
