//! One upstream connection and the exchange on it.
//!
//! The codec's connection future has no task of its own: whoever uses the link polls it. So bytes move from socket to
//! socket within one task, and dropping a link closes its socket at once, which is how an upstream learns that its
//! client has left.

pub(crate) use super::body::RequestBody;
use super::connect::Stream;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most bytes that one look at a socket reads, and so the largest head of an answer.
const READ_MAX: usize = 128 * 1024;

type Codec = Connection<TokioIo<Overheard>, RequestBody>;

/// A connection.
pub(crate) struct Link {
    sender: SendRequest<RequestBody>,
    /// None once it has ended.
    codec: Option<Pin<Box<Codec>>>,
    /// Whether anything has come since the newest request was handed over.
    heard: Rc<Cell<bool>>,
    /// Whether it has carried a request before.
    pub(crate) reused: bool,
    /// Idle time before the current request.
    pub(crate) idle: Duration,
    /// How long the upstream says it keeps an idle connection.
    pub(crate) keep_alive: Option<Duration>,
}

/// A request that got no answer.
pub(crate) struct SendFailure {
    /// Whether any of it may have reached the upstream.
    pub(crate) written: bool,
    /// Whether any byte of an answer came.
    pub(crate) heard: bool,
    /// From handing it over to the failure.
    pub(crate) after: Duration,
    /// For the log.
    pub(crate) error: hyper::Error,
}

impl Link {
    pub(crate) async fn open(stream: Stream) -> hyper::Result<Self> {
        let heard = Rc::new(Cell::new(false));
        let stream = Overheard {
            stream,
            heard: heard.clone(),
        };
        let (sender, codec) = Builder::new()
            .max_headers(200)
            .max_buf_size(READ_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            codec: Some(Box::pin(codec)),
            heard,
            reused: false,
            idle: Duration::ZERO,
            keep_alive: None,
        })
    }

    fn poll_codec(&mut self, cx: &mut Context<'_>) {
        if let Some(codec) = &mut self.codec
            && codec.as_mut().poll(cx).is_ready()
        {
            self.codec = None;
        }
    }

    /// Whether another request can be sent, as far as the socket tells now.
    pub(crate) async fn is_open(&mut self) -> bool {
        poll_fn(|cx| {
            self.poll_codec(cx);
            Poll::Ready(self.codec.is_some() && self.sender.is_ready())
        })
        .await
    }

    /// Sends `request` and waits for the head of the answer.
    pub(crate) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, SendFailure> {
        let handed_over = Instant::now();
        self.heard.set(false);
        let mut answer = pin!(self.sender.try_send_request(request));
        let codec = &mut self.codec;
        let answered = poll_fn(|cx| {
            if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            if let Some(running) = codec
                && running.as_mut().poll(cx).is_ready()
            {
                *codec = None;
            }
            answer.as_mut().poll(cx)
        })
        .await;
        answered.map_err(|mut failure| SendFailure {
            written: failure.take_message().is_none(),
            heard: self.heard.get(),
            after: handed_over.elapsed(),
            error: failure.into_error(),
        })
    }

    /// Runs `work`, which reads an answer on this link.
    pub(crate) async fn drive<W: Future>(&mut self, work: W) -> W::Output {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.poll_codec(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    /// The next part of `body`, which is the answer on this link.
    pub(crate) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        self.poll_codec(cx);
        Pin::new(body).poll_frame(cx)
    }
}

/// A stream that tells whether anything came: the codec says of an answer that broke off inside its head only what it says
/// of none at all.
///
/// An upstream that answers before it has read the whole request, and closes, breaks the writing half while its answer lies
/// unread on the other. The codec takes the one for the end of both, so it is not told: what it writes then is lost, as it
/// would be anyway, and what it reads is the answer, or the end.
struct Overheard {
    stream: Stream,
    heard: Rc<Cell<bool>>,
}

/// What was written, or all of it where nobody reads any more.
fn unless_closed(written: Poll<io::Result<usize>>, all: impl FnOnce() -> usize) -> Poll<io::Result<usize>> {
    match written {
        Poll::Ready(Err(error))
            if matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            ) =>
        {
            Poll::Ready(Ok(all()))
        }
        other => other,
    }
}

impl AsyncRead for Overheard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.heard.set(true);
        }
        read
    }
}

impl AsyncWrite for Overheard {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        unless_closed(written, || buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        unless_closed(written, || bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
