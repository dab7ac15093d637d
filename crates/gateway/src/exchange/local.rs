//! What the gateway answers by itself: liveness, readiness, the list of models.

use super::cors::Page;
use super::flight::Flight;
use super::headers::{X_REQUEST_ID, request_id};
use super::intake::ModelsQuestion;
use super::relay::AnswerBody;
use super::respond;
use crate::gateway::Gateway;
use crate::lifecycle::Phase;
use crate::telemetry::outcome::Outcome;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use weighbridge_wire::ErrorBody;
use weighbridge_wire::models::{self, ModelEntry};

/// `/health` and `/ready`; none for any other path. They need no key and are not logged.
pub(crate) fn liveness(gateway: &Gateway, request: &Request<Incoming>) -> Option<Response<AnswerBody>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let (status, text) = match request.uri().path() {
        "/health" => (StatusCode::OK, "{\"status\":\"alive\"}"),
        "/ready" if gateway.lifecycle.phase() == Phase::Serving => (StatusCode::OK, "{\"status\":\"ready\"}"),
        "/ready" => (StatusCode::SERVICE_UNAVAILABLE, "{\"status\":\"draining\"}"),
        _ => return None,
    };
    let mut response = Response::new(AnswerBody::Whole(Some(Bytes::from_static(text.as_bytes()))));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if let Some(page) = Page::of(gateway.snapshot().config.cors.as_ref(), request.headers()) {
        page.mark(headers);
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Ok(id) = HeaderValue::try_from(&*request_id(request.headers())) {
        headers.insert(X_REQUEST_ID, id);
    }
    Some(response)
}

/// The models that the request's key may use.
pub(crate) fn models(flight: Flight, question: &ModelsQuestion) -> Response<AnswerBody> {
    let key = flight.record.key.clone();
    let started = flight.worker.gateway.started_unix();
    let visible = |name: &str| key.as_ref().is_none_or(|key| key.allows(name));
    let entry = |name: &str| ModelEntry {
        id: name.to_owned(),
        display_name: None,
        created: started,
        owned_by: "weighbridge".to_owned(),
    };
    let body = match &question.id {
        None => {
            let names = flight.snapshot.config.routes.iter().map(|route| &*route.name);
            let entries: Vec<_> = names.filter(|name| visible(name)).map(entry).collect();
            models::list(question.protocol, &entries)
        }
        Some(id) if flight.snapshot.route(id).is_some() && visible(id) => {
            models::single(question.protocol, &entry(id))
        }
        Some(id) => {
            return respond::error(
                flight,
                question.protocol,
                ErrorBody::unknown_model(id),
                Outcome::ClientError,
            );
        }
    };
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    respond::finished(flight, (200, Outcome::Ok), headers, body)
}
