//! One HTTP/2 connection: its codec's limits, its idle time, and shutting down.

use super::connection::{Client, HEAD_READ_MAX, HEAD_TIMEOUT, Way};
use super::presence::Exchange;
use super::socket::{Socket, TAKES_NOTHING};
use super::streams::{Stream, Streams, Tasks, Unwritten};
use super::turn::Turns;
use crate::exchange;
use crate::exchange::relay::{AnswerBody, Cut};
use crate::lifecycle::{Lifecycle, Phase};
use crate::server::Worker;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Most streams of a connection at once; further ones are refused (`REFUSED_STREAM`).
const STREAMS_MAX: u32 = 256;
/// Bytes of bodies that a client may send ahead of us: of one stream, and of all of a connection.
const STREAM_WINDOW: u32 = 512 << 10;
const CONNECTION_WINDOW: u32 = 2 << 20;
/// Largest frame that is read, bytes.
const FRAME_MAX: u32 = 16 << 10;
/// Bytes of an answer that wait in the codec for its stream's or the connection's turn; beyond them the upstream waits.
const SEND_BUFFER: usize = 64 << 10;
/// Streams that the client has reset before they were looked at, and that we have reset for its errors in all of a
/// connection's life; more end it with `ENHANCE_YOUR_CALM`.
const RESETS_UNSEEN_MAX: usize = 20;
const RESETS_FOR_ERRORS_MAX: usize = 1024;
/// From the last sign of life to a ping, and from there to the end, together [`TAKES_NOTHING`].
const PING_AFTER: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(TAKES_NOTHING.as_secs() - PING_AFTER.as_secs());
/// How often idle time and stuck streams are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A whole GOAWAY frame with `ENHANCE_YOUR_CALM` (RFC 9113, sections 6.8 and 7), of all streams.
const CALM: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0xb];

/// How a connection ended that the codec did not end.
enum Broken {
    /// The client takes nothing, or does not go.
    Stuck,
    /// It resets whatever it asks for.
    Reset,
}

/// Tells the lifecycle of all requests when the connection's future ends, however it does.
struct Settling<'a> {
    lifecycle: &'a Lifecycle,
    streams: Rc<Streams>,
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        self.streams.end(self.lifecycle);
    }
}

/// Answers requests until the codec ends the connection, or until the client is found to be gone (none).
pub(crate) async fn converse(
    worker: Rc<Worker>,
    socket: Socket,
    peer: SocketAddr,
) -> Option<hyper::Result<()>> {
    let lifecycle = &worker.gateway.lifecycle;
    let streams = Streams::new();
    let _settling = Settling {
        lifecycle,
        streams: streams.clone(),
    };
    let service = service_fn(|request| answer(worker.clone(), (streams.open(), peer), request));
    let mut codec = pin!(builder(&streams).serve_connection(TokioIo::new(socket.clone()), service));
    let mut end = End::new(lifecycle);
    let mut cutting = pin!(lifecycle.reached(Phase::Cutting));
    let mut cut = false;
    let mut turns = Turns::default();
    let ended = poll_fn(|cx| {
        turns.take(cx, |cx| {
            streams.attend(cx.waker());
            if !cut && cutting.as_mut().poll(cx).is_ready() {
                cut = true;
                // Each ends itself.
                streams.wake_all();
            }
            if end.poll_overdue(&streams, cx).is_ready() {
                return Poll::Ready(Err(Broken::Stuck));
            }
            if end.take_due(&streams) {
                codec.as_mut().graceful_shutdown();
            }
            if let Poll::Ready(ended) = codec.as_mut().poll(cx) {
                return Poll::Ready(Ok(ended));
            }
            if !socket.is_clogged() {
                streams.settle(lifecycle);
            }
            if end.is_due(&streams) {
                cx.waker().wake_by_ref();
            }
            let opened = streams.opened.get();
            if streams.resets.borrow_mut().too_many(opened, Instant::now()) {
                socket.write_now(&CALM, cx);
                return Poll::Ready(Err(Broken::Reset));
            }
            Poll::Pending
        })
    })
    .await;
    match ended {
        Ok(ended) => Some(ended),
        Err(Broken::Stuck) => None,
        Err(Broken::Reset) => {
            tracing::debug!(%peer, "a client resets whatever it asks for");
            Some(Ok(()))
        }
    }
}

/// When a connection is to end: the gateway stops, or the client has asked for nothing for a long time.
struct End<'a> {
    leaving: Pin<Box<dyn Future<Output = ()> + 'a>>,
    /// The gateway stops.
    left: bool,
    /// The client has been idle for too long.
    idle: bool,
    /// The client has been told, by GOAWAY.
    told: bool,
    look: Pin<Box<Sleep>>,
}

impl<'a> End<'a> {
    fn new(lifecycle: &'a Lifecycle) -> Self {
        Self {
            leaving: Box::pin(lifecycle.reached(Phase::Leaving)),
            left: false,
            idle: false,
            told: false,
            look: Box::pin(tokio::time::sleep(LOOK_EVERY)),
        }
    }

    /// Ready when no word helps any more.
    fn poll_overdue(&mut self, streams: &Streams, cx: &mut Context<'_>) -> Poll<()> {
        if !self.left {
            self.left = self.leaving.as_mut().poll(cx).is_ready();
        }
        while self.look.as_mut().poll(cx).is_ready() {
            self.look.as_mut().reset(tokio::time::Instant::now() + LOOK_EVERY);
            let idle = streams.idle_since().map(|since| since.elapsed());
            self.idle = idle.is_some_and(|idle| idle >= HEAD_TIMEOUT);
            let lasting = idle.is_some_and(|idle| idle >= HEAD_TIMEOUT + LOOK_EVERY);
            if lasting || streams.give_up(TAKES_NOTHING) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn is_due(&self, streams: &Streams) -> bool {
        // Whoever is told to go before it has asked for anything takes that for a failure.
        let leaving = self.left && streams.opened.get() > 0;
        !self.told && (leaving || self.idle)
    }

    /// Whether the client is to be told now.
    fn take_due(&mut self, streams: &Streams) -> bool {
        let due = self.is_due(streams);
        self.told |= due;
        due
    }
}

/// A request that has no answer yet.
struct Unanswered(Option<Rc<Stream>>);

impl Drop for Unanswered {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            stream.reset_early();
        }
    }
}

/// Answers the request of one stream.
async fn answer(
    worker: Rc<Worker>,
    (stream, peer): (Rc<Stream>, SocketAddr),
    request: Request<Incoming>,
) -> Result<Response<StreamBody>, Infallible> {
    let unanswered = Unanswered(Some(stream.clone()));
    let bodiless = request.method() == Method::HEAD;
    let client = Rc::new(Client {
        peer,
        exchange: Exchange::default(),
        way: Way::Stream(stream.clone()),
    });
    stream.belongs_to(&client);
    let answer = exchange::handle(worker, client, request).await;
    answer.map(|answer| {
        let mut answer = answer.map(|inner| StreamBody {
            inner,
            stream,
            unanswered,
        });
        if bodiless {
            answer.without_body();
        } else if answer.body().is_end_stream() {
            answer.body_mut().unanswered.0 = None;
        }
        answer
    })
}

/// What the codec leaves to us.
trait Bodiless {
    /// Makes it the answer to a HEAD: its length is told, its body stays here.
    fn without_body(&mut self);
}

impl Bodiless for Response<StreamBody> {
    fn without_body(&mut self) {
        if let Some(length) = self.body().size_hint().exact() {
            self.headers_mut()
                .entry(CONTENT_LENGTH)
                .or_insert_with(|| length.into());
        }
        let body = self.body_mut();
        body.inner = AnswerBody::Whole(None);
        body.unanswered.0 = None;
    }
}

/// An answer's body, whose bytes are counted until they are written.
pub(crate) struct StreamBody {
    inner: AnswerBody,
    stream: Rc<Stream>,
    unanswered: Unanswered,
}

impl Body for StreamBody {
    type Data = Unwritten;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Unwritten>, Cut>>> {
        let this = self.get_mut();
        // The codec asks for the body once it has taken the head: the client waits still.
        this.unanswered.0 = None;
        let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
        Poll::Ready(
            frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| this.stream.hand_over(bytes)))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn builder(streams: &Rc<Streams>) -> Builder<Tasks> {
    let mut builder = Builder::new(Tasks(streams.clone()));
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_MAX)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(HEAD_READ_MAX).unwrap_or(u32::MAX))
        .max_pending_accept_reset_streams(RESETS_UNSEEN_MAX)
        .max_local_error_reset_streams(RESETS_FOR_ERRORS_MAX)
        .keep_alive_interval(PING_AFTER)
        .keep_alive_timeout(PONG_WITHIN);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    /// Waits for the end of a connection with these streams, and gives the seconds to the word and to the end.
    async fn ended(lifecycle: &Lifecycle, streams: &Streams) -> (Option<u64>, u64) {
        let began = Instant::now();
        let mut end = End::new(lifecycle);
        let mut told = None;
        poll_fn(|cx| {
            let over = end.poll_overdue(streams, cx);
            if end.take_due(streams) {
                told = Some(began.elapsed().as_secs());
            }
            over
        })
        .await;
        (told, began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_told_and_then_closed() {
        assert_eq!(
            ended(&Lifecycle::default(), &Streams::new()).await,
            (Some(80), 90)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_of_a_whole_answer_is_gone() {
        let lifecycle = Lifecycle::default();
        lifecycle.started();
        let streams = Streams::new();
        let stream = streams.open();
        let _held = stream.hand_over(Bytes::from_static(b"never read"));
        stream.answered(&lifecycle);
        streams.settle(&lifecycle);
        assert_eq!(ended(&lifecycle, &streams).await, (None, 60));
        streams.end(&lifecycle);
        assert_eq!(lifecycle.running(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_not_read_is_given_up_and_not_its_connection() {
        let (lifecycle, streams) = (Lifecycle::default(), Streams::new());
        let tasks = Tasks(streams.clone());
        let run = |reads: bool| {
            let stream = streams.open();
            let work = async move {
                let mut held = stream.hand_over(Bytes::from(vec![b'x'; 1 << 20]));
                for _ in 0..20 {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    bytes::Buf::advance(&mut held, 20_000 * usize::from(reads));
                }
            };
            hyper::rt::Executor::execute(&tasks, work);
        };
        let watch = async {
            run(false);
            run(true);
            tokio::select! {
                _ = ended(&lifecycle, &streams) => panic!("the connection is given up"),
                () = tokio::time::sleep(Duration::from_secs(75)) => {}
            }
            streams.running()
        };
        assert_eq!(tokio::task::LocalSet::new().run_until(watch).await, 1);
    }

    /// Whether a stream runs on for five minutes of whose waiting bytes the client takes `bytes` every 20 s, while it takes
    /// `beside` of another.
    async fn lasts(bytes: usize, beside: usize) -> bool {
        let streams = Streams::new();
        let tasks = Tasks(streams.clone());
        let other = streams.open();
        // Opened last, so that the task is its own.
        let work = streams.open();
        let task = async move {
            let mut held = work.hand_over(Bytes::from(vec![b'x'; 1 << 20]));
            loop {
                tokio::time::sleep(Duration::from_secs(20)).await;
                bytes::Buf::advance(&mut held, bytes);
                drop(other.hand_over(Bytes::from(vec![b'x'; beside])));
            }
        };
        let lifecycle = Lifecycle::default();
        let watch = async {
            hyper::rt::Executor::execute(&tasks, task);
            tokio::select! {
                _ = ended(&lifecycle, &streams) => {}
                () = tokio::time::sleep(Duration::from_secs(300)) => {}
            }
            streams.running() == 1
        };
        tokio::task::LocalSet::new().run_until(watch).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_which_next_to_nothing_is_taken_is_given_up() {
        assert!(!lasts(1, 0).await);
        assert!(!lasts(900 * 20, 0).await);
        assert!(lasts(1600 * 20, 0).await);
        assert!(lasts(1, 100_000 * 20).await, "the line is full of others");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_generation_is_not_slow_taking() {
        let streams = Streams::new();
        let tasks = Tasks(streams.clone());
        let stream = streams.open();
        let task = async move {
            loop {
                tokio::time::sleep(Duration::from_secs(10)).await;
                let mut token = stream.hand_over(Bytes::from_static(b"token"));
                tokio::time::sleep(Duration::from_secs(9)).await;
                bytes::Buf::advance(&mut token, 5);
            }
        };
        let lifecycle = Lifecycle::default();
        let watch = async {
            hyper::rt::Executor::execute(&tasks, task);
            tokio::select! {
                _ = ended(&lifecycle, &streams) => panic!("the connection is given up"),
                () = tokio::time::sleep(Duration::from_secs(1000)) => {}
            }
            streams.running()
        };
        assert_eq!(tokio::task::LocalSet::new().run_until(watch).await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_is_told_to_go_before_it_has_asked() {
        let lifecycle = Lifecycle::default();
        lifecycle.enter(Phase::Draining);
        let streams = Streams::new();
        let mut end = End::new(&lifecycle);
        poll_fn(|cx| Poll::Ready(end.poll_overdue(&streams, cx).is_ready())).await;
        assert!(!end.take_due(&streams));
        streams.open();
        assert!(end.take_due(&streams) && !end.take_due(&streams));
    }
}
