//! Responses that engines store: remembered where they are, and sent home when they are asked for. And what else is routed
//! by other things than a model in the body.

use super::flight::Flight;
use super::intake::{Named, Way};
use super::run::Run;
use crate::clock::unix_seconds;
use crate::snapshot::{RouteEntry, Snapshot};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use weighbridge_core::event::Only;
use weighbridge_store::{Home, Homes};
use weighbridge_wire::peek::PeekErrorKind;
use weighbridge_wire::{Api, ErrorBody, PeekError, StreamObserver, body_id, response_id_from_path};

/// Takes note of an answer that has come, or of how it begins.
pub(super) fn answered(run: &Run, body: &[u8]) {
    match run.intake.api {
        Api::Responses => {
            if let Some(id) = body_id(body) {
                run.flight.remember(&id);
            }
        }
        Api::Response if run.intake.method == Method::DELETE => {
            let homes = &run.flight.worker.gateway.homes;
            if let Some(id) = response_id_from_path(run.intake.path()) {
                homes.forget(id, run.flight.owner().as_ref());
            }
        }
        _ => {}
    }
}

/// Takes note of the response that a stream is about, once it has said so.
pub(super) fn begun(flight: &Flight, api: Api, observer: &mut StreamObserver) {
    if let Some(id) = observer.take_response_id().filter(|_| api == Api::Responses) {
        flight.remember(&id);
    }
}

/// Where a request about a stored response goes.
pub(super) fn home_of(flight: &Flight, path: &str) -> Result<Way, Box<ErrorBody>> {
    let id = response_id_from_path(path).unwrap_or_default();
    let unknown = || Box::new(ErrorBody::no_such_response(id));
    let homes = &flight.worker.gateway.homes;
    let home = homes.find(id, flight.owner().as_ref(), unix_seconds());
    let home = home.ok_or_else(unknown)?;
    let only = place(&flight.snapshot, &home).ok_or_else(unknown)?;
    let key = flight.record.key.as_ref();
    let route = flight.snapshot.route(&home.route);
    let route = route
        .filter(|route| key.is_none_or(|key| key.allows(&route.name)))
        .ok_or_else(unknown)?;
    Ok((route.clone(), route.name.to_string(), Some(only)))
}

/// Where a request goes that goes on from the response `id`: to the engine that holds it, which the route must have.
pub(super) fn previous(flight: &Flight, route: &RouteEntry, id: &str) -> Result<Only, Box<ErrorBody>> {
    let homes = &flight.worker.gateway.homes;
    let home = homes.find(id, flight.owner().as_ref(), unix_seconds());
    previous_at(&flight.snapshot, (route, id), home)
}

/// As [`previous`], where `home` is what is known of the response.
pub(super) fn previous_at(
    snapshot: &Snapshot,
    (route, id): (&RouteEntry, &str),
    home: Option<Home>,
) -> Result<Only, Box<ErrorBody>> {
    let unknown = || Box::new(ErrorBody::no_previous_response(id));
    let home = home.ok_or_else(unknown)?;
    let only = place(snapshot, &home).ok_or_else(unknown)?;
    if route.targets.iter().any(|target| *target.pool == *home.pool) {
        return Ok(only);
    }
    let what = format!(
        "The response that previous_response_id names was made by an engine that does not serve {:?}: ask for the model that made it.",
        route.name
    );
    Err(Box::new(ErrorBody::unsupported(what)))
}

/// The endpoint of a home, and where its pool has several keys the one that the response belongs to.
fn place(snapshot: &Snapshot, home: &Home) -> Option<Only> {
    let upstream = snapshot.upstream_named(&home.pool, &home.endpoint)?;
    let keys = upstream.pool.credentials.len();
    Some(Only {
        endpoint: upstream.id,
        key: (keys > 1 && usize::from(home.upstream_key) < keys).then_some(home.upstream_key),
    })
}

/// The route of a request to a path that the config names, where it names no model: the only one there is.
pub(super) fn only_one(flight: &Flight) -> Result<Named, Box<ErrorBody>> {
    let key = flight.record.key.as_ref();
    let only = flight
        .snapshot
        .only_route(|route| key.is_none_or(|key| key.allows(route)));
    let route = only.ok_or_else(|| Box::new(ErrorBody::no_model_named()))?;
    Ok((route.clone(), route.name.to_string()))
}

/// Whether a body that is no JSON object, or none that can be read, may go to a path that the config names.
pub(super) fn is_no_fault(error: &PeekError, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let says_json = kind.is_some_and(|kind| kind.windows(4).any(|word| word.eq_ignore_ascii_case(b"json")));
    match error.kind {
        PeekErrorKind::Empty | PeekErrorKind::NotAnObject => true,
        PeekErrorKind::DuplicateModel | PeekErrorKind::ModelNotAString => false,
        _ => !says_json,
    }
}
