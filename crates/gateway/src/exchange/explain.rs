//! What would be decided for a request, without sending it.

use super::intake::{override_model, presented_key};
use super::remarks::{self, Asked};
use super::run::protocols;
use super::session::{self, Sources};
use super::stored::previous_at;
use super::work;
use crate::admin_view::{ExplanationShown, explanation};
use crate::clock::unix_seconds;
use crate::gateway::Gateway;
use crate::snapshot::{RouteEntry, Snapshot};
use http::{HeaderMap, Method};
use std::net::IpAddr;
use std::sync::Arc;
use weighbridge_config::resolved::Auth;
use weighbridge_core::RequestId;
use weighbridge_core::event::Arrival;
use weighbridge_store::{Homes as _, KeyRecord, Keys as _, Owner, hash_key};
use weighbridge_wire::{Api, ErrorBody, PathError, Peek};

/// A request that is only thought of.
pub struct Question<'a> {
    /// Its path, such as `/v1/chat/completions`.
    pub path: &'a str,
    /// Its headers.
    pub headers: &'a HeaderMap,
    /// Its body.
    pub body: &'a [u8],
    /// Where it would come from.
    pub client_ip: IpAddr,
}

impl Gateway {
    /// The decision for `question` as things stand, candidate by candidate. Changes nothing.
    ///
    /// # Errors
    /// What a client that sent it would be told.
    pub fn explain_request(&self, question: &Question<'_>) -> Result<ExplanationShown, Box<ErrorBody>> {
        let snapshot = self.snapshot_full();
        let api = match Api::from_path(&Method::POST, question.path) {
            Ok(api) => api,
            Err(_) if snapshot.passes(question.path) => Api::Passthrough,
            Err(error) => return Err(not_decided(question.path, error)),
        };
        if api == Api::Response {
            return Err(goes_home());
        }
        let peek = Peek::new(question.body, &snapshot.body_paths)
            .map_err(|error| Box::new(ErrorBody::bad_json(&error)))?;
        let presented_key = presented_key(question.headers);
        let key = presented_key.as_deref();
        let key = key.and_then(|key| self.keys.find(&hash_key(key.as_bytes())));
        let model = override_model(question.headers)?.or(peek.model.as_deref());
        let route = route(&snapshot, (api, model), key.as_deref())?;
        let unknown = || Box::new(ErrorBody::unknown_model(&route.name));
        let previous = peek.previous_response.as_deref();
        let only = match previous.filter(|_| api == Api::Responses) {
            None => None,
            Some(_) if key.is_none() && snapshot.config.auth == Auth::Keys => {
                let what = "Whose response previous_response_id names goes by the key: give the request's header \"authorization\" as well.";
                return Err(Box::new(ErrorBody::unsupported(what)));
            }
            Some(id) => {
                let owner = key.as_deref().map(Owner::of);
                let home = self.homes.find(id, owner.as_ref(), unix_seconds());
                Some(previous_at(&snapshot, (route, id), home)?)
            }
        };
        let model = model.unwrap_or(&route.name);
        let asked = work::Sources {
            api,
            headers: question.headers,
            body: question.body,
            peek: &peek,
            model,
        };
        let work = work::of(route, &asked)?;
        let sources = Sources {
            api,
            headers: question.headers,
            peek: &peek,
            client_ip: question.client_ip,
            presented_key: presented_key.as_deref(),
            work: work.as_deref(),
        };
        let remarks = Asked {
            snapshot: &snapshot,
            route,
            model,
            path: api.path(),
            protocols: protocols(api, api.protocol()),
            work: work.as_deref(),
        };
        let notes = remarks::notes(&snapshot, route, question.headers);
        let arrival = Arrival {
            // Asked about, never dispatched.
            request: RequestId(0),
            route: route.id,
            protocols: protocols(api, api.protocol()),
            session: session::key(route, &sources),
            only,
            explain: true,
            work: work.clone(),
        };
        let found = self.explain(&arrival).ok_or_else(unknown)?;
        let mut shown = explanation(&snapshot, route, &found);
        shown.decision.notes = notes;
        shown.decision.never = remarks.never(found.refused);
        Ok(shown)
    }
}

/// The route that a request to `api` with this model would get; a route that its key may not use does not exist for it.
fn route<'s>(
    snapshot: &'s Snapshot,
    (api, model): (Api, Option<&str>),
    key: Option<&KeyRecord>,
) -> Result<&'s Arc<RouteEntry>, Box<ErrorBody>> {
    let allowed = |route: &str| key.is_none_or(|key| key.allows(route));
    match model {
        Some(model) => snapshot
            .route(model)
            .filter(|route| allowed(&route.name))
            .ok_or_else(|| Box::new(ErrorBody::unknown_model(model))),
        None if api == Api::Passthrough => snapshot
            .only_route(allowed)
            .ok_or_else(|| Box::new(ErrorBody::no_model_named())),
        None => Err(Box::new(ErrorBody::no_model())),
    }
}

/// Why there is nothing to decide about a request to `path`.
fn not_decided(path: &str, error: PathError) -> Box<ErrorBody> {
    match Api::from_path(&Method::GET, path) {
        Ok(Api::Models | Api::Model) => {
            let what = "The gateway answers questions about models by itself: no engine is chosen for them.";
            Box::new(ErrorBody::unsupported(what))
        }
        Ok(Api::Response) => goes_home(),
        _ => match error {
            PathError::MethodNotAllowed { allow } => Box::new(ErrorBody::method_not_allowed(allow)),
            PathError::NotFound => Box::new(ErrorBody::no_such_path(path)),
        },
    }
}

fn goes_home() -> Box<ErrorBody> {
    let what = "What asks for a stored response goes to the engine that holds it: none is chosen.";
    Box::new(ErrorBody::unsupported(what))
}
