//! What one attempt sends, and how it is carried out up to the point where its answer has begun.

use super::attempt::{Answer, Deadlines, Failure, Rest};
use super::headers::{self, X_REQUEST_ID};
use super::held::{Held, Memories};
use super::intake::Intake;
use super::run::Run;
use super::upload::{Upload, UploadBody};
use crate::client::connection::Client;
use crate::server::Worker;
use crate::snapshot::{RouteEntry, Upstream};
use crate::upstream::alert;
use crate::upstream::connect::ConnectError;
use crate::upstream::link::{Incoming, Link, LinkError, RequestBody, SendFailure};
use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body::Body as _;
use secrecy::ExposeSecret;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, SystemTime};
use tokio::time::{Instant, timeout_at};
use weighbridge_config::resolved::Usage;
use weighbridge_wire::{Api, StreamObserver, Timeout, UnaskedUsage, body_error, retry_after, rewrite};

/// Most bytes of an error answer, or of a stream's first event, that are read before deciding.
const LOOK_MAX: usize = 64 * 1024;
/// Longest time for which the text of an error answer is read, after its head.
const ERROR_WITHIN: Duration = Duration::from_secs(2);
/// Time by which that ends before the attempt's own clock, which would take the status away.
const ERROR_MARGIN: Duration = Duration::from_millis(20);
/// Idle time after which a reused connection's silent end may mean that the upstream had closed it.
const RESEND_IDLE: Duration = Duration::from_millis(100);
/// Longest time from the write to that end for the upstream not to have begun.
const RESEND_WITHIN: Duration = Duration::from_millis(50);

/// Which data-parallel rank of the engine a request is for: vLLM's name, which SGLang's router knows as well.
const DATA_PARALLEL_RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");

/// One attempt, ready to be sent.
pub(crate) struct Plan {
    worker: Rc<Worker>,
    upstream: Arc<Upstream>,
    api: Api,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Sent,
    /// Whether the body asks for a usage that the client did not ask for.
    asks_for_usage: bool,
    /// Whether a request that was surely not served may be sent again.
    resend: bool,
    client: Rc<Client>,
    /// How far answers may fill the memory of all bodies, bytes.
    held_limit: usize,
    pub(crate) deadlines: Deadlines,
}

/// The body that goes upstream.
enum Sent {
    Whole(Bytes),
    /// What arrives, with the place of a change and what stands there instead.
    Upload(Upload, Option<(Range<usize>, Bytes)>),
}

/// An answer's head with its connection.
struct Head {
    link: Link,
    response: Response<Incoming>,
}

impl Plan {
    /// Puts together what `upstream` gets of the request, with upstream key number `key`.
    pub(crate) fn new(run: &Run, upstream: &Arc<Upstream>, key: u16) -> Result<Self, Failure> {
        let intake = &run.intake;
        let pool = &upstream.pool;
        let mut headers = headers::forwarded(&intake.headers, pool.config.forward_client_key);
        headers.insert(HOST, upstream.host.clone());
        // A request that began before a reload with more keys may have the turn of one that its config does not know.
        let credential = pool
            .credentials
            .get(usize::from(key))
            .or_else(|| pool.credentials.first());
        if let Some((name, value)) = credential {
            headers.insert(name, value.clone());
        }
        if let Some(rank) = upstream.rank {
            headers.insert(DATA_PARALLEL_RANK, HeaderValue::from(rank));
        }
        if let Ok(id) = HeaderValue::try_from(&*run.flight.record.request_id) {
            headers.insert(X_REQUEST_ID, id);
        }
        run.flight.record.trace.put(&mut headers);
        let timeouts = pool.config.timeouts;
        let began = Instant::now();
        headers::ask_for_identity(&mut headers);
        let upload = run.flight.upload.as_ref();
        let (first, first_name) = if upload.map_or(intake.peek.stream, Upload::stream) {
            (timeouts.first_byte, Timeout::FirstByte)
        } else {
            (timeouts.total, Timeout::Total)
        };
        let model = pool.config.model.as_deref().unwrap_or(&intake.model);
        let asks_for_usage = asks_for_usage(run);
        let body = match upload {
            Some(upload) => Sent::Upload(
                upload.clone(),
                upload.rename(model, intake.api != Api::Passthrough),
            ),
            None if intake.as_is => Sent::Whole(intake.body.clone()),
            None => Sent::Whole(rewrite(&intake.body, &intake.peek, (model, asks_for_usage))),
        };
        let uri = uri(upstream, intake).ok_or_else(|| {
            Failure::Broken("the endpoint's URL and the request's query make no valid URI".into())
        })?;
        let server = &run.flight.snapshot.config.server;
        let memory = &run.flight.worker.gateway.body_memory;
        Ok(Self {
            client: run.flight.client.clone(),
            // The other half is left for requests.
            held_limit: memory.limit(server.body_memory, server.max_body) / 2,
            worker: run.flight.worker.clone(),
            upstream: upstream.clone(),
            api: intake.api,
            method: intake.method.clone(),
            uri,
            headers,
            body,
            asks_for_usage,
            resend: (run.flight.record.route.as_ref())
                .and_then(|route| route.resend)
                .unwrap_or(pool.config.resend),
            deadlines: Deadlines {
                began,
                first: began + first,
                first_name,
            },
        })
    }

    fn request(&self) -> Request<RequestBody> {
        let body = match &self.body {
            Sent::Whole(bytes) => RequestBody::Whole(bytes.clone()),
            Sent::Upload(upload, change) => {
                RequestBody::Upload(Box::new(UploadBody::new(upload, change.clone())))
            }
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        request
    }

    async fn connect(&self, instead_of: Option<&Link>) -> Result<Link, Failure> {
        let connections = &self.worker.upstreams;
        let connected = connections.connect(&self.upstream, instead_of).await;
        connected.map_err(Failure::Connect)
    }

    /// Sends the request and reads the answer as far as it takes to know that it is one.
    pub(crate) async fn carry_out(self) -> Result<Answer, Failure> {
        let mut link = match self.worker.upstreams.take(&self.upstream).await {
            Some(link) => link,
            None => self.connect(None).await?,
        };
        let response = loop {
            match link.send(self.request()).await {
                Ok(response) => break response,
                Err(failure) if self.may_resend(&link, &failure) => link = self.connect(Some(&link)).await?,
                Err(failure) => return Err(unanswered(&failure, self.upstream.shows_certificate())),
            }
        };
        let said = response
            .headers()
            .get("keep-alive")
            .and_then(|value| value.to_str().ok());
        link.keep_alive = said.and_then(keep_alive_seconds);
        let head = Head { link, response };
        match head.response.status().as_u16() {
            200..=299 if is_event_stream(head.response.headers()) => self.begin_stream(head).await,
            200..=299 => self.begin_whole(head).await,
            status @ 300..=399 => Err(Failure::Broken(format!("upstream redirected ({status})"))),
            _ => Err(self.read_error(head).await),
        }
    }

    /// Whether sending once more can do no harm: nothing was written, or the upstream had closed the idle connection, or
    /// says itself that it has not begun. Only where it goes away from many at once is there a third time.
    fn may_resend(&self, link: &Link, failure: &SendFailure) -> bool {
        let had_closed = link.reused
            && link.idle >= RESEND_IDLE
            && failure.after <= RESEND_WITHIN
            && !failure.heard
            && failure.error.is_silent_end();
        let harmless = match link.stands_in {
            0 => !failure.written || had_closed,
            1 => failure.error.is_disowned(),
            _ => false,
        };
        self.resend && harmless
    }

    /// Holds the head of a stream back until its first event, or its first comment, is here.
    async fn begin_stream(self, head: Head) -> Result<Answer, Failure> {
        let Head { mut link, response } = head;
        let (parts, mut body) = response.into_parts();
        let mut observer = Box::new(StreamObserver::new(self.api));
        let mut first = Bytes::new();
        loop {
            match next(&mut link, &mut body).await {
                Some(Ok(mut data)) => {
                    let fed = observer.feed(&data);
                    data.truncate(fed.error_end.unwrap_or(data.len()));
                    first = joined(first, data);
                }
                Some(Err(_)) => return Err(no_event()),
                None => {
                    // Some servers close without the blank line that ends their last event.
                    observer.finish();
                    if !(observer.done() || observer.finished() || observer.error().is_some()) {
                        return Err(no_event());
                    }
                    break;
                }
            }
            if observer.events() > 0 || observer.at_boundary() || first.len() > LOOK_MAX {
                break;
            }
        }
        if let Some(error) = observer.error().filter(|_| observer.error_first()) {
            let status = error.status.unwrap_or(500);
            return Err(Failure::InBand {
                upstream: self.upstream,
                status,
                error: error.clone(),
            });
        }
        // What is coded passes as it is.
        let unasked = (self.asks_for_usage && !is_encoded(&parts.headers)).then(UnaskedUsage::new);
        let rest = Rest::Events {
            first,
            link,
            body,
            observer,
            unasked,
            deadlines: self.deadlines,
        };
        Ok(Answer {
            upstream: self.upstream,
            status: parts.status,
            headers: parts.headers,
            rest,
        })
    }

    /// Reads an answer in one piece to its end, unless it is large.
    async fn begin_whole(self, head: Head) -> Result<Answer, Failure> {
        let Head { mut link, response } = head;
        let (parts, mut body) = response.into_parts();
        let mut held = Held::default();
        let memories = Memories {
            all: (&self.worker.gateway.body_memory, self.held_limit),
            connection: self.client.held(),
        };
        // What is no JSON says nothing that would have to be known before it is passed on.
        let flows = self.api.answers_any_type() && !is_json(&parts.headers);
        loop {
            let holds = match next(&mut link, &mut body).await {
                Some(Ok(data)) => held.add(data, || body.size_hint().exact(), &memories),
                Some(Err(error)) => return Err(Failure::Broken(format!("the answer broke off: {error}"))),
                None => break,
            };
            if !holds || (flows && held.len() > 0 && !body.is_end_stream()) {
                let rest = Rest::Pieces {
                    first: held.into_bytes(),
                    link,
                    body,
                    deadlines: self.deadlines,
                };
                return Ok(Answer {
                    upstream: self.upstream,
                    status: parts.status,
                    headers: parts.headers,
                    rest,
                });
            }
        }
        self.give_back(link).await;
        let held = held.into_bytes();
        if let Some(error) = body_error(&held).filter(|_| self.api != Api::Passthrough) {
            let status = error.status.unwrap_or(500);
            return Err(Failure::InBand {
                upstream: self.upstream,
                status,
                error,
            });
        }
        Ok(Answer {
            upstream: self.upstream,
            status: parts.status,
            headers: parts.headers,
            rest: Rest::Whole(held),
        })
    }

    async fn read_error(self, head: Head) -> Failure {
        let Head { mut link, response } = head;
        let (parts, mut body) = response.into_parts();
        let mut said = Bytes::new();
        // Its status is known, and worth more than the end of its text.
        let until = (Instant::now() + ERROR_WITHIN).min(self.deadlines.first - ERROR_MARGIN);
        let whole = loop {
            match timeout_at(until, next(&mut link, &mut body)).await {
                Ok(Some(Ok(data))) if said.len() + data.len() <= LOOK_MAX => said = joined(said, data),
                Ok(None) => break true,
                Ok(Some(_)) | Err(_) => break false,
            }
        };
        if whole {
            self.give_back(link).await;
        }
        if is_encoded(&parts.headers) {
            // Against our word, and nothing that a person could read.
            said = Bytes::new();
        }
        let wait = parts.headers.get(RETRY_AFTER);
        Failure::Said {
            upstream: self.upstream,
            status: parts.status.as_u16(),
            retry_after: wait.and_then(|value| retry_after::parse(value.as_bytes(), SystemTime::now())),
            headers: Box::new(parts.headers),
            body: said,
        }
    }

    async fn give_back(&self, mut link: Link) {
        if link.is_open().await {
            self.worker.upstreams.put(&self.upstream, link);
        }
    }
}

/// Whether the stream's usage is asked for on the client's behalf.
fn asks_for_usage(run: &Run) -> bool {
    let injects = |route: &Arc<RouteEntry>| route.usage == Usage::Inject;
    matches!(run.intake.api, Api::ChatCompletions | Api::Completions)
        && run.flight.record.route.as_ref().is_some_and(injects)
        && run.intake.peek.can_ask_for_usage()
}

fn uri(upstream: &Upstream, intake: &Intake) -> Option<Uri> {
    let query = intake.query.as_deref();
    let own = upstream
        .url
        .query
        .as_ref()
        .map(|query| query.expose_secret().to_owned());
    let query = match (own, query) {
        (Some(own), Some(client)) => Some(format!("{own}&{client}")),
        (own, client) => own.or_else(|| client.map(str::to_owned)),
    };
    let prefix = &upstream.url.prefix;
    match query {
        None if prefix.is_empty() && intake.own_path.is_none() => Some(Uri::from_static(intake.api.path())),
        None => format!("{prefix}{}", intake.path()).try_into().ok(),
        Some(query) => format!("{prefix}{}?{query}", intake.path()).try_into().ok(),
    }
}

/// Two pieces as one; free while the first is empty.
pub(crate) fn joined(first: Bytes, second: Bytes) -> Bytes {
    if first.is_empty() {
        return second;
    }
    let mut both = match first.try_into_mut() {
        Ok(first) => first,
        Err(first) => BytesMut::from(&*first),
    };
    both.extend_from_slice(&second);
    both.freeze()
}

/// The next data of an answer; trailers are passed over.
async fn next(link: &mut Link, body: &mut Incoming) -> Option<Result<Bytes, LinkError>> {
    poll_fn(|cx| {
        loop {
            return match std::task::ready!(link.poll_frame(body, cx)) {
                None => Poll::Ready(None),
                Some(Err(error)) => Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => Poll::Ready(Some(Ok(data))),
                    Err(_) => continue,
                },
            };
        }
    })
    .await
}

fn no_event() -> Failure {
    Failure::Broken("the stream ended before its first event was complete".into())
}

/// A request of which nothing was written, or which the upstream says it has not begun with, may go elsewhere; of any
/// other, nobody knows what became. An engine that refuses the certificate which the gateway `shows`, or misses one, has
/// not read the request.
fn unanswered(failure: &SendFailure, shows: bool) -> Failure {
    let http2 = matches!(failure.error, LinkError::Http2(_));
    if let Some(alert) = failure.alert {
        Failure::Connect(ConnectError::Other(alert::text(alert, shows)))
    } else if !failure.written {
        Failure::Connect(ConnectError::Other(if http2 {
            format!("the upstream did not take the request: {}", failure.error)
        } else {
            "the upstream closed the connection before the request was written".into()
        }))
    } else if failure.error.is_malformed() {
        Failure::Broken(format!("the upstream's answer is not HTTP: {}", failure.error))
    } else if http2 && !failure.error.is_silent_end() {
        Failure::Reset(format!("no answer: {}", failure.error))
    } else {
        Failure::Reset("the upstream closed the connection without an answer".into())
    }
}

pub(crate) fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_ENCODING)
        .is_some_and(|coding| coding != "identity")
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kind.is_none_or(|kind| kind.windows(4).any(|word| word.eq_ignore_ascii_case(b"json")))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        value
            .as_bytes()
            .get(..17)
            .is_some_and(|head| head.eq_ignore_ascii_case(b"text/event-stream"))
    })
}

/// n of `timeout=n` in a `keep-alive` header.
fn keep_alive_seconds(value: &str) -> Option<Duration> {
    let pair = value
        .split(',')
        .map(str::trim)
        .find_map(|part| part.strip_prefix("timeout="))?;
    pair.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::connect::connect_to;
    use tokio::io::AsyncReadExt;
    use weighbridge_core::event::Outcome as Ending;

    /// How a request ends on a connection that the upstream closes, before the request or after it.
    async fn ending(closed_before: bool) -> Ending {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut link = connect_to(listener.local_addr().unwrap()).await.unwrap();
        let (mut upstream, _) = listener.accept().await.unwrap();
        let request = Request::post("/")
            .header(HOST, "x")
            .body(RequestBody::Whole(Bytes::new()))
            .unwrap();
        let failure = if closed_before {
            drop(upstream);
            while link.is_open().await {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            link.send(request).await
        } else {
            let read_and_close = async {
                let mut head = [0; 4];
                upstream.read_exact(&mut head).await.unwrap();
                drop(upstream);
            };
            tokio::join!(link.send(request), read_and_close).0
        };
        unanswered(&failure.err().unwrap(), false).ending()
    }

    #[tokio::test]
    async fn only_what_was_written_may_have_been_delivered() {
        assert_eq!(ending(true).await, Ending::ConnectFailed);
        assert_eq!(ending(false).await, Ending::Reset);
    }
}
