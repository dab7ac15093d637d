//! A fleet on a clock that tests turn by hand.

use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::action::{Bindings, Dispatch, Verdict};
use weighbridge_core::event::{Arrival, Control, Ended, Outcome};
use weighbridge_core::ids::{EndpointId, RequestId};
use weighbridge_core::policies::session_affinity::SessionKey;
use weighbridge_core::policies::{Policies, least_inflight, session_affinity};
use weighbridge_core::spec::{
    BreakerSpec, CooldownSpec, EndpointSpec, FallbackOn, FallbackSpec, FleetSpec, PoolSpec, ProbeSpec,
    Protocols, RetrySpec, RouteSpec, TargetSpec, Weight,
};
use weighbridge_core::view::{EndpointView, StateKind};
use weighbridge_core::{Action, Event, RouteId, Scheduler, Time};

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn at(millis: u64) -> Time {
    Time::from_origin(ms(millis))
}

pub(crate) const fn status(code: u16) -> Outcome {
    Outcome::Status {
        code,
        retry_after: None,
    }
}

pub(crate) const fn wait(code: u16, seconds: u64) -> Outcome {
    Outcome::Status {
        code,
        retry_after: Some(Duration::from_secs(seconds)),
    }
}

/// A pool with the defaults of the config and `count` endpoints `e0`, `e1`, …
pub(crate) fn pool(name: &str, count: usize) -> PoolSpec {
    PoolSpec {
        name: name.into(),
        endpoints: (0..count)
            .map(|i| EndpointSpec {
                name: format!("e{i}").into(),
                address: format!("http://{name}-{i}").into(),
                weight: Weight::ONE,
                ..EndpointSpec::new("", "")
            })
            .collect(),
        keys: 1,
        protocols: Protocols::ANY,
        max_inflight: None,
        breaker: Some(BreakerSpec {
            window: ms(30_000),
            min_requests: 10,
            error_rate: 0.1,
            consecutive: 5,
            open_for: ms(10_000),
        }),
        cooldown: CooldownSpec {
            default: ms(5_000),
            max: ms(60_000),
        },
        fail_open: true,
        ramp: ms(10_000),
        probe: None,
        stall_after: None,
        ..PoolSpec::new("", Vec::new())
    }
}

pub(crate) fn probe() -> ProbeSpec {
    ProbeSpec {
        interval: ms(5_000),
        unhealthy_after: 3,
        healthy_after: 2,
    }
}

/// A route over pools by index, with the defaults of the config.
pub(crate) fn route(name: &str, pools: &[usize]) -> RouteSpec {
    RouteSpec {
        name: name.into(),
        targets: (pools.iter())
            .map(|pool| TargetSpec {
                name: format!("t{pool}").into(),
                pool: *pool,
                weight: None,
                order: 1,
                ..TargetSpec::new("", 0)
            })
            .collect(),
        policies: Policies::default(),
        spill: true,
        retry: RetrySpec::default(),
        fallback: Vec::new(),
        ..RouteSpec::new("", Vec::new())
    }
}

pub(crate) fn weighted(name: &str, weights: &[(usize, f64)]) -> RouteSpec {
    let pools: Vec<_> = weights.iter().map(|(pool, _)| *pool).collect();
    let mut route = route(name, &pools);
    for (target, (_, weight)) in route.targets.iter_mut().zip(weights) {
        target.weight = Some(Weight((weight * 1e6).round() as u64));
    }
    route
}

/// Weights of `session_affinity` and `least_inflight`; 0: not used.
pub(crate) fn policies(affinity: f64, least: f64) -> Policies {
    Policies {
        session_affinity: (affinity > 0.0).then(|| session_affinity::Config {
            weight: affinity,
            ..Default::default()
        }),
        least_inflight: (least > 0.0).then_some(least_inflight::Config { weight: least }),
        ..Policies::default()
    }
}

pub(crate) fn fallback(route: &str) -> FallbackSpec {
    FallbackSpec {
        route: route.into(),
        on: FallbackOn::UNAVAILABLE,
    }
}

pub(crate) fn fallback_on(route: &str, on: FallbackOn) -> FallbackSpec {
    FallbackSpec {
        route: route.into(),
        on,
    }
}

pub(crate) fn fleet(pools: Vec<PoolSpec>, routes: Vec<RouteSpec>) -> FleetSpec {
    FleetSpec {
        pools,
        routes,
        seed: 0,
        ..FleetSpec::default()
    }
}

/// `count` pools of one endpoint each, and one route over all of them.
pub(crate) fn singles(count: usize, change: impl Fn(&mut PoolSpec, &mut RouteSpec)) -> World {
    let indexes: Vec<_> = (0..count).collect();
    let mut pools: Vec<_> = indexes.iter().map(|i| pool(&format!("p{i}"), 1)).collect();
    let mut route = route("r", &indexes);
    pools.iter_mut().for_each(|pool| change(pool, &mut route));
    World::new(fleet(pools, vec![route]))
}

pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) now: Time,
    pub(crate) ids: Bindings,
    pub(crate) spec: FleetSpec,
    pub(crate) seed: u64,
    pub(crate) log: Vec<(Time, Event, Vec<Action>)>,
    next: u64,
}

/// The end of a step for one request.
#[derive(Debug)]
pub(crate) enum Answer {
    Sent(Box<Dispatch>),
    Fallback(u32),
    Finished(Verdict),
}

impl World {
    pub(crate) fn new(spec: FleetSpec) -> Self {
        Self::seeded(spec, 1)
    }

    pub(crate) fn seeded(spec: FleetSpec, seed: u64) -> Self {
        let mut world = Self {
            scheduler: Scheduler::new(seed),
            now: Time::ZERO,
            ids: Bindings::default(),
            spec: FleetSpec::default(),
            seed,
            log: Vec::new(),
            next: 0,
        };
        world.configure(spec);
        world
    }

    pub(crate) fn configure(&mut self, spec: FleetSpec) {
        assert_eq!(spec.check(), Ok(()));
        self.spec = spec.clone();
        let actions = self.step(Event::Configure(Arc::new(spec)));
        let found = actions.into_iter().find_map(|action| match action {
            Action::Configured(ids) => Some(ids),
            _ => None,
        });
        self.ids = found.expect("configuring is answered");
    }

    pub(crate) fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.scheduler.step(self.now, event.clone(), &mut actions);
        self.log.push((self.now, event, actions.clone()));
        actions
    }

    /// Turns the clock to `millis` after the start, with a tick at every deadline on the way. Probes that were
    /// asked for are returned.
    pub(crate) fn until(&mut self, millis: u64) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(next) = self.scheduler.next_deadline().filter(|next| *next <= at(millis)) {
            self.now = self.now.max(next);
            actions.extend(self.step(Event::Tick));
        }
        self.now = self.now.max(at(millis));
        actions
    }

    pub(crate) fn endpoint(&self, pool: usize, place: usize) -> EndpointId {
        self.ids.endpoints[pool][place]
    }

    pub(crate) fn view(&self, pool: usize, place: usize) -> EndpointView {
        let id = self.endpoint(pool, place);
        let view = self.scheduler.view(self.now);
        view.endpoints
            .into_iter()
            .find(|e| e.id == id)
            .expect("in the view")
    }

    pub(crate) fn state(&self, pool: usize) -> StateKind {
        self.view(pool, 0).state.kind
    }

    pub(crate) fn arrival(&mut self, route: usize, session: Option<&str>) -> Arrival {
        self.next += 1;
        Arrival {
            request: RequestId(self.next),
            route: self.ids.routes[route],
            protocols: Protocols::OPENAI,
            session: session.map(|s| SessionKey::new(s.as_bytes())),
            only: None,
            explain: false,
            ..Arrival::new(RequestId(0), RouteId(0))
        }
    }

    pub(crate) fn send(&mut self, arrival: Arrival) -> Answer {
        let request = arrival.request;
        answer(&self.step(Event::Arrive(arrival)), request)
    }

    pub(crate) fn ask(&mut self, route: usize) -> Answer {
        let arrival = self.arrival(route, None);
        self.send(arrival)
    }

    /// A request that must be sent somewhere.
    pub(crate) fn get(&mut self, route: usize) -> Box<Dispatch> {
        self.ask(route).sent()
    }

    pub(crate) fn get_session(&mut self, session: &str) -> Box<Dispatch> {
        let arrival = self.arrival(0, Some(session));
        self.send(arrival).sent()
    }

    pub(crate) fn end(&mut self, dispatch: &Dispatch, outcome: Outcome) -> Answer {
        self.finish(dispatch, outcome, false)
    }

    pub(crate) fn finish(&mut self, dispatch: &Dispatch, outcome: Outcome, committed: bool) -> Answer {
        let actions = self.step(Event::Ended(Ended {
            request: dispatch.request,
            attempt: dispatch.attempt,
            outcome,
            committed,
            too_long: false,
            ..Ended::new(RequestId(0), 0, Outcome::Complete)
        }));
        answer(&actions, dispatch.request)
    }

    /// Ends an attempt whose engine says that the prompt does not fit.
    pub(crate) fn too_long(&mut self, dispatch: &Dispatch) -> Answer {
        let actions = self.step(Event::Ended(Ended {
            request: dispatch.request,
            attempt: dispatch.attempt,
            outcome: status(400),
            committed: false,
            too_long: true,
            ..Ended::new(RequestId(0), 0, Outcome::Complete)
        }));
        answer(&actions, dispatch.request)
    }

    /// One whole request; the pool it went to first. Its outcome must be the end of it.
    pub(crate) fn serve(&mut self, outcome: Outcome) -> usize {
        let dispatch = self.get(0);
        let pool = self.pool_of(&dispatch);
        assert!(matches!(self.end(&dispatch, outcome), Answer::Finished(_)));
        pool
    }

    pub(crate) fn pool_of(&self, dispatch: &Dispatch) -> usize {
        let holds = |ids: &Vec<EndpointId>| ids.contains(&dispatch.endpoint);
        self.ids
            .endpoints
            .iter()
            .position(holds)
            .expect("a known endpoint")
    }

    pub(crate) fn control(&mut self, pool: usize, place: usize, command: Control) -> Vec<Action> {
        let endpoint = self.endpoint(pool, place);
        self.step(Event::Control { endpoint, command })
    }

    pub(crate) fn probed(&mut self, pool: usize, healthy: bool) -> Vec<Action> {
        let endpoint = self.endpoint(pool, 0);
        self.step(Event::Probed { endpoint, healthy })
    }
}

impl Answer {
    pub(crate) fn sent(self) -> Box<Dispatch> {
        match self {
            Self::Sent(dispatch) => dispatch,
            other => panic!("not sent: {other:?}"),
        }
    }

    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::Finished(verdict) => verdict,
            other => panic!("not finished: {other:?}"),
        }
    }

    pub(crate) fn relays(self, retry_after: Option<Duration>) {
        assert_eq!(self.verdict(), Verdict::Relay { retry_after });
    }
}

/// What the actions say about `request`; exactly one thing.
pub(crate) fn answer(actions: &[Action], request: RequestId) -> Answer {
    let mut answers: Vec<_> = (actions.iter())
        .filter_map(|action| match action {
            Action::Dispatch(dispatch) if dispatch.request == request => Some(Answer::Sent(dispatch.clone())),
            Action::Fallback { request: id, route } if *id == request => Some(Answer::Fallback(route.0)),
            Action::Finish { request: id, verdict } if *id == request => Some(Answer::Finished(*verdict)),
            _ => None,
        })
        .collect();
    assert_eq!(answers.len(), 1, "{actions:?}");
    answers.remove(0)
}
