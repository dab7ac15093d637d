//! A request comes to a route: choose, reserve, send; or say why not.

use super::Scheduler;
use super::ended::Among;
use crate::action::{Action, Dispatch, Verdict};
use crate::endpoint::find_mut;
use crate::engine::Dispatched;
use crate::event::Arrival;
use crate::explain::{Decision, Explanation};
use crate::requests::{Attempt, Request, Stage};
use crate::select::{self, Choice, Kind, Query, Refusal, Take, record};
use crate::spec::FallbackOn;
use crate::work::Needs;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

/// Time between decisions of one route that are explained in full unasked.
const SAMPLE: Duration = Duration::from_secs(1);

/// A candidate that was chosen, and why.
pub(super) struct Decided {
    take: Take,
    decision: Decision,
    explanation: Option<Box<Explanation>>,
}

impl Scheduler {
    pub(super) fn arrive(&mut self, arrival: Arrival, actions: &mut Vec<Action>) {
        let id = arrival.request;
        let known = self.requests.get(&id);
        if known.is_some_and(|request| matches!(request.stage, Stage::Running(_))) {
            return;
        }
        let plan = (self.routes.get(arrival.route.0 as usize))
            .filter(|route| !route.removed)
            .map(|route| Arc::clone(&route.plan));
        match (self.requests.remove(&id), plan) {
            (Some(mut request), Some(plan)) => {
                request.trail.push(std::mem::replace(&mut request.plan, plan));
                request.unpass();
                request.arrival = arrival;
                request.all_refused = true;
                request.failed_open = false;
                self.enter(request, Kind::Fallback, actions);
            }
            (Some(request), None) => self.refused(request, Verdict::NoRoute, actions),
            (None, Some(plan)) => {
                if let Some(route) = self.routes.get_mut(plan.id.0 as usize) {
                    route.requests += 1;
                }
                let request = Request {
                    arrival,
                    plan,
                    trail: SmallVec::new(),
                    passed: SmallVec::new(),
                    attempts: 0,
                    tried: SmallVec::new(),
                    stage: Stage::FallingBack,
                    failed_open: false,
                    all_refused: true,
                    so_far: None,
                    cause: FallbackOn::NONE,
                };
                self.enter(request, Kind::First, actions);
            }
            (None, None) => actions.push(Action::Finish {
                request: id,
                verdict: Verdict::NoRoute,
            }),
        }
    }

    /// The first choice on a route. What is sick is tried only where no fallback route has anything that lives; a route
    /// that is left untried for that is come back to if the others fail.
    fn enter(&mut self, mut request: Request, kind: Kind, actions: &mut Vec<Action>) {
        let verdict = match self.decide(&request, kind) {
            Ok(decided) => {
                request.failed_open = decided.take.live.is_none();
                if request.failed_open {
                    request.refused(self.unavailable(&request));
                    request.cause = FallbackOn::UNAVAILABLE;
                    request.pass();
                    request = match self.fall_back(request, Among::Live, actions) {
                        None => return,
                        Some(request) => request,
                    };
                    request.unpass();
                }
                self.dispatch(request, decided, actions);
                return;
            }
            Err(refusal) => refusal.verdict(),
        };
        self.refused(request, verdict, actions);
    }

    /// Chooses and takes the turns of the choice; reserves nothing yet.
    pub(super) fn decide(&mut self, request: &Request, kind: Kind) -> Result<Decided, Refusal> {
        let Self {
            now,
            rng,
            routes,
            endpoints,
            pools,
            prefixes,
            under_way,
            scratch,
            ..
        } = self;
        let place = request.plan.id.0 as usize;
        let Some(route) = routes.get_mut(place) else {
            return Err(Refusal::Exhausted);
        };
        let query = Query {
            now: *now,
            plan: &request.plan,
            shares: route.shares_of(&request.plan),
            endpoints,
            pools,
            prefixes,
            under_way,
            facts: request.facts(),
            protocols: request.arrival.protocols,
            only: request.arrival.only,
            tried: &request.tried,
            kind,
        };
        let kept = query.shares.is_some();
        let choice = select::choose(&query, scratch, rng);
        let (turns, decided) = match choice {
            Choice::Take(take) => {
                let sample = *now >= route.sample_at;
                let explanation = (sample || request.arrival.explain)
                    .then(|| Box::new(record::explanation(&query, scratch, Some(&take))));
                let decision = match &explanation {
                    Some(explanation) => explanation.decision.clone(),
                    None => record::decision(&query, scratch, Some(&take)),
                };
                if sample {
                    route.sample_at = now.after(SAMPLE);
                }
                (
                    Some(take.turns),
                    Ok(Decided {
                        take,
                        decision,
                        explanation,
                    }),
                )
            }
            Choice::Refuse(Refusal::Full(turns)) => (Some(turns), Err(Refusal::Full(turns))),
            Choice::Refuse(refusal) => (None, Err(refusal)),
        };
        if let Some(turns) = turns.filter(|_| kept) {
            select::advance(&mut route.shares, scratch, turns);
        }
        decided
    }

    /// Reserves the slot and sends the request.
    pub(super) fn dispatch(&mut self, mut request: Request, decided: Decided, actions: &mut Vec<Action>) {
        let now = self.now;
        let take = decided.take;
        let (target, id) = {
            let candidate = &request.plan.candidates[take.candidate];
            (candidate.target, candidate.endpoint)
        };
        let failed_open = take.live.is_none();
        let Some(endpoint) = find_mut(&mut self.endpoints, id) else {
            return;
        };
        let mut hold = endpoint.begin(now, take.key, failed_open);
        let work = request.arrival.work.as_deref();
        let what = Dispatched {
            work,
            cached: take.cached,
            live: request.plan.needs.meets(Needs::LIVE),
            predicts: request.plan.predicts,
        };
        let means = &self.pools[endpoint.pool_at].means;
        hold.load = endpoint.engine.dispatched(now, what, means);
        if let Some(work) = work {
            self.prompt_sent(id, work, take.cached);
        }
        self.touched.push(id.slot);
        request.attempts += 1;
        if request.attempts == 1
            && let Some(route) = self.routes.get_mut(request.plan.id.0 as usize)
        {
            route.budget.first(now);
        }
        request.stage = Stage::Running(Attempt { endpoint: id, hold });
        actions.push(Action::Dispatch(Box::new(Dispatch {
            request: request.arrival.request,
            attempt: request.attempts,
            target,
            endpoint: id,
            key: take.key,
            decision: decided.decision,
            explanation: decided.explanation,
        })));
        self.requests.insert(request.arrival.request, request);
    }

    /// The route cannot serve the request: another one does, or nobody. What was refused before any attempt loads
    /// no engine twice, so it costs nothing of the budget.
    fn refused(&mut self, mut request: Request, verdict: Verdict, actions: &mut Vec<Action>) {
        let told = request.refused(verdict);
        // What the last attempt was a reason for, it stays a reason for.
        request.cause = request.cause.and(verdict.cause());
        if let Some(request) = self.fall_back(request, Among::All, actions) {
            self.finish(request, told, actions);
        }
    }
}
