//! Building what the client gets.

use super::attempt::{Answer, Failure, Rest};
use super::flight::Flight;
use super::headers::{self, X_REQUEST_ID};
use super::intake::Refused;
use super::plan::is_encoded;
use super::prompt::Prompt;
use super::relay::{AnswerBody, Relay, Source};
use super::run::Run;
use super::stored;
use crate::admin_view;
use crate::lifecycle::Phase;
use crate::snapshot::Upstream;
use crate::telemetry::outcome::Outcome;
use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_config::resolved::Headers;
use weighbridge_core::event::Outcome as Ending;
use weighbridge_wire::{
    ErrorBody, Protocol, body_usage, client_status, estimated_usage, passes_untouched, upstream_error,
};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Largest `x-weighbridge-explain` header, bytes.
const EXPLAIN_MAX: usize = 4096;

/// Sends the head of a stream ahead of its answer, with what is known of it by now.
pub(crate) fn send_ahead(run: &mut Run) {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    unbuffered(&mut headers);
    add_facts(&mut headers, &run.flight, true);
    run.flight.send_ahead(headers);
}

/// Proxies pass each event on at once.
fn unbuffered(headers: &mut HeaderMap) {
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
}

/// An answer that cannot follow a head that went ahead of it: only events can.
fn unfit(mut run: Run, rest: Rest) -> Response<AnswerBody> {
    let (ending, what) = match rest {
        Rest::Whole(bytes) => {
            count_whole(&mut run, &bytes);
            (Ending::Complete, "in one piece, where a stream was asked for")
        }
        Rest::Pieces { .. } => (Ending::Broken, "in one piece, where a stream was asked for"),
        Rest::Events { .. } => (Ending::Broken, "in a coding that was not asked for"),
    };
    run.flight.ended(ending, true);
    let error = ErrorBody::bad_gateway(format!("the engine's answer cannot be used: it came {what}"));
    self::error(run.flight, run.intake.protocol, error, Outcome::UpstreamError)
}

/// The start of a stream without a byte order mark, which is one at the very start only.
fn without_mark(first: Bytes) -> Bytes {
    match first.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) => first.slice_ref(rest),
        None => first,
    }
}

/// Notes what an answer in one piece cost.
fn count_whole(run: &mut Run, bytes: &Bytes) {
    let api = run.intake.api;
    run.flight.record.usage = body_usage(api, bytes);
    if run.flight.record.usage.is_none()
        && let Some(usage) = estimated_usage(api, bytes, || {
            Prompt::of((api, &run.intake.body), run.intake.work.as_deref()).tokens()
        })
    {
        run.flight.record.usage = Some(usage);
        run.flight.record.usage_estimated = true;
    }
}

/// The answer of an attempt that succeeded so far.
pub(crate) fn answered(mut run: Run, answer: Answer) -> Response<AnswerBody> {
    let joins = matches!(answer.rest, Rest::Events { .. }) && !is_encoded(&answer.headers);
    if run.flight.head_sent && !joins {
        return unfit(run, answer.rest);
    }
    let Answer {
        upstream,
        status,
        headers: from_upstream,
        rest,
    } = answer;
    let mut headers = headers::returned(&from_upstream, &upstream.pool.secrets);
    // Where the codec cannot know the length, the upstream's own stands, unless it framed the answer otherwise: the codec
    // read it by that (RFC 9112, section 6.3), and would cut it to a length that says something else.
    if !matches!(rest, Rest::Pieces { .. }) || from_upstream.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    add_facts(&mut headers, &run.flight, true);
    run.flight.record.reason = None;
    run.flight.client.exchange.committed.set(true);
    if let Some(upload) = &run.flight.upload {
        upload.commit();
    }
    let body = match rest {
        Rest::Whole(bytes) => {
            count_whole(&mut run, &bytes);
            stored::answered(&run, &bytes);
            run.flight.ended(Ending::Complete, true);
            run.flight.finish(Outcome::Ok, status.as_u16());
            AnswerBody::Whole(Some(bytes))
        }
        rest => {
            if matches!(rest, Rest::Events { .. }) {
                unbuffered(&mut headers);
            }
            relayed(run, upstream, status, rest)
        }
    };
    build(status, headers, body)
}

/// The body of an answer that is passed on as it comes.
fn relayed(run: Run, upstream: Arc<Upstream>, status: StatusCode, rest: Rest) -> AnswerBody {
    let api = run.intake.api;
    match rest {
        Rest::Whole(bytes) => AnswerBody::Whole(Some(bytes)),
        Rest::Events {
            first,
            link,
            body,
            mut observer,
            unasked,
            deadlines,
        } => {
            stored::begun(&run.flight, api, &mut observer);
            let head_sent = run.flight.head_sent;
            let source = Source {
                first: if head_sent { without_mark(first) } else { first },
                link,
                body,
                observer: Some(observer),
                unasked,
                prompt: Prompt::of((api, &run.intake.body), run.intake.work.as_deref()),
                deadlines,
            };
            let status = if head_sent { 200 } else { status.as_u16() };
            AnswerBody::Events(Box::new(Relay::new(run.flight, upstream, (api, status), source)))
        }
        Rest::Pieces {
            first,
            link,
            body,
            deadlines,
        } => {
            stored::answered(&run, &first);
            let source = Source {
                first,
                link,
                body,
                observer: None,
                unasked: None,
                prompt: Prompt::none(),
                deadlines,
            };
            let relay = Relay::new(run.flight, upstream, (api, status.as_u16()), source);
            AnswerBody::Pieces(Box::new(relay))
        }
    }
}

/// The answer of a request whose last attempt failed with `failure`, which is the end.
pub(crate) fn failed(
    run: Run,
    failure: Failure,
    (outcome, soonest): (Outcome, Option<Duration>),
) -> Response<AnswerBody> {
    let protocol = run.intake.protocol;
    match failure {
        Failure::Said {
            upstream,
            status,
            headers,
            body,
            retry_after,
        } => {
            let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let secrets = &upstream.pool.secrets;
            let client = client_status(protocol, status);
            let mut returned = headers::returned(&headers, secrets);
            returned.remove(CONTENT_LENGTH);
            let wait = soonest
                .or(retry_after)
                .filter(|_| matches!(client, 429 | 503 | 529));
            if !run.flight.head_sent
                && passes_untouched(protocol, status, content_type, &body)
                && !headers::holds_secret(&body, secrets)
            {
                returned.remove(RETRY_AFTER);
                set_retry_after(&mut returned, wait);
                return finished(run.flight, (client, outcome), returned, body);
            }
            let mut error = upstream_error(protocol, status, content_type, &body);
            error.message = headers::without_secrets(&error.message, secrets);
            error.retry_after = wait;
            self::error(run.flight, protocol, error, outcome)
        }
        Failure::InBand {
            upstream,
            status,
            error,
        } => {
            let mut error = ErrorBody::in_band(protocol, &error);
            error.status = client_status(protocol, status);
            error.message = headers::without_secrets(&error.message, &upstream.pool.secrets);
            error.retry_after = soonest.filter(|_| matches!(error.status, 429 | 503 | 529));
            self::error(run.flight, protocol, error, outcome)
        }
        Failure::Connect(_) => {
            let error = ErrorBody::unavailable("no engine of this model can be reached", soonest);
            self::error(run.flight, protocol, error, outcome)
        }
        Failure::Reset(_) => {
            let what = "the engine closed the connection without an answer";
            self::error(run.flight, protocol, ErrorBody::bad_gateway(what), outcome)
        }
        Failure::Broken(why) => {
            let what = format!("the engine's answer cannot be used: {why}");
            self::error(run.flight, protocol, ErrorBody::bad_gateway(what), outcome)
        }
        Failure::TimedOut(which) => self::error(run.flight, protocol, ErrorBody::timeout(which), outcome),
    }
}

/// A request that was refused before it was routed.
pub(crate) fn refused(refused: Box<Refused>) -> Response<AnswerBody> {
    let Refused {
        flight,
        protocol,
        error,
        outcome,
        allow,
        close,
    } = *refused;
    let close = close && flight.client.ends_by_header();
    let mut response = self::error(flight, protocol, error, outcome);
    if let Some(allow) = allow {
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static(allow));
    }
    if close {
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// An error of ours, in the client's protocol: an event where the head has been sent.
pub(crate) fn error(
    mut flight: Flight,
    protocol: Protocol,
    error: ErrorBody,
    outcome: Outcome,
) -> Response<AnswerBody> {
    let mut headers = HeaderMap::new();
    set_retry_after(&mut headers, error.retry_after);
    flight.record.reason.get_or_insert_with(|| error.message.clone());
    if let Some(api) = flight.record.api.filter(|_| flight.head_sent) {
        let event = error.sse_event_for(api, Some(&flight.record.request_id));
        flight.finish(outcome, 200);
        return build(StatusCode::OK, headers, AnswerBody::Whole(Some(event)));
    }
    let status = error.status;
    let body = error.with_request_id(&*flight.record.request_id).render(protocol);
    headers.insert(CONTENT_TYPE, JSON);
    finished(flight, (status, outcome), headers, body)
}

/// An answer that is complete as it stands.
pub(crate) fn finished(
    mut flight: Flight,
    (status, outcome): (u16, Outcome),
    mut headers: HeaderMap,
    body: Bytes,
) -> Response<AnswerBody> {
    add_facts(&mut headers, &flight, flight.record.attempts > 0);
    flight.client.exchange.committed.set(true);
    // Whoever left may not read it, though it may be sent.
    let seen = if outcome == Outcome::ClientClosed {
        499
    } else {
        status
    };
    flight.finish(outcome, seen);
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    build(status, headers, AnswerBody::Whole(Some(body)))
}

fn build(status: StatusCode, headers: HeaderMap, body: AnswerBody) -> Response<AnswerBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Whole seconds, at least 1, rounded up: what every client understands.
fn set_retry_after(headers: &mut HeaderMap, wait: Option<Duration>) {
    if let Some(wait) = wait {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
    }
}

/// The request's id, and what the config lets clients know of its way.
fn add_facts(headers: &mut HeaderMap, flight: &Flight, routed: bool) {
    let record = &flight.record;
    if let Ok(id) = HeaderValue::try_from(&*record.request_id) {
        headers.insert(X_REQUEST_ID, id);
    }
    // Clients that keep connections find another gateway while this one still takes requests. One that still sends its
    // request would else have to send all of it before the next.
    let ends = flight.is_arriving() || flight.worker.gateway.lifecycle.phase() != Phase::Serving;
    if ends && flight.client.ends_by_header() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if flight.snapshot.config.server.headers != Headers::Full || !routed {
        return;
    }
    let mut text = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    if let Some(route) = &record.route {
        text("x-weighbridge-route", &route.name);
        if let Some(target) = record
            .target
            .and_then(|index| route.targets.get(usize::from(index)))
        {
            text("x-weighbridge-target", &target.name);
        }
    }
    if let Some(upstream) = &record.upstream {
        text("x-weighbridge-endpoint", &upstream.name);
    }
    if let (Some(explanation), Some(route)) = (&record.explanation, &record.route) {
        let mut shown = admin_view::explanation(&flight.snapshot, route, explanation);
        shown.decision.notes.clone_from(&flight.notes);
        text("x-weighbridge-explain", &shown.within(EXPLAIN_MAX));
    }
    headers.insert("x-weighbridge-attempts", HeaderValue::from(record.attempts));
    headers.insert("x-weighbridge-queue-ms", HeaderValue::from(0));
    let overhead = record
        .dispatched
        .map(|dispatched| dispatched.duration_since(record.received));
    if let Some(overhead) = overhead.and_then(|overhead| u64::try_from(overhead.as_micros()).ok()) {
        headers.insert("x-weighbridge-overhead-us", HeaderValue::from(overhead));
    }
}
