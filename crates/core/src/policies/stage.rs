//! A small fleet on which the tests of policies play their examples: one route, one pool, a real scheduler.

use crate::action::Verdict;
use crate::event::{Arrival, Ended, Outcome, Spent};
use crate::explain::{Abstained, Dropped, Explanation};
use crate::ids::{EndpointId, RequestId, RouteId};
use crate::policies::Policies;
use crate::policies::session_affinity::SessionKey;
use crate::prefix::BlockHash;
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

    /// The first token of a request came, of its first attempt.
    pub(crate) fn first_token(&mut self, request: RequestId) {
        self.step(Event::FirstToken { request, attempt: 1 });
    }

    /// Its first attempt ended so; `spent`: what its engine counted.
    pub(crate) fn end(&mut self, request: RequestId, outcome: Outcome, spent: Option<Spent>) {
        let ended = Ended::new(request, 1, outcome);
        self.step(Event::Ended(Ended { spent, ..ended }));
    }

    /// The endpoint at `place` has answered this prompt, which it is now believed to hold.
    pub(crate) fn holds(&mut self, place: usize, prompt: &Arc<Work>) {
        let before = self.work.replace(Arc::clone(prompt));
        let request = self.busy(place, 1)[0];
        self.work = before;
        self.end(request, Outcome::Abandoned, None);
    }

    /// Has the endpoint at `place` answer one request of `prompt` tokens, `wait` ms to the first token and `each` ms for
    /// every other of `output`; nothing else is under way.
    pub(crate) fn served(&mut self, place: usize, (prompt, output): (u32, u32), (wait, each): (u64, u64)) {
        let work = Work {
            prompt_tokens: prompt,
            ..Work::default()
        };
        let before = self.work.replace(Arc::new(work));
        let request = self.busy(place, 1)[0];
        self.work = before;
        self.pass(wait);
        self.first_token(request);
        self.pass(each * u64::from(output - 1));
        let spent = Spent {
            prompt,
            cached: None,
            output,
        };
        self.end(request, Outcome::Complete, Some(spent));
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

/// A request of so many tokens, all its own, of which so many of answer are expected.
pub(crate) fn work(prompt_tokens: u32, expected: u32) -> Option<Arc<Work>> {
    let work = Work {
        prompt_tokens,
        expected_tokens: Some(expected),
        ..Work::default()
    };
    Some(Arc::new(work))
}

/// A prompt of `blocks` blocks of `tokens` tokens, the same ones every time.
pub(crate) fn prompt(blocks: u32, tokens: u32) -> Arc<Work> {
    let work = Work {
        prompt_tokens: blocks * tokens,
        blocks: (1..=u64::from(blocks)).map(BlockHash).collect(),
        block_tokens: tokens,
        ..Work::default()
    };
    Arc::new(work)
}

/// Whether the numbers are those that were worked out by hand, up to rounding.
pub(crate) fn near(found: &[f64], expected: &[f64]) -> bool {
    let is = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
    let all = found.len() == expected.len() && found.iter().zip(expected).all(is);
    if !all {
        eprintln!("found {found:?}, expected {expected:?}");
    }
    all
}
