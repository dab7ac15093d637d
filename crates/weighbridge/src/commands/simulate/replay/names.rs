//! What the ids of a log stand for.

use std::collections::BTreeMap;
use std::sync::Arc;
use weighbridge_core::spec::FleetSpec;
use weighbridge_core::{Action, EndpointId, Event, RequestId, RouteId};
use weighbridge_gateway::admin_view::Names;

/// Names of routes and endpoints, as the log's fleets brought them, and where each open request is.
#[derive(Default)]
pub(super) struct Known {
    /// Targets of each route by their places.
    routes: BTreeMap<RouteId, (Arc<str>, Vec<Arc<str>>)>,
    /// Endpoints that were removed keep their names: requests may still run there.
    endpoints: BTreeMap<(u32, u32), (Arc<str>, Arc<str>)>,
    requests: BTreeMap<RequestId, RouteId>,
}

impl Known {
    /// Takes note of what a step says.
    pub(super) fn note(&mut self, event: &Event, actions: &[Action]) {
        match event {
            Event::Configure(spec) => self.configured(spec, actions),
            Event::Arrive(arrival) => {
                self.requests.insert(arrival.request, arrival.route);
            }
            _ => {}
        }
    }

    fn configured(&mut self, spec: &FleetSpec, actions: &[Action]) {
        for action in actions {
            let Action::Configured(bindings) = action else {
                continue;
            };
            for (id, route) in bindings.routes.iter().zip(&spec.routes) {
                let targets = route.targets.iter().map(|target| target.name.clone()).collect();
                self.routes.insert(*id, (route.name.clone(), targets));
            }
            for (ids, pool) in bindings.endpoints.iter().zip(&spec.pools) {
                for (id, endpoint) in ids.iter().zip(&pool.endpoints) {
                    let names = (pool.name.clone(), endpoint.name.clone());
                    self.endpoints.insert((id.slot, id.generation), names);
                }
            }
        }
    }

    /// Pool and name.
    pub(super) fn endpoint(&self, id: EndpointId) -> String {
        match self.endpoints.get(&(id.slot, id.generation)) {
            Some((pool, name)) => format!("{pool}/{name}"),
            None => "(an endpoint that is not in the log)".to_owned(),
        }
    }

    pub(super) fn route(&self, id: RouteId) -> String {
        self.routes.get(&id).map_or_else(
            || "(a route that is not in the log)".to_owned(),
            |(name, _)| name.to_string(),
        )
    }

    /// The names that matter to a request.
    pub(super) fn of_request(&self, request: RequestId) -> OfRequest<'_> {
        OfRequest {
            known: self,
            route: self.requests.get(&request).copied(),
        }
    }
}

/// Names as decisions about one request use them.
pub(super) struct OfRequest<'a> {
    known: &'a Known,
    route: Option<RouteId>,
}

impl Names for OfRequest<'_> {
    fn route(&self) -> String {
        self.route
            .map(|route| self.known.route(route))
            .unwrap_or_default()
    }

    fn target(&self, index: u16) -> String {
        let route = self.route.and_then(|route| self.known.routes.get(&route));
        let target = route.and_then(|(_, targets)| targets.get(usize::from(index)));
        target.map(ToString::to_string).unwrap_or_default()
    }

    fn endpoint(&self, id: EndpointId) -> String {
        match self.known.endpoints.get(&(id.slot, id.generation)) {
            Some((_, name)) => name.to_string(),
            None => "(unknown)".to_owned(),
        }
    }
}
