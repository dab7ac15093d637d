//! Random streams of events: what must hold whatever happens.

use crate::world::{at, fallback, fallback_on, fleet, policies, pool, probe, route, weighted};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::action::{Bindings, Dispatch};
use weighbridge_core::event::{Arrival, Control, Ended, Only, Outcome};
use weighbridge_core::ids::{EndpointId, RequestId};
use weighbridge_core::policies::session_affinity::SessionKey;
use weighbridge_core::replay::replay;
use weighbridge_core::spec::{FallbackOn, FleetSpec, Protocols, Weight};
use weighbridge_core::view::FleetView;
use weighbridge_core::{Action, Event, RouteId, Scheduler, Time};

/// One step of a random history; numbers pick among what there is.
#[derive(Clone, Debug)]
enum Move {
    Arrive {
        route: u8,
        session: Option<u8>,
        anthropic: bool,
    },
    End {
        which: u16,
        outcome: Outcome,
        committed: bool,
    },
    Withdraw(u16),
    Leave(u16),
    Probe(bool),
    Progress(u8),
    Control {
        endpoint: u8,
        command: Control,
    },
    Configure(u8),
    Pass(u16),
    Stray(u8),
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    let status = |code: u16| {
        prop::option::of(0u64..90).prop_map(move |wait| Outcome::Status {
            code,
            retry_after: wait.map(Duration::from_secs),
        })
    };
    prop_oneof![
        6 => Just(Outcome::Complete),
        1 => prop::sample::select(vec![400u16, 404, 429, 500, 502, 503, 529]).prop_flat_map(status),
        1 => prop::sample::select(vec![
            Outcome::Refused, Outcome::ConnectTimeout, Outcome::ConnectFailed, Outcome::Reset,
            Outcome::TimedOut, Outcome::Broken, Outcome::Abandoned,
        ]),
        1 => Just(Outcome::Refused),
    ]
}

fn moves() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => (0u8..3, prop::option::of(0u8..6), any::<bool>())
            .prop_map(|(route, session, anthropic)| Move::Arrive { route, session, anthropic }),
        8 => (any::<u16>(), outcomes(), prop::bool::weighted(0.1))
            .prop_map(|(which, outcome, committed)| Move::End { which, outcome, committed }),
        1 => any::<u16>().prop_map(Move::Withdraw),
        1 => any::<u16>().prop_map(Move::Leave),
        2 => any::<bool>().prop_map(Move::Probe),
        1 => any::<u8>().prop_map(Move::Progress),
        1 => (any::<u8>(), prop_oneof![
            Just(Control::Drain), Just(Control::Resume), Just(Control::Resume),
            (0u64..3, prop::option::of(0u64..20_000)).prop_map(|(weight, until)| Control::Weight {
                weight: Some(Weight(weight * 500_000)), until: until.map(at) }),
            (1u64..3, prop::option::of(0u64..20_000)).prop_map(|(weight, until)| Control::Calibrated {
                weight: Some(Weight(weight * 500_000)), until: until.map(at) }),
        ]).prop_map(|(endpoint, command)| Move::Control { endpoint, command }),
        1 => any::<u8>().prop_map(Move::Configure),
        4 => (0u16..3000).prop_map(Move::Pass),
        1 => any::<u8>().prop_map(Move::Stray),
    ]
}

/// Fleets to change between: sizes, limits, weights and orders vary.
fn spec(variant: u8) -> FleetSpec {
    let mut a = pool("a", 1 + usize::from(variant % 4));
    a.max_inflight = (variant & 1 != 0).then_some(2);
    a.keys = 1 + u16::from(variant % 3);
    a.stall_after = (variant & 2 != 0).then_some(Duration::from_secs(2));
    let mut b = pool("b", 2);
    b.probe = Some(probe());
    b.protocols = if variant & 4 != 0 {
        Protocols::OPENAI
    } else {
        Protocols::ANY
    };
    b.fail_open = variant & 8 == 0;
    let c = pool("c", 1);
    let mut first = route("first", &[0, 1]);
    first.policies = policies(1.0, 1.0);
    let all = FallbackOn(u8::MAX);
    first.fallback = vec![fallback_on("second", all), fallback("third")];
    first.retry.on_timeout = true;
    first.retry.budget.floor_per_second = 0.5;
    let mut second = weighted("second", &[(0, 1.0), (1, 2.0), (2, 0.0)]);
    second.spill = variant & 16 == 0;
    second.fallback = vec![fallback_on("first", all)];
    let mut third = route("third", &[2, 1]);
    third.targets[1].order = 2;
    let mut routes = vec![first, second, third];
    if variant & 32 != 0 {
        routes.swap(0, 2);
    }
    fleet(vec![a, b, c], routes)
}

/// Drives a scheduler and keeps its own books.
struct Model {
    scheduler: Scheduler,
    now: Time,
    ids: Bindings,
    spec: FleetSpec,
    log: Vec<(Time, Event, Vec<Action>)>,
    next: u64,
    running: BTreeMap<RequestId, (Dispatch, Vec<Dispatch>)>,
    falling: BTreeMap<RequestId, (RouteId, Vec<Dispatch>)>,
    finished: BTreeSet<RequestId>,
    probing: BTreeSet<EndpointId>,
    drained: BTreeSet<EndpointId>,
    protocols: BTreeMap<RequestId, Protocols>,
    origin: BTreeMap<RequestId, u32>,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut model = Self {
            scheduler: Scheduler::new(seed),
            now: Time::ZERO,
            ids: Bindings::default(),
            spec: FleetSpec::default(),
            log: Vec::new(),
            next: 0,
            running: BTreeMap::new(),
            falling: BTreeMap::new(),
            finished: BTreeSet::new(),
            probing: BTreeSet::new(),
            drained: BTreeSet::new(),
            protocols: BTreeMap::new(),
            origin: BTreeMap::new(),
        };
        model.configure(0);
        model
    }

    fn configure(&mut self, variant: u8) {
        self.spec = spec(variant);
        self.step(Event::Configure(Arc::new(self.spec.clone())));
    }

    fn step(&mut self, event: Event) {
        let before = self.scheduler.view(self.now);
        let mut actions = Vec::new();
        self.scheduler.step(self.now, event.clone(), &mut actions);
        if let Event::Ended(ended) = &event {
            self.running.remove(&ended.request);
        }
        let tried = self.tried_before(&event);
        for action in &actions {
            match action {
                Action::Configured(ids) => self.ids = ids.clone(),
                Action::Dispatch(dispatch) => {
                    let mut tries = tried.clone();
                    self.check_dispatch(dispatch, &tries);
                    tries.push((**dispatch).clone());
                    self.running
                        .insert(dispatch.request, ((**dispatch).clone(), tries));
                }
                Action::Abort { request, attempt } => {
                    assert_eq!(
                        self.running.remove(request).map(|(d, _)| d.attempt),
                        Some(*attempt)
                    );
                }
                Action::Fallback { request, route } => {
                    assert!(!self.running.contains_key(request));
                    self.falling.insert(*request, (*route, tried.clone()));
                }
                Action::Finish { request, .. } => {
                    assert!(!self.running.contains_key(request), "finished while running");
                    assert!(self.finished.insert(*request), "finished twice");
                }
                Action::Probe(id) => assert!(self.probing.insert(*id), "two probes at once"),
                Action::Changed { .. } => {}
            }
        }
        self.check_limits(&before, &actions);
        self.log.push((self.now, event, actions));
        self.check_counts();
    }

    /// Attempts that the request of this event has made.
    fn tried_before(&mut self, event: &Event) -> Vec<Dispatch> {
        let request = match event {
            Event::Ended(ended) => ended.request,
            Event::MoveOn { request, .. } => *request,
            Event::Arrive(arrival) => {
                return self
                    .falling
                    .remove(&arrival.request)
                    .map(|(_, t)| t)
                    .unwrap_or_default();
            }
            _ => return Vec::new(),
        };
        let made = |entry: &(Time, Event, Vec<Action>)| {
            let dispatches = entry.2.iter().filter_map(|action| match action {
                Action::Dispatch(dispatch) if dispatch.request == request => Some((**dispatch).clone()),
                _ => None,
            });
            dispatches.collect::<Vec<_>>()
        };
        self.log.iter().flat_map(made).collect()
    }

    fn check_dispatch(&self, dispatch: &Dispatch, tried: &[Dispatch]) {
        assert!(
            !self.running.contains_key(&dispatch.request),
            "two attempts at once"
        );
        assert!(!self.finished.contains(&dispatch.request), "sent after the end");
        assert_eq!(dispatch.attempt as usize, tried.len() + 1);
        assert!(dispatch.attempt <= 3, "max_attempts");
        assert!(
            !self.drained.contains(&dispatch.endpoint),
            "sent to a drained endpoint"
        );
        let again = |t: &&Dispatch| t.endpoint == dispatch.endpoint && t.key == dispatch.key;
        assert!(tried.iter().find(again).is_none(), "tried before");
        let decision = &dispatch.decision;
        let sum: f64 = decision.parts.iter().map(|part| part.weighted).sum();
        assert!((sum - decision.total).abs() < 1e-12);
        assert!(
            decision
                .parts
                .iter()
                .all(|p| p.raw >= 0.0 && p.raw.is_finite() && (0.0..=1.0).contains(&p.share))
        );
        let dropped: u32 = decision.dropped.iter().map(|(_, count)| count).sum();
        assert_eq!(dropped + decision.live, decision.candidates);
        if let Some(explanation) = &dispatch.explanation {
            assert_eq!(explanation.decision, *decision);
            for candidate in &explanation.candidates {
                let sum: f64 = candidate.parts.iter().map(|part| part.weighted).sum();
                assert!((sum - candidate.total).abs() < 1e-12);
            }
        }
    }

    /// No endpoint was sent more than it takes, and no route retried more than its budget allows.
    fn check_limits(&self, before: &FleetView, actions: &[Action]) {
        let after = self.scheduler.view(self.now);
        for action in actions {
            let Action::Dispatch(dispatch) = action else {
                continue;
            };
            let endpoint = (after.endpoints.iter())
                .find(|e| e.id == dispatch.endpoint)
                .unwrap();
            let pool = (self.spec.pools.iter())
                .find(|p| p.name == endpoint.pool)
                .unwrap();
            assert!(
                pool.max_inflight.is_none_or(|most| endpoint.inflight <= most),
                "full"
            );
        }
        for route in &after.routes {
            let earlier = before.routes.iter().find(|other| other.id == route.id);
            if earlier.is_some_and(|earlier| route.retries.0 > earlier.retries.0) {
                assert!(route.retries.0 <= route.retries.1, "budget: {:?}", route.retries);
            }
        }
    }

    fn check_counts(&self) {
        let view = self.scheduler.view(self.now);
        let mut running: BTreeMap<EndpointId, u32> = BTreeMap::new();
        for (dispatch, _) in self.running.values() {
            *running.entry(dispatch.endpoint).or_default() += 1;
        }
        for endpoint in &view.endpoints {
            assert_eq!(endpoint.inflight, running.remove(&endpoint.id).unwrap_or(0));
            assert!(endpoint.penalty >= 0.0 && endpoint.penalty.is_finite());
        }
        assert!(running.is_empty(), "attempts on endpoints that are gone");
        assert_eq!(self.scheduler.bad_scores(), 0);
    }

    fn pick(&self, which: u16) -> Option<Dispatch> {
        let place = usize::from(which) % self.running.len().max(1);
        self.running
            .values()
            .nth(place)
            .map(|(dispatch, _)| dispatch.clone())
    }

    fn arrive(&mut self, request: RequestId, route: RouteId, session: Option<u8>) {
        let protocols = self.protocols[&request];
        self.step(Event::Arrive(Arrival {
            request,
            route,
            protocols,
            session: session.map(|s| SessionKey::new(&[s])),
            only: session
                .filter(|session| *session == 1)
                .and_then(|_| self.ids.endpoints.first()?.first())
                .map(|endpoint| Only {
                    endpoint: *endpoint,
                    key: None,
                }),
            explain: session == Some(0),
            ..Arrival::new(RequestId(0), RouteId(0))
        }));
    }

    fn apply(&mut self, next: Move) {
        match next {
            Move::Arrive {
                route,
                session,
                anthropic,
            } => {
                self.next += 1;
                let request = RequestId(self.next);
                let protocols = if anthropic {
                    Protocols::ANTHROPIC
                } else {
                    Protocols::OPENAI
                };
                self.protocols.insert(request, protocols);
                let route = self.ids.routes[usize::from(route)];
                self.origin.insert(request, route.0);
                self.arrive(request, route, session);
            }
            Move::End {
                which,
                outcome,
                committed,
            } => {
                if let Some(dispatch) = self.pick(which) {
                    let (request, attempt) = (dispatch.request, dispatch.attempt);
                    self.step(Event::Ended(Ended {
                        request,
                        attempt,
                        outcome,
                        committed,
                        too_long: matches!(outcome, Outcome::Status { code: 400, .. }),
                        ..Ended::new(RequestId(0), 0, Outcome::Complete)
                    }));
                }
            }
            Move::Withdraw(which) => {
                if let Some(dispatch) = self.pick(which) {
                    self.running.remove(&dispatch.request);
                    self.step(Event::Withdraw(dispatch.request));
                }
            }
            Move::Leave(which) => {
                if let Some(dispatch) = self.pick(which) {
                    self.step(Event::MoveOn {
                        request: dispatch.request,
                        attempt: dispatch.attempt,
                    });
                }
            }
            Move::Probe(_) | Move::Progress(_) | Move::Control { .. } => self.apply_to_endpoint(next),
            Move::Configure(variant) => self.configure(variant),
            Move::Pass(millis) => {
                self.now = self.now.after(Duration::from_millis(u64::from(millis)));
                self.step(Event::Tick);
            }
            Move::Stray(n) => self.stray(n),
        }
        // Drivers follow a fallback at once.
        while let Some((request, route)) = self.falling.iter().next().map(|(id, (route, _))| (*id, *route)) {
            self.arrive(request, route, None);
        }
    }

    fn apply_to_endpoint(&mut self, next: Move) {
        match next {
            Move::Probe(healthy) => {
                if let Some(endpoint) = self.probing.pop_first() {
                    self.step(Event::Probed { endpoint, healthy });
                }
            }
            Move::Progress(which) => {
                let endpoint = self.some_endpoint(which);
                self.step(Event::Progress {
                    endpoint,
                    at: self.now,
                });
            }
            Move::Control { endpoint, command } => {
                let endpoint = self.some_endpoint(endpoint);
                match command {
                    Control::Drain => drop(self.drained.insert(endpoint)),
                    Control::Resume => drop(self.drained.remove(&endpoint)),
                    Control::Weight { .. } | Control::Calibrated { .. } => {}
                }
                self.step(Event::Control { endpoint, command });
            }
            _ => {}
        }
    }

    /// Events about things that do not exist.
    fn stray(&mut self, n: u8) {
        let request = RequestId(1_000_000 + u64::from(n));
        let endpoint = EndpointId {
            slot: u32::from(n),
            generation: 77,
        };
        self.step(Event::Ended(Ended {
            request,
            attempt: 1,
            outcome: Outcome::Complete,
            committed: false,
            too_long: false,
            ..Ended::new(RequestId(0), 0, Outcome::Complete)
        }));
        self.step(Event::Withdraw(request));
        self.step(Event::MoveOn { request, attempt: 1 });
        self.step(Event::Probed {
            endpoint,
            healthy: n & 1 == 0,
        });
        self.step(Event::Control {
            endpoint,
            command: Control::Drain,
        });
    }

    fn some_endpoint(&self, which: u8) -> EndpointId {
        let all: Vec<_> = self.ids.endpoints.iter().flatten().collect();
        *all[usize::from(which) % all.len()]
    }

    /// Ends everything; all is zero then, and each request has had one end.
    fn rest(&mut self) {
        while let Some(dispatch) = self.pick(0) {
            let (request, attempt) = (dispatch.request, dispatch.attempt);
            self.step(Event::Ended(Ended {
                request,
                attempt,
                outcome: Outcome::Complete,
                committed: true,
                too_long: false,
                ..Ended::new(RequestId(0), 0, Outcome::Complete)
            }));
        }
        let view = self.scheduler.view(self.now);
        assert!(view.endpoints.iter().all(|e| e.inflight == 0 && !e.removed));
        assert!(view.routes.iter().all(|route| route.requests == 0));
        let withdrawn = |id: &RequestId| {
            self.log
                .iter()
                .any(|(_, event, _)| *event == Event::Withdraw(*id))
        };
        for request in self.protocols.keys() {
            assert!(
                self.finished.contains(request) != withdrawn(request),
                "{request:?}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn invariants_hold(history in prop::collection::vec(moves(), 1..250), seed in any::<u64>()) {
        let mut model = Model::new(seed);
        history.into_iter().for_each(|next| model.apply(next));
        model.rest();
        prop_assert_eq!(replay(model.log.into_iter(), seed), Ok(()));
    }
}
