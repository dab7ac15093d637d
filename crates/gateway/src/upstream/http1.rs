//! An exclusive HTTP/1.1 connection.
//!
//! The codec's connection future has no task of its own: whoever uses the connection polls it. So bytes move from socket
//! to socket within one task, and dropping it closes its socket at once, which is how an upstream learns that its client
//! has left.

use super::alert;
use super::connect::Stream;
use super::link::{Incoming, LinkError, READ_MAX, RequestBody, SendFailure};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

type Codec = Connection<TokioIo<Overheard>, RequestBody>;

/// A connection.
pub(super) struct Exclusive {
    sender: SendRequest<RequestBody>,
    /// None once it has ended.
    codec: Option<Pin<Box<Codec>>>,
    said: Rc<Said>,
    answered: bool,
}

/// What passed since the newest request was handed over.
#[derive(Default)]
pub(super) struct Said {
    /// Something has come.
    pub(super) heard: Cell<bool>,
    /// Something was written.
    written: Cell<bool>,
    /// The peer ended the connection with this, now or before.
    pub(super) alert: Cell<Option<rustls::AlertDescription>>,
}

impl Said {
    /// Keeps the alert that `error` is, whatever comes after it.
    fn note(&self, error: &io::Error) {
        if let Some(alert) = alert::of(error) {
            self.alert.set(Some(alert));
        }
    }
}

impl Exclusive {
    pub(super) async fn open(stream: Stream) -> hyper::Result<Self> {
        let said = Rc::<Said>::default();
        let stream = Overheard {
            stream,
            said: said.clone(),
        };
        let (sender, codec) = Builder::new()
            .max_headers(200)
            .max_buf_size(READ_MAX)
            .handshake(TokioIo::new(stream))
            .await?;
        Ok(Self {
            sender,
            codec: Some(Box::pin(codec)),
            said,
            answered: false,
        })
    }

    pub(super) fn poll_codec(&mut self, cx: &mut Context<'_>) {
        if let Some(codec) = &mut self.codec
            && codec.as_mut().poll(cx).is_ready()
        {
            self.codec = None;
        }
    }

    /// Whether another request can be sent, as far as the socket tells now.
    pub(super) async fn is_open(&mut self) -> bool {
        poll_fn(|cx| {
            self.poll_codec(cx);
            Poll::Ready(self.codec.is_some() && self.sender.is_ready())
        })
        .await
    }

    /// Sends `request` and waits for the head of the answer.
    pub(super) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, SendFailure> {
        let handed_over = Instant::now();
        self.said.heard.set(false);
        self.said.written.set(false);
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
        match answered {
            Ok(response) => {
                self.answered = true;
                Ok(response.map(Incoming::Http1))
            }
            Err(mut failure) => Err(SendFailure {
                written: failure.take_message().is_none(),
                heard: self.said.heard.get(),
                after: handed_over.elapsed(),
                alert: self.said.alert.get().filter(|_| !self.answered),
                error: LinkError::Http1(failure.into_error()),
            }),
        }
    }

    /// The next part of `body`, which is the answer on this connection.
    pub(super) fn poll_frame(
        &mut self,
        body: &mut hyper::body::Incoming,
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
/// would be anyway, and what it reads is the answer, or the end. Where nothing of the request was written it is told, since
/// such a request can go elsewhere.
pub(super) struct Overheard {
    pub(super) stream: Stream,
    pub(super) said: Rc<Said>,
}

impl Overheard {
    /// What was written, or all of it where nobody reads any more.
    fn wrote(
        &self,
        written: Poll<io::Result<usize>>,
        all: impl FnOnce() -> usize,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(1..)) => self.said.written.set(true),
            Poll::Ready(Err(error)) if self.said.written.get() && is_closed(error) => {
                return Poll::Ready(Ok(all()));
            }
            _ => {}
        }
        written
    }
}

impl Overheard {
    /// A peer that objects and closes breaks the writing half while its alert lies unread on the other, or is yet to be
    /// noticed there: the end is told once that has been looked at. Takes nothing of what can be read.
    fn after_alert<T>(&mut self, wrote: Poll<io::Result<T>>, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &wrote
            && is_closed(error)
            && !self.said.heard.get()
            && matches!(self.stream, Stream::Tls(_))
        {
            let mut nothing = ReadBuf::new(&mut []);
            if let Err(error) = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut nothing)) {
                self.said.note(&error);
            }
        }
        wrote
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
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
            self.said.heard.set(true);
        }
        if let Poll::Ready(Err(error)) = &read {
            self.said.note(error);
        }
        read
    }
}

impl AsyncWrite for Overheard {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        let written = self.after_alert(written, cx);
        self.wrote(written, || buf.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        let written = self.after_alert(written, cx);
        self.wrote(written, || bufs.iter().map(|buf| buf.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.after_alert(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
