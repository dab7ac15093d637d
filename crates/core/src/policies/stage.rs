//! A small fleet on which the tests of policies play their examples: one route, one pool, a real scheduler.

use crate::action::Verdict;
use crate::event::Arrival;
use crate::explain::{Abstained, Dropped, Explanation};
use crate::ids::{EndpointId, RequestId, RouteId};
use crate::policies::Policies;
use crate::policies::session_affinity::SessionKey;
use crate::signals::Reading;
use crate::spec::{EndpointSpec, FleetSpec, PoolSpec, RouteSpec, TargetSpec};
use crate::time::Time;
use crate::work::Work;
use crate::{Action, Event, Scheduler};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Stage {
    pub(crate) scheduler: Scheduler,
    pub(crate) ids: Vec<EndpointId>,
    pub(crate) now: Time,
    /// Of the requests that are asked about and sent.
    pub(crate) session: Option<SessionKey>,
    pub(crate) work: Option<Arc<Work>>,
    next: u64,
}

impl Stage {
    /// `count` endpoints `e0`, `e1`, … whose metrics are read every second, under the policies that `set` sets.
    pub(crate) fn new(count: usize, set: impl FnOnce(&mut Policies)) -> Self {
        let mut route = RouteSpec::new("r", vec![TargetSpec::new("t", 0)]);
        set(&mut route.policies);
        let endpoints =
            (0..count).map(|place| EndpointSpec::new(format!("e{place}"), format!("http://e{place}")));
        let pool = PoolSpec::new("p", endpoints.collect());
        Self::of(FleetSpec {
            pools: vec![pool],
            routes: vec![route],
            ..FleetSpec::default()
        })
    }

    /// One target for each of `pools`, under the rules that `set` sets.
    pub(crate) fn over(pools: Vec<PoolSpec>, set: impl FnOnce(&mut RouteSpec)) -> Self {
        let targets = pools.iter().enumerate();
        let targets = targets.map(|(place, pool)| TargetSpec::new(Arc::clone(&pool.name), place));
        let mut route = RouteSpec::new("r", targets.collect());
        set(&mut route);
        Self::of(FleetSpec {
            pools,
            routes: vec![route],
            ..FleetSpec::default()
        })
    }

    /// The first route of `fleet`.
    pub(crate) fn of(fleet: FleetSpec) -> Self {
        let mut scheduler = Scheduler::new(1);
        let mut actions = Vec::new();
        scheduler.step(Time::ZERO, Event::Configure(Arc::new(fleet)), &mut actions);
        let ids = actions.into_iter().find_map(|action| match action {
            Action::Configured(bindings) => Some(bindings.endpoints.concat()),
            _ => None,
        });
        Self {
            scheduler,
            ids: ids.unwrap(),
            now: Time::ZERO,
            session: None,
            work: None,
            next: 0,
        }
    }

    pub(crate) fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.scheduler.step(self.now, event, &mut actions);
        actions
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.now = self.now.after(Duration::from_millis(millis));
        self.step(Event::Tick);
    }

    /// The engine at `place` says this of itself.
    pub(crate) fn read(&mut self, place: usize, reading: Reading) {
        let endpoint = self.ids[place];
        self.step(Event::Scraped {
            endpoint,
            reading: Box::new(reading),
        });
    }

    /// The request that is asked about.
    pub(crate) fn arrival(&self) -> Arrival {
        Arrival {
            session: self.session,
            work: self.work.clone(),
            ..Arrival::new(RequestId(self.next), RouteId(0))
        }
    }

    /// Sends such a request; returns it and its endpoint.
    pub(crate) fn send(&mut self) -> (RequestId, usize) {
        self.next += 1;
        let arrival = self.arrival();
        let actions = self.step(Event::Arrive(arrival));
        self.sent(&actions)
    }

    /// Sends `count` such requests to the endpoint at `place`, whatever the policies say.
    pub(crate) fn busy(&mut self, place: usize, count: u32) -> Vec<RequestId> {
        let endpoint = self.ids[place];
        let send = |_| {
            self.next += 1;
            let mut arrival = self.arrival();
            arrival.only = Some(crate::event::Only { endpoint, key: None });
            let actions = self.step(Event::Arrive(arrival));
            self.sent(&actions).0
        };
        (0..count).map(send).collect()
    }

    fn sent(&self, actions: &[Action]) -> (RequestId, usize) {
        let sent = actions.iter().find_map(|action| match action {
            Action::Dispatch(dispatch) => Some((dispatch.request, dispatch.endpoint)),
            _ => None,
        });
        let (request, endpoint) = sent.unwrap();
        let place = self.ids.iter().position(|id| *id == endpoint);
        (request, place.unwrap())
    }

    pub(crate) fn explain(&self) -> Explanation {
        self.scheduler.explain(self.now, &self.arrival()).unwrap()
    }

    /// What `policy` gives each candidate.
    pub(crate) fn scores(&self, policy: &str) -> Vec<f64> {
        let part = |candidate: &crate::explain::Explained| {
            let part = candidate.parts.iter().find(|part| part.policy == policy);
            part.map_or(f64::NAN, |part| part.raw)
        };
        self.explain().candidates.iter().map(part).collect()
    }

    /// Why `policy` abstains; none if it does not.
    pub(crate) fn abstained(&self, policy: &str) -> Option<Abstained> {
        let decision = self.explain().decision;
        let found = decision.abstained.iter().find(|(name, _)| name == policy);
        found.map(|(_, why)| *why)
    }

    /// Why each candidate is not considered.
    pub(crate) fn dropped(&self) -> Vec<Option<Dropped>> {
        let candidates = self.explain().candidates;
        candidates.iter().map(|candidate| candidate.dropped).collect()
    }

    /// What such a request ends with, which no candidate takes.
    pub(crate) fn refusal(&mut self) -> Verdict {
        self.next += 1;
        let arrival = self.arrival();
        let actions = self.step(Event::Arrive(arrival));
        let verdict = actions.iter().find_map(|action| match action {
            Action::Finish { verdict, .. } => Some(*verdict),
            _ => None,
        });
        verdict.unwrap()
    }

    /// Place of the candidate that would be chosen.
    pub(crate) fn winner(&self) -> usize {
        self.explain().winner.unwrap()
    }
}
