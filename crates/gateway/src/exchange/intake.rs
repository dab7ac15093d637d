//! Taking a request in: path, key, body, model, route. What is wrong with it is said here.

use super::body::{self, Fault};
use super::client_ip::client_ip;
use super::flight::Flight;
use super::headers::{API_KEY, X_API_KEY};
use super::remarks;
use super::stored;
use super::upload::{Bounds, Upload, UploadFault};
use super::work;
use super::{HEAD_MAX, HEADERS_MAX};
use crate::clock::unix_seconds;
use crate::lifecycle::Phase;
use crate::memory::{Metered, Room};
use crate::snapshot::RouteEntry;
use crate::telemetry::outcome::Outcome;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE};
use http::request::Parts;
use http::{HeaderMap, Method, Request};
use hyper::body::Incoming;
use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use weighbridge_config::resolved::Auth;
use weighbridge_core::event::Only;
use weighbridge_core::work::Work;
use weighbridge_store::{KeyRecord, Keys, hash_key};
use weighbridge_wire::form::{FormError, FormScanner, boundary};
use weighbridge_wire::{Api, ErrorBody, KeyFault, PathError, Peek, Protocol, model_id_from_path};

/// A request that may be routed.
pub(crate) struct Intake {
    pub(crate) api: Api,
    pub(crate) protocol: Protocol,
    pub(crate) method: Method,
    /// The path that goes upstream, where it is not that of the API.
    pub(crate) own_path: Option<Box<str>>,
    pub(crate) headers: HeaderMap,
    /// The client's query, without `?`.
    pub(crate) query: Option<String>,
    pub(crate) body: Bytes,
    /// Whether nothing of the body may change.
    pub(crate) as_is: bool,
    /// What it takes of the memory for bodies.
    pub(crate) _room: Option<Room>,
    pub(crate) peek: Peek,
    pub(crate) route: Arc<RouteEntry>,
    /// The model as it goes upstream where the pool names none: the body's, or that of the override header.
    pub(crate) model: String,
    pub(crate) client_ip: IpAddr,
    /// What the client sent as its key.
    pub(crate) presented_key: Option<String>,
    /// Whether the client asked for the decision's explanation.
    pub(crate) explain: bool,
    /// The endpoint that holds what the request is about.
    pub(crate) only: Option<Only>,
    /// What it asks of an engine, where its route looks at that.
    pub(crate) work: Option<Arc<Work>>,
}

impl Intake {
    /// The path that goes upstream.
    pub(crate) fn path(&self) -> &str {
        self.own_path.as_deref().unwrap_or(self.api.path())
    }
}

/// A question about models, answered by the gateway itself.
pub(crate) struct ModelsQuestion {
    pub(crate) protocol: Protocol,
    /// One model, or all.
    pub(crate) id: Option<String>,
}

/// What a request turned out to be.
pub(crate) enum Taken {
    /// Something for a model.
    Inference(Box<Intake>),
    /// A question about the models.
    Models(ModelsQuestion),
}

/// A request that was refused, with its flight to be finished.
pub(crate) struct Refused {
    pub(crate) flight: Flight,
    pub(crate) protocol: Protocol,
    pub(crate) error: ErrorBody,
    pub(crate) outcome: Outcome,
    /// The value of `allow`, where the method is wrong.
    pub(crate) allow: Option<&'static str>,
    /// Whether the connection must end with the answer.
    pub(crate) close: bool,
}

/// Reads and checks a request.
pub(crate) async fn take(
    mut flight: Flight,
    request: Request<Incoming>,
) -> Result<(Flight, Taken), Box<Refused>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let api = match Api::from_path(&parts.method, path) {
        Ok(api) => api,
        Err(PathError::NotFound) if flight.snapshot.passes(path) => {
            if !matches!(parts.method, Method::GET | Method::POST) {
                let error = PathError::MethodNotAllowed { allow: "GET, POST" };
                return Err(wrong_path(flight, path, error));
            }
            Api::Passthrough
        }
        Err(error) => return Err(wrong_path(flight, path, error)),
    };
    let protocol = api.client_protocol(&parts.headers);
    flight.record.api = Some(api);
    if head_is_too_large(&parts) {
        let error = ErrorBody::headers_too_large();
        return Err(refuse(flight, protocol, error, Outcome::ClientError));
    }
    if flight.worker.gateway.lifecycle.phase() >= Phase::Draining {
        let mut refused = refuse(flight, protocol, ErrorBody::draining(), Outcome::Unavailable);
        refused.close = true;
        return Err(refused);
    }
    let presented_key = presented_key(&parts.headers).map(Cow::into_owned);
    match authenticate(&flight, presented_key.as_deref()) {
        Ok(key) => flight.record.key = key,
        Err(fault) => {
            return Err(refuse(
                flight,
                protocol,
                ErrorBody::unauthorized(fault),
                Outcome::ClientError,
            ));
        }
    }
    if matches!(api, Api::Models | Api::Model) {
        let id = model_id_from_path(path).map(Cow::into_owned);
        return Ok((flight, Taken::Models(ModelsQuestion { protocol, id })));
    }
    // Known from the head alone: a client that waits to send its body need not send it in vain.
    let chosen = match chosen(&flight, api, &parts.headers) {
        Ok(chosen) => chosen,
        Err(error) => return Err(refuse(flight, protocol, *error, Outcome::ClientError)),
    };
    let body = match read_body(&mut flight, api, &parts.headers, body).await {
        Ok(body) => body,
        Err((error, outcome)) => {
            let mut refused = refuse(flight, protocol, error, outcome);
            refused.close = true;
            return Err(refused);
        }
    };
    flight.record.received = Instant::now();
    if !flight.is_arriving() {
        flight.client.exchange.received();
    }
    look(flight, (api, protocol), parts, (body, presented_key, chosen))
}

/// Takes in a request of the gateway itself, which needs no key, for one endpoint.
pub(crate) fn own(
    mut flight: Flight,
    (api, only): (Api, Only),
    request: Request<Bytes>,
) -> Result<(Flight, Intake), Box<Refused>> {
    let (parts, body) = request.into_parts();
    let protocol = api.client_protocol(&parts.headers);
    flight.record.api = Some(api);
    match look(
        flight,
        (api, protocol),
        parts,
        (Arrived::Whole(body, None), None, None),
    )? {
        (flight, Taken::Inference(mut intake)) => {
            intake.only = Some(only);
            Ok((flight, *intake))
        }
        (flight, Taken::Models(_)) => {
            let error = ErrorBody::internal();
            Err(refuse(flight, protocol, error, Outcome::ClientError))
        }
    }
}

/// A body, or as much of it as it takes to know where it goes.
enum Arrived {
    /// All of it, and what it takes of the memory for bodies.
    Whole(Bytes, Option<Room>),
    /// A form that may still arrive, and the model it names; the flight holds it.
    Form(Option<String>),
}

fn head_is_too_large(parts: &Parts) -> bool {
    let line = parts.uri.path_and_query().map_or(0, |path| path.as_str().len());
    let headers: usize = parts
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
        .sum();
    line + headers > HEAD_MAX || has_too_many_headers(&parts.headers)
}

/// HTTP/2 lets a client cut its one `cookie` into as many as it holds (RFC 9113, section 8.2.3).
fn has_too_many_headers(headers: &HeaderMap) -> bool {
    let all = headers.len();
    all > HEADERS_MAX && all - headers.get_all(COOKIE).iter().count().saturating_sub(1) > HEADERS_MAX
}

/// Looks into a request that has arrived whole.
fn look(
    mut flight: Flight,
    (api, protocol): (Api, Protocol),
    parts: Parts,
    (mut body, presented_key, chosen): (Arrived, Option<String>, Option<Named>),
) -> Result<(Flight, Taken), Box<Refused>> {
    let room = match &mut body {
        Arrived::Whole(_, room) => room.take(),
        Arrived::Form(_) => None,
    };
    let (body, peek) = match peek(&flight, api, &parts, body) {
        Ok(found) => found,
        Err(error) => return Err(refuse(flight, protocol, *error, Outcome::ClientError)),
    };
    let (route, model, only) = match find_way(&flight, (api, parts.uri.path()), chosen, &peek) {
        Ok(found) => found,
        Err((error, outcome)) => return Err(refuse(flight, protocol, *error, outcome)),
    };
    let sources = work::Sources {
        api,
        headers: &parts.headers,
        body: &body,
        peek: &peek,
        model: &model,
    };
    let work = match work::of(&route, &sources) {
        Ok(work) => work,
        Err(error) => return Err(refuse(flight, protocol, *error, Outcome::ClientError)),
    };
    flight.record.route = Some(route.clone());
    flight.record.stream = peek.stream;
    flight.record.model = Some(model.clone());
    let explain = (parts.headers.get("x-weighbridge-explain")).is_some_and(|value| value == "1");
    if explain {
        flight.notes = remarks::notes(&flight.snapshot, &route, &parts.headers);
    }
    let intake = Intake {
        api,
        protocol,
        own_path: own_path(api, parts.uri.path()),
        query: parts.uri.query().map(str::to_owned),
        as_is: api == Api::Response || (api == Api::Passthrough && peek.model.is_none()),
        body,
        _room: room,
        peek,
        route,
        model,
        client_ip: client_ip(&flight, &parts.headers),
        presented_key,
        explain,
        only,
        work,
        method: parts.method,
        headers: parts.headers,
    };
    Ok((flight, Taken::Inference(Box::new(intake))))
}

fn refuse(flight: Flight, protocol: Protocol, error: ErrorBody, outcome: Outcome) -> Box<Refused> {
    Box::new(Refused {
        flight,
        protocol,
        error,
        outcome,
        allow: None,
        close: false,
    })
}

fn wrong_path(flight: Flight, path: &str, error: PathError) -> Box<Refused> {
    let protocol = if path.starts_with("/v1/messages") {
        Protocol::Anthropic
    } else {
        Protocol::OpenAi
    };
    match error {
        PathError::NotFound => refuse(
            flight,
            protocol,
            ErrorBody::no_such_path(path),
            Outcome::ClientError,
        ),
        PathError::MethodNotAllowed { allow } => {
            let mut refused = refuse(
                flight,
                protocol,
                ErrorBody::method_not_allowed(allow),
                Outcome::ClientError,
            );
            refused.allow = Some(allow);
            refused
        }
    }
}

/// What the client sent as its key, in whichever header its protocol uses.
pub(crate) fn presented_key(headers: &HeaderMap) -> Option<Cow<'_, str>> {
    let bearer = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| {
            let (scheme, key) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
        });
    let header = |name| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::trim)
    };
    bearer
        .or_else(|| header(X_API_KEY))
        .or_else(|| header(API_KEY))
        .filter(|key| !key.is_empty())
        .map(Cow::Borrowed)
}

fn authenticate(flight: &Flight, presented: Option<&str>) -> Result<Option<Arc<KeyRecord>>, KeyFault> {
    let required = flight.snapshot.config.auth == Auth::Keys;
    let found = presented.and_then(|key| flight.worker.gateway.keys.find(&hash_key(key.as_bytes())));
    match (found, required) {
        (Some(key), true) if key.expired(unix_seconds()) => Err(KeyFault::Expired),
        (Some(key), _) => Ok(Some(key)),
        (None, false) => Ok(None),
        (None, true) if presented.is_some() => Err(KeyFault::Unknown),
        (None, true) => Err(KeyFault::Missing),
    }
}

/// What is known of the body: of one in JSON what stands in it.
fn peek(flight: &Flight, api: Api, parts: &Parts, body: Arrived) -> Result<(Bytes, Peek), Box<ErrorBody>> {
    let body = match body {
        Arrived::Form(model) => {
            let stream = flight.upload.as_ref().is_some_and(Upload::stream);
            return Ok((Bytes::new(), Peek::outside(model, stream)));
        }
        Arrived::Whole(body, _) => body,
    };
    if api == Api::Response {
        let streams = |query: &str| query.split('&').any(|pair| pair == "stream=true");
        let stream = parts.uri.query().is_some_and(streams);
        return Ok((body, Peek::outside(None, stream)));
    }
    match Peek::new(&body, &flight.snapshot.body_paths) {
        Ok(peek) => Ok((body, peek)),
        Err(error) if api == Api::Passthrough && stored::is_no_fault(&error, &parts.headers) => {
            Ok((body, Peek::outside(None, false)))
        }
        Err(error) => Err(Box::new(ErrorBody::bad_json(&error))),
    }
}

/// The path that goes upstream, where it is not that of the API: the one that the client chose.
fn own_path(api: Api, path: &str) -> Option<Box<str>> {
    let path = match api {
        Api::Passthrough => path,
        Api::Rerank | Api::Score | Api::Response => path.strip_suffix('/').unwrap_or(path),
        _ => return None,
    };
    (path != api.path()).then(|| path.into())
}

/// The whole body, or as much as is needed of a form, or what is wrong with it.
async fn read_body(
    flight: &mut Flight,
    api: Api,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Arrived, (ErrorBody, Outcome)> {
    let server = &flight.snapshot.config.server;
    let most = server.max_body;
    if let Some(encoding) = headers.get(CONTENT_ENCODING)
        && encoding != "identity"
    {
        let what =
            "compressed request bodies are not supported: send the body as it is, without content-encoding";
        return Err((ErrorBody::unsupported_media(what), Outcome::ClientError));
    }
    let said = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let worker = flight.worker.clone();
    let over = || worker.gateway.lifecycle.phase() == Phase::Cutting;
    let memory = &worker.gateway.body_memory;
    let mut body = Metered::new(body, said, (memory, memory.limit(server.body_memory, most)));
    if api.takes_form()
        && let Some(kind) = headers.get(CONTENT_TYPE)
        && let Some(boundary) = boundary(kind.as_bytes()).map_err(form_error)?
    {
        return read_form(flight, body, (said, most), &boundary).await;
    }
    let collected = body::collect(&mut body, (said, most), over).await;
    if body.refused() {
        return Err((ErrorBody::no_room(), Outcome::Unavailable));
    }
    collected
        .map(|bytes| Arrived::Whole(bytes, Some(body.into_room())))
        .map_err(|fault| body_error(flight, fault))
}

/// A form, up to the point where its model is known.
async fn read_form(
    flight: &mut Flight,
    body: Metered,
    bounds: Bounds,
    boundary: &str,
) -> Result<Arrived, (ErrorBody, Outcome)> {
    let upload = Upload::new(body, bounds, FormScanner::new(boundary));
    let worker = flight.worker.clone();
    let over = || worker.gateway.lifecycle.phase() == Phase::Cutting;
    match upload.model(over).await {
        Ok(model) => {
            flight.upload = Some(upload);
            Ok(Arrived::Form(model.map(|model| model.name)))
        }
        Err(fault) => Err(upload_error(flight, fault)),
    }
}

/// What the client is told of a form that did not arrive as it should.
pub(crate) fn upload_error(flight: &Flight, fault: UploadFault) -> (ErrorBody, Outcome) {
    match fault {
        UploadFault::Body(fault) => body_error(flight, fault),
        UploadFault::Form(error) => form_error(error),
        UploadFault::NoRoom => (ErrorBody::no_room(), Outcome::Unavailable),
        UploadFault::Unwanted => body_error(flight, Fault::BrokeOff),
    }
}

fn form_error(error: FormError) -> (ErrorBody, Outcome) {
    (ErrorBody::bad_form(&error), Outcome::ClientError)
}

/// What the client is told of a body that did not arrive as it should.
fn body_error(flight: &Flight, fault: Fault) -> (ErrorBody, Outcome) {
    let most = flight.snapshot.config.server.max_body;
    match fault {
        Fault::TooLarge => (ErrorBody::too_large(most as u64), Outcome::ClientError),
        Fault::Malformed => (
            ErrorBody::new(400, "the request's body is not framed as HTTP asks for"),
            Outcome::ClientError,
        ),
        Fault::Slow => (
            ErrorBody::new(408, "the request's body came too slowly, or stopped coming"),
            Outcome::ClientError,
        ),
        Fault::BrokeOff => (
            ErrorBody::new(400, "the request's body broke off"),
            Outcome::ClientClosed,
        ),
        Fault::Over => {
            flight.worker.gateway.lifecycle.was_cut();
            (ErrorBody::drain_over(), Outcome::Unavailable)
        }
    }
}

/// The model that an override header names, if any does.
pub(crate) fn override_model(headers: &HeaderMap) -> Result<Option<&str>, Box<ErrorBody>> {
    let mut named = None;
    for header in ["x-model", "x-model-name"] {
        for value in headers.get_all(header) {
            let text = std::str::from_utf8(value.as_bytes());
            let model = text.map_err(|_| Box::new(ErrorBody::bad_model_header()))?.trim();
            if !model.is_empty() && named.replace(model).is_some() {
                return Err(Box::new(ErrorBody::two_model_headers()));
            }
        }
    }
    Ok(named)
}

/// A route, and the name by which the request calls it.
pub(super) type Named = (Arc<RouteEntry>, String);

/// The route that the head of the request names; none: what is in its body, or its path, says where it goes.
fn chosen(flight: &Flight, api: Api, headers: &HeaderMap) -> Result<Option<Named>, Box<ErrorBody>> {
    if api == Api::Response {
        return Ok(None);
    }
    let model = override_model(headers)?;
    model.map(|model| find_route(flight, model)).transpose()
}

/// Where a request goes: its route, the model's name, and the endpoint where one alone can serve it.
pub(super) type Way = (Arc<RouteEntry>, String, Option<Only>);

fn find_way(
    flight: &Flight,
    (api, path): (Api, &str),
    chosen: Option<Named>,
    peek: &Peek,
) -> Result<Way, (Box<ErrorBody>, Outcome)> {
    let refused = |error| (error, Outcome::ClientError);
    if api == Api::Response {
        return stored::home_of(flight, path).map_err(refused);
    }
    let (route, model) = match (chosen, peek.model.as_deref()) {
        (Some(chosen), _) => chosen,
        (None, Some(model)) => find_route(flight, model).map_err(refused)?,
        (None, None) if api == Api::Passthrough => stored::only_one(flight).map_err(refused)?,
        (None, None) => return Err(refused(Box::new(ErrorBody::no_model()))),
    };
    let previous = peek
        .previous_response
        .as_deref()
        .filter(|_| api == Api::Responses);
    let only = match previous {
        None => None,
        Some(id) => Some(stored::previous(flight, &route, id).map_err(refused)?),
    };
    Ok((route, model, only))
}

/// The route of this name, if the request's key may use it.
fn find_route(flight: &Flight, model: &str) -> Result<Named, Box<ErrorBody>> {
    let route = flight.snapshot.route(model).filter(|route| {
        // A route that a key may not use does not exist for it.
        flight
            .record
            .key
            .as_ref()
            .is_none_or(|key| key.allows(&route.name))
    });
    match route {
        Some(route) => Ok((route.clone(), model.to_owned())),
        None => Err(Box::new(ErrorBody::unknown_model(model))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_found_in_any_header() {
        for (name, value) in [
            ("authorization", "bearer k"),
            ("x-api-key", " k "),
            ("api-key", "k"),
        ] {
            let headers: HeaderMap = [(
                http::HeaderName::from_static(name),
                http::HeaderValue::from_static(value),
            )]
            .into_iter()
            .collect();
            assert_eq!(presented_key(&headers).as_deref(), Some("k"), "{name}");
        }
        assert_eq!(presented_key(&HeaderMap::new()), None);
    }
}
