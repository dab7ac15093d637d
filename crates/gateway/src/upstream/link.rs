//! One exchange with an upstream: on a connection of its own (HTTP/1.1), or as a stream of a shared one (HTTP/2).

pub(crate) use super::body::RequestBody;
use super::http1::Exclusive;
use super::http2::fault::{self, Fault};
use super::http2::stream::Stream;
use crate::snapshot::{PoolEntry, Upstream};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Most bytes that one look at a socket reads, and so the largest head of an answer.
pub(super) const READ_MAX: usize = 128 * 1024;
/// Most header lines of an answer.
pub(super) const LINES_MAX: usize = 200;

/// What carries an exchange.
pub(crate) struct Link {
    way: Way,
    /// Whether the connection has carried a request before.
    pub(crate) reused: bool,
    /// Idle time of the connection before the current request.
    pub(crate) idle: Duration,
    /// How long the upstream says it keeps an idle connection.
    pub(crate) keep_alive: Option<Duration>,
    /// The settings its connection was made under; none: an address alone.
    made_for: Option<Arc<PoolEntry>>,
    /// How many links failed the same attempt before it.
    pub(crate) stands_in: u8,
}

enum Way {
    Http1(Exclusive),
    Http2(Box<Stream>),
}

/// A request that got no answer.
pub(crate) struct SendFailure {
    /// Whether any of it may have been worked on by the upstream.
    pub(crate) written: bool,
    /// Whether any byte of an answer came.
    pub(crate) heard: bool,
    /// From handing it over to the failure.
    pub(crate) after: Duration,
    /// The TLS alert that came on a connection which had brought no answer yet: nothing of the request was read.
    pub(crate) alert: Option<rustls::AlertDescription>,
    /// For the log.
    pub(crate) error: LinkError,
}

/// Why an exchange broke off. Says nothing that the upstream could have put in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("{0}")]
    Http1(hyper::Error),
    #[error("{}", fault::text(.0))]
    Http2(h2::Error),
    /// The body of the request could not be read to its end.
    #[error("the request's body broke off")]
    Upload,
    /// The head of the answer has more than [`LINES_MAX`] lines.
    #[error("its head has more than {LINES_MAX} lines")]
    Lines,
}

impl LinkError {
    /// Whether the connection just ended.
    pub(crate) fn is_silent_end(&self) -> bool {
        match self {
            Self::Http1(error) => error.is_incomplete_message() || error.is_closed() || is_io(error),
            Self::Http2(error) => fault::of(error) == Fault::Ended,
            Self::Upload | Self::Lines => false,
        }
    }

    /// Whether the peer went away and said that it had not begun with the request.
    pub(crate) fn is_disowned(&self) -> bool {
        matches!(self, Self::Http2(error) if error.is_go_away() && fault::of(error) == Fault::NotBegun)
    }

    /// Whether what came, or what the upstream says of the exchange, is against the protocol.
    pub(crate) fn is_malformed(&self) -> bool {
        match self {
            Self::Http1(error) => error.is_parse() || error.is_parse_too_large(),
            Self::Http2(error) => fault::of(error) == Fault::Malformed,
            Self::Upload => false,
            Self::Lines => true,
        }
    }
}

fn is_io(error: &hyper::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>())
}

impl Link {
    fn new(way: Way) -> Self {
        Self {
            way,
            reused: false,
            idle: Duration::ZERO,
            keep_alive: None,
            made_for: None,
            stands_in: 0,
        }
    }

    pub(super) fn exclusive(connection: Exclusive, made_for: Option<Arc<PoolEntry>>) -> Self {
        Self {
            made_for,
            ..Self::new(Way::Http1(connection))
        }
    }

    /// Whether it may carry requests to `upstream`, as a reload may have left that: over TLS only as long as nothing was
    /// loaded anew, since certificates may have changed with their names the same.
    pub(crate) fn suits(&self, upstream: &Upstream) -> bool {
        self.made_for.as_ref().is_none_or(|made| {
            let plain = !upstream.url.https && upstream.pool.config.http == made.config.http;
            Arc::ptr_eq(made, &upstream.pool) || plain
        })
    }

    pub(super) fn stream(stream: Stream) -> Self {
        let (reused, idle) = (stream.reused(), stream.idle());
        Self {
            reused,
            idle,
            ..Self::new(Way::Http2(Box::new(stream)))
        }
    }

    /// Whether another request can be sent, as far as the socket tells now. A stream carries one.
    pub(crate) async fn is_open(&mut self) -> bool {
        match &mut self.way {
            Way::Http1(connection) => connection.is_open().await,
            Way::Http2(_) => false,
        }
    }

    /// Which of the shared connections it is a stream of: later ones have higher numbers.
    pub(super) fn serial(&self) -> Option<u64> {
        match &self.way {
            Way::Http1(_) => None,
            Way::Http2(stream) => Some(stream.serial()),
        }
    }

    /// Sends `request` and waits for the head of the answer.
    pub(crate) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, SendFailure> {
        match &mut self.way {
            Way::Http1(connection) => connection.send(request).await,
            Way::Http2(stream) => Box::pin(stream.send(request)).await,
        }
    }

    /// Runs `work`, which reads an answer on this link.
    pub(crate) async fn drive<W: Future>(&mut self, work: W) -> W::Output {
        let mut work = pin!(work);
        poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            match &mut self.way {
                Way::Http1(connection) => connection.poll_codec(cx),
                Way::Http2(stream) => stream.poll_upload(cx),
            }
            work.as_mut().poll(cx)
        })
        .await
    }

    /// The next part of `body`, which is the answer on this link.
    pub(crate) fn poll_frame(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, LinkError>>> {
        match (&mut self.way, &mut *body) {
            (Way::Http1(connection), Incoming::Http1(body)) => connection
                .poll_frame(body, cx)
                .map(|frame| frame.map(|frame| frame.map_err(LinkError::Http1))),
            (Way::Http2(stream), body) => {
                stream.poll_upload(cx);
                Pin::new(body).poll_frame(cx)
            }
            (Way::Http1(_), body) => Pin::new(body).poll_frame(cx),
        }
    }
}

/// Body of an answer.
pub(crate) enum Incoming {
    Http1(hyper::body::Incoming),
    Http2(super::http2::stream::Answer),
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = LinkError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, LinkError>>> {
        match self.get_mut() {
            Self::Http1(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(LinkError::Http1))),
            Self::Http2(answer) => answer
                .poll_data(cx)
                .map(|data| data.map(|data| data.map(Frame::data).map_err(LinkError::Http2))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(answer) => answer.is_end_stream(),
        }
    }
}
