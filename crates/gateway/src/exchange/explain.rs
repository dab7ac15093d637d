//! What would be decided for a request, without sending it.

use super::intake::{named_model, presented_key};
use super::run::protocols;
use super::session::{self, Sources};
use crate::admin_view::{ExplanationShown, explanation};
use crate::gateway::Gateway;
use http::{HeaderMap, Method};
use std::net::IpAddr;
use weighbridge_core::RequestId;
use weighbridge_core::event::Arrival;
use weighbridge_wire::{Api, ErrorBody, Peek};

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
            Err(_) => return Err(Box::new(ErrorBody::no_such_path(question.path))),
        };
        let peek = Peek::new(question.body, &snapshot.body_paths)
            .map_err(|error| Box::new(ErrorBody::bad_json(&error)))?;
        let model = named_model(question.headers, &peek).ok_or_else(|| Box::new(ErrorBody::no_model()))?;
        let unknown = || Box::new(ErrorBody::unknown_model(model));
        let route = snapshot.route(model).ok_or_else(unknown)?;
        let presented_key = presented_key(question.headers);
        let sources = Sources {
            api,
            headers: question.headers,
            peek: &peek,
            client_ip: question.client_ip,
            presented_key: presented_key.as_deref(),
        };
        let arrival = Arrival {
            // Asked about, never dispatched.
            request: RequestId(0),
            route: route.id,
            protocols: protocols(api, api.protocol()),
            session: session::key(route, &sources),
            only: None,
            explain: true,
        };
        let found = self.explain(&arrival).ok_or_else(unknown)?;
        Ok(explanation(&snapshot, route, &found))
    }
}
