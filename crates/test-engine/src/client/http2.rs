//! HTTP/2 for tests, over the `h2` crate: requests of one connection side by side, resets, closed windows, and what the
//! server says at the end.

use super::request::{Failure, Pending, Request};
use super::stream::End;
use super::wire::{connect, server_name};
use crate::certificates::Trust;
use crate::url::Url;
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use std::future::poll_fn;
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What the server may send of a stream, and of all of them, before it is read here, bytes.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 16 << 20;

/// A connection. Clones share it; it ends in good order after the last of them and the last stream, or by
/// [`Session::close`] and [`Session::reset`].
#[derive(Clone, Debug)]
pub struct Session {
    commands: UnboundedSender<Command>,
    closed: Arc<(Mutex<Option<Closed>>, Condvar)>,
    scheme: &'static str,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// After a GOAWAY, by either side, with this code.
    GoAway(u32),
    /// Otherwise.
    Broken,
}

#[derive(Debug)]
enum Command {
    Send(Box<Outgoing>),
    Close { reset: bool },
}

#[derive(Debug)]
struct Outgoing {
    request: http::Request<()>,
    body: Bytes,
    /// Whether the body ends with `body`.
    whole: bool,
    events: Sender<Event>,
    orders: UnboundedReceiver<Order>,
}

/// What the reader of a stream has it do.
#[derive(Debug)]
enum Order {
    /// This many bytes have been read: as many more may come.
    Read(usize),
    /// Resets it.
    Reset,
}

/// What comes of a stream.
#[derive(Debug)]
pub(super) enum Event {
    Head(u16, Vec<(String, String)>),
    Data(Instant, Vec<u8>),
    End(End),
    Failed(Failure),
}

/// A stream. Dropped before its end, it is reset.
#[derive(Debug)]
pub(super) struct Answer {
    events: Receiver<Event>,
    orders: UnboundedSender<Order>,
    session: Session,
}

impl Session {
    /// Connects to the host of a URL, under TLS if it is `https`.
    ///
    /// # Errors
    /// When the connection or its handshake fails.
    pub fn to(url: &str, trust: Option<&Trust>) -> Result<Session, Failure> {
        let url = Url::parse(url).unwrap_or_else(|e| panic!("{e}"));
        let socket = connect(&url)?;
        let (commands, orders) = unbounded_channel();
        let closed = Arc::new((Mutex::new(None), Condvar::new()));
        let (ready, started) = channel();
        let scheme = if url.tls { "https" } else { "http" };
        let config = url.tls.then(|| {
            let trust = trust.unwrap_or_else(|| panic!("https without a trusted authority"));
            trust.config(&[b"h2"])
        });
        let end = closed.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let ended = runtime.block_on(async move {
                let spare = socket.try_clone().map_err(Failure::from);
                socket.set_nonblocking(true).expect("a socket");
                let socket = tokio::net::TcpStream::from_std(socket).expect("a socket");
                match config {
                    None => run(socket, spare, (orders, ready)).await,
                    Some(config) => {
                        let connector = tokio_rustls::TlsConnector::from(config);
                        match connector.connect(server_name(&url), socket).await {
                            Ok(stream) => run(stream, spare, (orders, ready)).await,
                            Err(_) => {
                                let _ = ready.send(Err(Failure::Tls));
                                Closed::Broken
                            }
                        }
                    }
                }
            });
            *end.0.lock().expect("a lock") = Some(ended);
            end.1.notify_all();
        });
        started.recv().unwrap_or(Err(Failure::Closed))?;
        Ok(Session {
            commands,
            closed,
            scheme,
        })
    }

    /// Sends a request and does not wait for anything. The request's protocol does not count.
    ///
    /// # Errors
    /// When the connection has ended.
    pub fn begin(&self, request: &Request) -> Result<Pending, Failure> {
        let started = Instant::now();
        let (events, received) = channel();
        let (orders, wanted) = unbounded_channel();
        let (head, body) = request.http2(self.scheme);
        let whole = request.is_whole();
        let outgoing = Outgoing {
            request: head,
            body,
            whole,
            events,
            orders: wanted,
        };
        self.commands
            .send(Command::Send(Box::new(outgoing)))
            .map_err(|_| Failure::Closed)?;
        let answer = Answer {
            events: received,
            orders,
            session: self.clone(),
        };
        Ok(Pending::over_http2(answer, started))
    }

    /// Closes the connection now, whatever runs on it.
    pub fn close(&self) {
        let _ = self.commands.send(Command::Close { reset: false });
    }

    /// As [`Session::close`], by a reset.
    pub fn reset(&self) {
        let _ = self.commands.send(Command::Close { reset: true });
    }

    /// Waits for the connection to end.
    pub fn wait_closed(&self, within: Duration) -> Option<Closed> {
        let closed = self.closed.0.lock().expect("a lock");
        let waited = self
            .closed
            .1
            .wait_timeout_while(closed, within, |closed| closed.is_none());
        *waited.expect("a lock").0
    }
}

impl Answer {
    /// What comes next; none: nothing within the time.
    pub(super) fn next(&self, within: Duration) -> Option<Event> {
        match self.events.recv_timeout(within.max(Duration::from_millis(1))) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Event::Failed(Failure::Closed)),
        }
    }

    /// Lets as many more bytes come.
    pub(super) fn took(&self, bytes: usize) {
        let _ = self.orders.send(Order::Read(bytes));
    }

    /// Resets the stream; the connection goes on.
    pub(super) fn reset(&self) {
        let _ = self.orders.send(Order::Reset);
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }
}

type Started = Sender<Result<(), Failure>>;

/// Runs a connection to its end.
async fn run<S>(
    stream: S,
    spare: Result<TcpStream, Failure>,
    (mut commands, ready): (UnboundedReceiver<Command>, Started),
) -> Closed
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let shaken = h2::client::Builder::new()
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .enable_push(false)
        .handshake::<_, Bytes>(stream)
        .await;
    let (mut sender, connection) = match shaken {
        Ok((sender, connection)) => (Some(sender), connection),
        Err(error) => {
            let _ = ready.send(Err(failure(&error)));
            return Closed::Broken;
        }
    };
    let _ = ready.send(Ok(()));
    let mut connection = Box::pin(connection);
    let mut streams = tokio::task::JoinSet::new();
    let closed = loop {
        tokio::select! {
            biased;
            command = commands.recv(), if sender.is_some() => match (command, &sender) {
                (Some(Command::Send(outgoing)), Some(sender)) => {
                    streams.spawn(exchange(sender.clone(), *outgoing));
                }
                (Some(Command::Close { reset }), _) => {
                    if let (true, Ok(spare)) = (reset, &spare) {
                        let _ = rustix::net::sockopt::set_socket_linger(spare, Some(Duration::ZERO));
                    }
                    return Closed::Broken;
                }
                // Ends once its streams have.
                _ => sender = None,
            },
            ended = &mut connection => break match ended {
                Ok(()) => Closed::GoAway(0),
                Err(error) => match error.reason().filter(|_| error.is_go_away()) {
                    Some(reason) => Closed::GoAway(reason.into()),
                    None => Closed::Broken,
                },
            },
        }
    };
    // What has come for them is still theirs.
    while streams.join_next().await.is_some() {}
    closed
}

fn failure(error: &h2::Error) -> Failure {
    if error.is_reset() {
        Failure::Reset
    } else {
        Failure::Closed
    }
}

/// One request and its answer. Whatever of them is left at the end resets the stream.
async fn exchange(sender: SendRequest<Bytes>, mut outgoing: Outgoing) {
    let events = outgoing.events.clone();
    if let Err(failure) = try_exchange(sender, &mut outgoing).await {
        let _ = events.send(Event::Failed(failure));
    }
}

async fn try_exchange(sender: SendRequest<Bytes>, outgoing: &mut Outgoing) -> Result<(), Failure> {
    let broken = |error: h2::Error| failure(&error);
    let mut sender = sender.ready().await.map_err(broken)?;
    let body = std::mem::take(&mut outgoing.body);
    let ends = body.is_empty() && outgoing.whole;
    let (answer, stream) = sender
        .send_request(std::mem::take(&mut outgoing.request), ends)
        .map_err(broken)?;
    drop(sender);
    let _uploading = Uploading(tokio::spawn(upload(stream, body, outgoing.whole && !ends)).abort_handle());
    let head = tokio::select! {
        head = answer => head.map_err(broken)?,
        // Nothing can be read yet.
        _ = outgoing.orders.recv() => return Ok(()),
    };
    let (head, body) = head.into_parts();
    let headers = head.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    });
    let _ = outgoing
        .events
        .send(Event::Head(head.status.as_u16(), headers.collect()));
    receive(body, outgoing).await;
    Ok(())
}

/// Gives up its stream when it is dropped.
struct Uploading(tokio::task::AbortHandle);

impl Drop for Uploading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends a body as far as the server lets it, and holds the stream.
async fn upload(mut stream: SendStream<Bytes>, mut body: Bytes, ends: bool) {
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let Some(Ok(room)) = poll_fn(|cx| stream.poll_capacity(cx)).await else {
            return;
        };
        let piece = body.split_to(room.min(body.len()));
        if stream.send_data(piece, ends && body.is_empty()).is_err() {
            return;
        }
    }
    std::future::pending().await
}

/// Receives a body until it ends or its reader goes.
async fn receive(mut body: RecvStream, outgoing: &mut Outgoing) {
    loop {
        tokio::select! {
            biased;
            order = outgoing.orders.recv() => match order {
                Some(Order::Read(bytes)) => drop(body.flow_control().release_capacity(bytes)),
                Some(Order::Reset) | None => return,
            },
            data = body.data() => {
                let event = match data {
                    Some(Ok(data)) if data.is_empty() => continue,
                    Some(Ok(data)) => Event::Data(Instant::now(), data.to_vec()),
                    Some(Err(error)) if error.is_reset() => Event::End(End::Reset),
                    Some(Err(_)) => Event::End(End::Premature),
                    None => Event::End(End::Complete),
                };
                let over = matches!(event, Event::End(_));
                let _ = outgoing.events.send(event);
                if over {
                    return;
                }
            }
        }
    }
}
