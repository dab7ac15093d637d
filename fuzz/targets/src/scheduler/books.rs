//! What a driver knows of its requests, and what must hold between that and what the scheduler does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weighbridge_core::action::{Bindings, Dispatch};
use weighbridge_core::ids::{EndpointId, RequestId, RouteId};
use weighbridge_core::spec::{FleetSpec, Protocols};
use weighbridge_core::view::{EndpointView, FleetView, StateKind};
use weighbridge_core::work::Work;
use weighbridge_core::{Action, Event};

#[derive(Default)]
pub(super) struct Books {
    ids: Bindings,
    spec: Arc<FleetSpec>,
    requests: BTreeMap<RequestId, Request>,
    falling: Vec<(RequestId, RouteId)>,
    probing: BTreeSet<EndpointId>,
}

struct Request {
    protocols: Protocols,
    work: Option<Arc<Work>>,
    /// The fleet when it came to its route, whose rules hold for it to its end.
    spec: Arc<FleetSpec>,
    /// Endpoint and key of each attempt so far.
    tried: Vec<(EndpointId, u16)>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing runs; the scheduler has been asked, or will be.
    Waiting,
    Running {
        attempt: u32,
        endpoint: EndpointId,
    },
    Ended,
}

impl Books {
    pub(super) fn arrived(&mut self, request: RequestId, protocols: Protocols, work: Option<Arc<Work>>) {
        let new = Request {
            protocols,
            work,
            spec: self.spec.clone(),
            tried: Vec::new(),
            state: State::Waiting,
        };
        self.requests.insert(request, new);
    }

    /// What the request asks of an engine, each time it arrives at a route.
    pub(super) fn work(&self, request: RequestId) -> Option<Arc<Work>> {
        self.requests[&request].work.clone()
    }

    pub(super) fn protocols(&self, request: RequestId) -> Protocols {
        self.requests[&request].protocols
    }

    /// The client has left.
    pub(super) fn withdrawn(&mut self, request: RequestId) {
        self.set(request, State::Ended);
    }

    /// A request that has to follow its fallback.
    pub(super) fn fallback(&mut self) -> Option<(RequestId, RouteId)> {
        self.falling.pop()
    }

    /// A running attempt, by chance.
    pub(super) fn running(&self, which: u8) -> Option<(RequestId, u32)> {
        let running: Vec<_> = (self.requests.iter())
            .filter_map(|(id, request)| match request.state {
                State::Running { attempt, .. } => Some((*id, attempt)),
                _ => None,
            })
            .collect();
        running.get(usize::from(which) % running.len().max(1)).copied()
    }

    pub(super) fn probe_answered(&mut self) -> Option<EndpointId> {
        self.probing.pop_first()
    }

    pub(super) fn route(&self, which: u8) -> Option<RouteId> {
        let routes = &self.ids.routes;
        routes
            .get(usize::from(which & 0x3f) % routes.len().max(1))
            .copied()
    }

    pub(super) fn endpoint(&self, which: u8) -> Option<EndpointId> {
        let all: Vec<_> = self.ids.endpoints.iter().flatten().collect();
        all.get(usize::from(which) % all.len().max(1)).copied().copied()
    }

    pub(super) fn knows(&self, endpoint: EndpointId) -> bool {
        let ours = |request: &Request| matches!(request.state, State::Running { endpoint: on, .. } if on == endpoint);
        self.ids.endpoints.iter().flatten().any(|id| *id == endpoint) || self.requests.values().any(ours)
    }

    fn set(&mut self, request: RequestId, state: State) {
        if let Some(request) = self.requests.get_mut(&request) {
            request.state = state;
        }
    }

    /// Everything has had its end.
    pub(super) fn closed(&self) {
        for (id, request) in &self.requests {
            assert_eq!(request.state, State::Ended, "{id:?}");
        }
        assert!(self.falling.is_empty());
    }

    /// Takes note of a step.
    pub(super) fn take(
        &mut self,
        event: &Event,
        actions: &[Action],
        (before, after): (&FleetView, &FleetView),
    ) {
        if let Event::Configure(spec) = event {
            self.spec = spec.clone();
        }
        if let Event::Arrive(arrival) = event
            && let Some(request) = self.requests.get_mut(&arrival.request)
        {
            request.spec = self.spec.clone();
        }
        let asked = self.asked(event);
        let mut answers = 0;
        for action in actions {
            match action {
                Action::Configured(ids) => self.configured(ids),
                Action::Dispatch(dispatch) => {
                    answers += 1;
                    assert_eq!(asked, Some(dispatch.request));
                    self.dispatched(dispatch, (event, before, after));
                }
                Action::Abort { request, attempt } => {
                    let moved = Event::MoveOn {
                        request: *request,
                        attempt: *attempt,
                    };
                    assert_eq!(*event, moved);
                    self.set(*request, State::Waiting);
                }
                Action::Fallback { request, route } => {
                    answers += 1;
                    assert_eq!(asked, Some(*request));
                    assert!(self.ids.routes.contains(route));
                    self.falling.push((*request, *route));
                }
                Action::Finish { request, .. } => {
                    answers += 1;
                    assert_eq!(asked, Some(*request));
                    if let Some(known) = self.requests.get(request) {
                        assert_eq!(known.state, State::Waiting, "ended twice, or while running");
                    }
                    self.set(*request, State::Ended);
                }
                Action::Probe(id) => assert!(self.probing.insert(*id), "two probes at once"),
                Action::Changed { endpoint, .. } => {
                    let mut views = before.endpoints.iter().chain(&after.endpoints);
                    assert!(views.any(|view| view.id == *endpoint));
                }
            }
        }
        let must_answer = asked.is_some() && !matches!(event, Event::MoveOn { .. });
        assert!(answers == usize::from(must_answer) || (answers == 1 && asked.is_some()));
        self.check_counts(after);
    }

    fn configured(&mut self, ids: &Bindings) {
        self.ids = ids.clone();
        assert_eq!(ids.routes.len(), self.spec.routes.len());
        let sizes = ids.endpoints.iter().map(Vec::len);
        assert!(sizes.eq(self.spec.pools.iter().map(|pool| pool.endpoints.len())));
        // Probes of endpoints that are gone, or are not probed any more, are not waited for.
        let pools = ids.endpoints.iter().zip(&self.spec.pools);
        let known: BTreeSet<_> = pools
            .filter(|(_, pool)| pool.probe.is_some())
            .flat_map(|(endpoints, _)| endpoints.iter().copied())
            .collect();
        self.probing.retain(|id| known.contains(id));
    }

    /// The request that the scheduler has to say something about.
    fn asked(&mut self, event: &Event) -> Option<RequestId> {
        match event {
            Event::Arrive(arrival) => Some(arrival.request),
            Event::Ended(ended) => {
                let request = self.requests.get_mut(&ended.request)?;
                let State::Running { attempt, .. } = request.state else {
                    return None;
                };
                if attempt != ended.attempt {
                    return None;
                }
                request.state = State::Waiting;
                Some(ended.request)
            }
            Event::MoveOn { request, attempt } => {
                let state = self.requests.get(request)?.state;
                matches!(state, State::Running { attempt: running, .. } if running == *attempt)
                    .then_some(*request)
            }
            _ => None,
        }
    }

    fn dispatched(&mut self, dispatch: &Dispatch, (event, before, after): (&Event, &FleetView, &FleetView)) {
        let view = |views: &FleetView| -> EndpointView {
            let mut endpoints = views.endpoints.iter();
            let found = endpoints.find(|view| view.id == dispatch.endpoint);
            found.expect("sent to an endpoint that is there").clone()
        };
        let (was, is) = (view(before), view(after));
        let request = self
            .requests
            .get_mut(&dispatch.request)
            .expect("a request of ours");
        assert_eq!(request.state, State::Waiting, "two attempts at once");
        assert_eq!(dispatch.attempt as usize, request.tried.len() + 1);
        let this = (dispatch.endpoint, dispatch.key);
        assert!(!request.tried.contains(&this), "tried before");
        request.tried.push(this);
        request.state = State::Running {
            attempt: dispatch.attempt,
            endpoint: dispatch.endpoint,
        };
        let named = |spec: &FleetSpec| spec.pools.iter().find(|pool| pool.name == is.pool).cloned();
        let pool = named(&request.spec).expect("a pool that the request may use");
        assert!(
            pool.protocols.serves(request.protocols),
            "it speaks another protocol"
        );
        let pool = named(&self.spec).expect("a pool of the fleet");
        assert!(pool.max_inflight.is_none_or(|most| is.inflight <= most), "full");
        assert!(dispatch.key < pool.keys);
        assert!(was.weight.0 > 0 && !was.removed && was.state.kind != StateKind::Draining);
        // Other events change the states that the decision saw.
        if matches!(event, Event::Arrive(_)) {
            let sick = [
                StateKind::Ejected,
                StateKind::Open,
                StateKind::Unhealthy,
                StateKind::Stalled,
            ];
            let kind = was.state.kind;
            // One that time has brought back is tried before it counts as live.
            let on_trial = [StateKind::Ejected, StateKind::Open].contains(&kind) && was.state.until.is_none();
            let may = if dispatch.decision.failed_open {
                sick.contains(&kind)
            } else {
                kind == StateKind::Live || on_trial
            };
            assert!(may, "sent to one that is {:?}", was.state);
        }
        check_decision(dispatch);
    }

    fn check_counts(&self, view: &FleetView) {
        let mut running: BTreeMap<EndpointId, u32> = BTreeMap::new();
        for request in self.requests.values() {
            if let State::Running { endpoint, .. } = request.state {
                *running.entry(endpoint).or_default() += 1;
            }
        }
        for endpoint in &view.endpoints {
            assert_eq!(endpoint.inflight, running.remove(&endpoint.id).unwrap_or(0));
            assert!(endpoint.penalty >= 0.0 && endpoint.penalty.is_finite());
            assert!(endpoint.busy_seconds >= 0.0);
            assert!(endpoint.dispatched >= endpoint.succeeded + endpoint.failed);
        }
        assert!(running.is_empty(), "attempts on endpoints that are gone");
    }
}

/// A decision that adds up.
fn check_decision(dispatch: &Dispatch) {
    let decision = &dispatch.decision;
    let sum: f64 = decision.parts.iter().map(|part| part.weighted).sum();
    assert!((sum * decision.factor - decision.total).abs() < 1e-9);
    for part in &decision.parts {
        assert!(part.raw.is_finite() && part.raw >= 0.0 && (0.0..=1.0).contains(&part.share));
    }
    let dropped: u32 = decision.dropped.iter().map(|(_, count)| count).sum();
    assert_eq!(dropped + decision.live, decision.candidates);
    if let Some(explanation) = &dispatch.explanation {
        assert_eq!(explanation.decision, *decision);
    }
}
