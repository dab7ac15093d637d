//! One exchange as a stream.

use super::super::link::{Incoming, LINES_MAX, Link, LinkError, RequestBody, SendFailure};
use super::connection::{Connection, Lease};
use super::fault::{self, Fault};
use bytes::Bytes;
use h2::{Reason, RecvStream, SendStream};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, PathAndQuery};
use http::{Method, Request, Response, Uri, Version};
use http_body::Body;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

/// The right to one stream, then the stream. Dropped before its end, it is reset, and the peer knows that nobody waits.
pub(crate) struct Stream {
    lease: Lease,
    upload: Option<Upload>,
}

/// A new stream of `connection`.
pub(crate) fn of(connection: Rc<Connection>) -> Link {
    Link::stream(Stream::new(connection))
}

impl Stream {
    fn new(connection: Rc<Connection>) -> Self {
        Self {
            lease: Lease::new(connection),
            upload: None,
        }
    }

    pub(crate) fn reused(&self) -> bool {
        self.lease.reused
    }

    pub(crate) fn idle(&self) -> Duration {
        self.lease.idle
    }

    pub(crate) fn serial(&self) -> u64 {
        self.lease.connection.serial
    }

    /// Sends `request` and waits for the head of the answer.
    pub(crate) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, SendFailure> {
        let handed_over = Instant::now();
        let connection = self.lease.connection.clone();
        let failure = |written, error| SendFailure {
            written,
            heard: false,
            after: handed_over.elapsed(),
            alert: connection.alert(),
            error,
        };
        let (head, body) = self.translated(request);
        let ends = body.is_end_stream();
        let sent = self.lease.connection.sender().send_request(head, ends);
        let (answer, stream) = sent.map_err(|error| failure(false, LinkError::Http2(error)))?;
        self.upload = (!ends).then(|| Upload {
            body: Box::pin(body),
            stream,
            rest: Bytes::new(),
        });
        let mut answer = pin!(answer);
        let answered = poll_fn(|cx| {
            if let Some(upload) = &mut self.upload
                && let Poll::Ready(end) = upload.poll(cx)
            {
                self.upload = None;
                if end.is_err() {
                    return Poll::Ready(Err(LinkError::Upload));
                }
            }
            answer.as_mut().poll(cx).map_err(LinkError::Http2)
        });
        match answered.await {
            // Dropping the answer resets the stream; the others of its connection go on.
            Ok(response) if response.headers().len() > LINES_MAX => Err(failure(true, LinkError::Lines)),
            Ok(response) => {
                connection.has_answered();
                let length = response.headers().get(CONTENT_LENGTH);
                let left = length.and_then(|length| length.to_str().ok()?.parse().ok());
                Ok(response.map(|stream| {
                    Incoming::Http2(Answer {
                        stream,
                        connection,
                        left,
                    })
                }))
            }
            Err(LinkError::Http2(error)) => {
                let begun = fault::of(&error) != Fault::NotBegun;
                Err(failure(begun, LinkError::Http2(error)))
            }
            Err(error) => Err(failure(true, error)),
        }
    }

    /// `request` as HTTP/2 has it: the host beside the path, and nothing about the connection (RFC 9113, section 8.2.2).
    fn translated(&self, request: Request<RequestBody>) -> (Request<()>, RequestBody) {
        let (mut parts, body) = request.into_parts();
        for name in [CONNECTION, TRANSFER_ENCODING, TE, UPGRADE] {
            parts.headers.remove(name);
        }
        for name in ["keep-alive", "proxy-connection", "http2-settings"] {
            parts.headers.remove(HeaderName::from_static(name));
        }
        let length = body.size_hint().exact();
        if let Some(length) = length.filter(|length| *length > 0 || parts.method != Method::GET) {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        let host = parts.headers.remove(HOST);
        let authority = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let mut uri = std::mem::take(&mut parts.uri).into_parts();
        if authority.is_some() {
            uri.scheme = Some(self.lease.connection.scheme.clone());
            uri.authority = authority;
        }
        uri.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
        let mut head = Request::new(());
        *head.method_mut() = parts.method;
        *head.uri_mut() = Uri::from_parts(uri).unwrap_or_default();
        *head.version_mut() = Version::HTTP_2;
        *head.headers_mut() = parts.headers;
        (head, body)
    }

    /// Sends what is left of the request while its answer is read. Where it breaks off, the answer tells.
    pub(crate) fn poll_upload(&mut self, cx: &mut Context<'_>) {
        if let Some(upload) = &mut self.upload
            && upload.poll(cx).is_ready()
        {
            self.upload = None;
        }
    }
}

/// A request's body on its way, as fast as the peer takes it.
struct Upload {
    body: Pin<Box<RequestBody>>,
    stream: SendStream<Bytes>,
    /// Read and not yet sent.
    rest: Bytes,
}

/// The body could not be read.
struct BrokeOff;

impl Upload {
    /// Ready when all is sent, or when the peer wants no more.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BrokeOff>> {
        loop {
            if self.rest.is_empty() {
                let frame = match ready!(self.body.as_mut().poll_frame(cx)) {
                    Some(Ok(frame)) => frame,
                    Some(Err(_)) => {
                        self.stream.send_reset(Reason::CANCEL);
                        return Poll::Ready(Err(BrokeOff));
                    }
                    None => {
                        let _ = self.stream.send_data(Bytes::new(), true);
                        return Poll::Ready(Ok(()));
                    }
                };
                self.rest = frame.into_data().unwrap_or_default();
                continue;
            }
            self.stream.reserve_capacity(self.rest.len());
            while self.stream.capacity() == 0 {
                if !matches!(ready!(self.stream.poll_capacity(cx)), Some(Ok(_))) {
                    return Poll::Ready(Ok(()));
                }
            }
            let piece = self.rest.split_to(self.stream.capacity().min(self.rest.len()));
            let last = self.rest.is_empty() && self.body.is_end_stream();
            if self.stream.send_data(piece, last).is_err() || last {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Body of an answer. What has been taken of it makes room for more, so that whoever does not read holds up its own
/// stream only.
pub(crate) struct Answer {
    stream: RecvStream,
    connection: Rc<Connection>,
    /// Bytes to come, where the head says how many.
    left: Option<u64>,
}

impl Answer {
    /// The next data; trailers are passed over.
    pub(crate) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, h2::Error>>> {
        loop {
            let data = match ready!(self.stream.poll_data(cx)) {
                Some(Ok(data)) => data,
                other => return Poll::Ready(other),
            };
            if data.is_empty() {
                if !self.stream.is_end_stream() {
                    self.connection.count_empty();
                }
                continue;
            }
            self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
            return match self.stream.flow_control().release_capacity(data.len()) {
                Ok(()) => Poll::Ready(Some(Ok(data))),
                Err(error) => Poll::Ready(Some(Err(error))),
            };
        }
    }

    /// Whether all of it has come. A peer may say so in a frame of its own, which nobody asks for who knows the length.
    pub(crate) fn is_end_stream(&self) -> bool {
        self.left == Some(0) || self.stream.is_end_stream()
    }
}
