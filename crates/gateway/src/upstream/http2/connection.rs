//! One shared connection: its task, its signs of life, and how many streams it carries.

use super::super::alert;
use super::super::connect::{ConnectError, Stream as Socket};
use super::super::http1::{Overheard, Said};
use super::super::link::READ_MAX;
use super::fault::{self, Fault};
use super::hub::Hub;
use crate::snapshot::PoolEntry;
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong};
use http::uri::Scheme;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// Most streams at once, whatever the peer allows: beyond it another connection shares the load, and the loss.
const STREAMS_MAX: usize = 128;
/// Bytes of an answer that may wait here for their client.
const STREAM_WINDOW: u32 = 64 * 1024;
/// All streams' answers may wait at once, so that those of slow clients never take the room of others.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS_MAX as u32;
/// What the codec counts, of bytes, against a peer that sends small frames which nobody reads: 256 less the length of
/// each. All streams may wait at once with frames of some 32 bytes, which is less than an event has.
const SMALL_FRAMES: usize = STREAMS_MAX * (STREAM_WINDOW as usize / 32) * 224;
/// Cancelled streams that are remembered, so that what is still on its way for them is not taken for a fault.
const CANCELLED_MAX: usize = 4096;
/// How long they are.
const CANCELLED_FOR: Duration = Duration::from_secs(10);
/// Empty frames that a connection may bring before it takes no more streams; at a hundred the codec gives it up.
const EMPTY_MAX: usize = 50;
/// Stands for what the peer has not said yet; no number that it can say.
const UNSAID: usize = usize::MAX - 1;

type Codec = h2::client::Connection<Overheard, Bytes>;

/// A connection, for those who open streams on it. Its task ends when all of them have let go.
pub(crate) struct Connection {
    /// Later ones of the same worker have higher numbers.
    pub(super) serial: u64,
    /// The settings it was made under: it serves no others.
    pub(super) pool: Arc<PoolEntry>,
    pub(super) scheme: Scheme,
    sender: RefCell<SendRequest<Bytes>>,
    streams: Cell<usize>,
    carried: Cell<bool>,
    answered: Cell<bool>,
    said: Rc<Said>,
    idle_since: Cell<Instant>,
    empty: Cell<usize>,
    /// Those who wait for a stream; none: a connection for one exchange.
    hub: Weak<Hub>,
}

/// Makes `socket` a connection and starts its task. The peer has said what it allows when this is done, and so that it
/// speaks HTTP/2.
pub(crate) async fn open(
    socket: Socket,
    (pool, https): (&Arc<PoolEntry>, bool),
    hub: Weak<Hub>,
) -> Result<Rc<Connection>, ConnectError> {
    thread_local! {
        static SERIAL: Cell<u64> = const { Cell::new(0) };
    }
    let said = Rc::<Said>::default();
    let socket = Overheard {
        stream: socket,
        said: said.clone(),
    };
    let handshake = Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .data_frame_budget(SMALL_FRAMES)
        .max_header_list_size(u32::try_from(READ_MAX).unwrap_or(u32::MAX))
        .max_concurrent_reset_streams(CANCELLED_MAX)
        .reset_stream_duration(CANCELLED_FOR)
        .max_local_error_reset_streams(None)
        .initial_max_send_streams(UNSAID)
        .handshake(socket)
        .await;
    // The codec takes an alert for a mere end.
    let refused = |otherwise: ConnectError| match said.alert.get() {
        Some(alert) => ConnectError::Other(alert::text(alert, pool.config.tls.client_cert.is_some())),
        None => otherwise,
    };
    let (sender, mut codec) = handshake.map_err(|error| refused(no_http2(&error)))?;
    poll_fn(|cx| match Pin::new(&mut codec).poll(cx) {
        Poll::Ready(Err(error)) => Poll::Ready(Err(refused(no_http2(&error)))),
        Poll::Ready(Ok(())) => Poll::Ready(Err(refused(closed()))),
        Poll::Pending if codec.max_concurrent_send_streams() != UNSAID => Poll::Ready(Ok(())),
        Poll::Pending => Poll::Pending,
    })
    .await?;
    let ping = codec.ping_pong();
    let quiet = pool.config.timeouts.ping;
    let name = pool.config.name.clone();
    tokio::task::spawn_local(run(codec, Life::new(ping, said.clone(), quiet), name));
    Ok(Rc::new(Connection {
        serial: SERIAL.replace(SERIAL.get() + 1),
        pool: pool.clone(),
        scheme: if https { Scheme::HTTPS } else { Scheme::HTTP },
        sender: RefCell::new(sender),
        streams: Cell::new(0),
        carried: Cell::new(false),
        answered: Cell::new(false),
        said,
        idle_since: Cell::new(Instant::now()),
        empty: Cell::new(0),
        hub,
    }))
}

fn closed() -> ConnectError {
    ConnectError::Other("HTTP/2: the peer closed the connection instead of speaking it".into())
}

fn no_http2(error: &h2::Error) -> ConnectError {
    match fault::of(error) {
        Fault::Ended => closed(),
        Fault::Malformed => ConnectError::Other("HTTP/2: the peer does not speak it".into()),
        Fault::NotBegun | Fault::Reset => ConnectError::Other(format!(
            "HTTP/2: the peer takes no requests: {}",
            fault::text(error)
        )),
    }
}

impl Connection {
    /// How many more streams can be opened now.
    pub(super) fn room(&self) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        let mut sender = self.sender.borrow_mut();
        match sender.poll_ready(&mut context) {
            Poll::Ready(Ok(())) if self.empty.get() < EMPTY_MAX => sender
                .current_max_send_streams()
                .min(STREAMS_MAX)
                .saturating_sub(self.streams.get()),
            _ => 0,
        }
    }

    /// Whether it takes no more streams, ever.
    pub(super) fn is_over(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let ready = self.sender.borrow_mut().poll_ready(&mut context);
        matches!(ready, Poll::Ready(Err(_))) || self.empty.get() >= EMPTY_MAX
    }

    /// How many streams it takes at once.
    pub(super) fn streams_max(&self) -> usize {
        self.sender.borrow().current_max_send_streams().min(STREAMS_MAX)
    }

    /// Since when it has carried no stream.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        (self.streams.get() == 0).then(|| self.idle_since.get())
    }

    pub(super) fn sender(&self) -> SendRequest<Bytes> {
        self.sender.borrow().clone()
    }

    /// One of its streams was answered.
    pub(super) fn has_answered(&self) {
        self.answered.set(true);
    }

    /// The TLS alert that ended it before it had brought any answer.
    pub(super) fn alert(&self) -> Option<rustls::AlertDescription> {
        self.said.alert.get().filter(|_| !self.answered.get())
    }

    /// An empty frame came.
    pub(super) fn count_empty(&self) {
        self.empty.set(self.empty.get() + 1);
    }
}

/// One of a connection's streams is taken for as long as this lives.
pub(super) struct Lease {
    pub(super) connection: Rc<Connection>,
    pub(super) reused: bool,
    pub(super) idle: Duration,
}

impl Lease {
    pub(super) fn new(connection: Rc<Connection>) -> Self {
        let idle = connection.idle_since();
        connection.streams.set(connection.streams.get() + 1);
        Self {
            reused: connection.carried.replace(true),
            idle: idle.map_or(Duration::ZERO, |since| since.elapsed()),
            connection,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.streams.set(connection.streams.get() - 1);
        connection.idle_since.set(Instant::now());
        if let Some(hub) = connection.hub.upgrade() {
            hub.has_room(connection);
        }
    }
}

/// Reads and writes until the connection ends, or until the peer gives no sign of life.
async fn run(codec: Codec, mut life: Life, pool: Arc<str>) {
    let mut codec = pin!(codec);
    let ended = poll_fn(|cx| {
        if let Poll::Ready(ended) = codec.as_mut().poll(cx) {
            return Poll::Ready(Some(ended));
        }
        life.poll_dead(cx).map(|()| None)
    });
    match ended.await {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%pool, why = fault::text(&error), "an HTTP/2 connection ended"),
        // Dropping the codec ends its streams.
        None => tracing::info!(%pool, "an HTTP/2 connection was silent and is given up"),
    }
}

/// Whether the peer lives: whatever comes is a sign of it, and where nothing comes it is asked.
struct Life {
    ping: Option<PingPong>,
    said: Rc<Said>,
    quiet: Duration,
    asked: bool,
    timer: Pin<Box<Sleep>>,
}

impl Life {
    fn new(ping: Option<PingPong>, said: Rc<Said>, quiet: Duration) -> Self {
        Self {
            ping,
            said,
            quiet,
            asked: false,
            timer: Box::pin(tokio::time::sleep(quiet)),
        }
    }

    fn poll_dead(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(ping) = &mut self.ping else {
            return Poll::Pending;
        };
        if self.asked && ping.poll_pong(cx).is_ready() {
            self.asked = false;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if !self.said.heard.replace(false) {
                if self.asked {
                    return Poll::Ready(());
                }
                self.asked = ping.send_ping(Ping::opaque()).is_ok();
                // The codec looks for it when it is polled.
                cx.waker().wake_by_ref();
            }
            self.timer
                .as_mut()
                .reset(tokio::time::Instant::now() + self.quiet);
        }
        Poll::Pending
    }
}
