//! An attempt is over: learn from it, then retry, fall back or finish.

use super::Scheduler;
use super::arrive::Decided;
use crate::action::{Action, Verdict};
use crate::endpoint::find_mut;
use crate::engine::Over;
use crate::event::{Ended, Outcome};
use crate::health::verdict::is_connect_failure;
use crate::ids::{RequestId, RouteId};
use crate::requests::{Attempt, Request, Stage, Tried};
use crate::route::Plan;
use crate::select::{self, Kind, Query, UNKNOWN_RETURN};
use crate::spec::{FallbackOn, RetrySpec};
use std::sync::Arc;
use std::time::Duration;

/// Which fallback routes come into question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// Those with a candidate that can take the request now.
    Live,
    /// All.
    All,
}

impl Scheduler {
    pub(super) fn ended(&mut self, ended: &Ended, actions: &mut Vec<Action>) {
        let Some((mut request, attempt)) = self.take_running(ended.request, Some(ended.attempt)) else {
            return;
        };
        let outcome = ended.outcome;
        self.release(
            (&request, &attempt),
            Over {
                outcome,
                spent: ended.spent.as_ref(),
            },
        );
        request.tried.push(Tried::after(&attempt, outcome));
        request.all_refused &= is_connect_failure(outcome);
        self.refresh(&mut request);
        let verdict = Verdict::Relay {
            retry_after: self.relay_retry_after(&request, outcome),
        };
        request.so_far = Some(verdict);
        if !ended.committed && request.may_go_on() && self.budget_allows(&request) {
            request.cause = cause(ended);
            request = match self.go_on(request, outcome, actions) {
                None => return,
                Some(request) => request,
            };
        }
        self.finish(request, verdict, actions);
    }

    /// Lets a request that is to be tried again see the endpoints of now: those of its arrival may all be gone. Where more
    /// than endpoints has changed, it keeps the route that it came to.
    fn refresh(&self, request: &mut Request) {
        let route = self.routes.get(request.plan.id.0 as usize);
        if let Some(route) = route.filter(|route| !route.removed)
            && !Arc::ptr_eq(&route.plan, &request.plan)
            && route.plan.same_rules(&request.plan)
        {
            request.plan = Arc::clone(&route.plan);
        }
    }

    /// Tries elsewhere after a failed attempt, or gives the request back. What lives comes first, on this route and then
    /// on its fallbacks; then what is sick, unless an engine has answered the request: whoever was taken for dead may be
    /// back, and a connection that fails does no harm.
    fn go_on(
        &mut self,
        mut request: Request,
        outcome: Outcome,
        actions: &mut Vec<Action>,
    ) -> Option<Request> {
        let mut sick = None;
        if wants_retry(&request.plan.retry, outcome) {
            if let Ok(decided) = self.decide(&request, Kind::Retry { open: false }) {
                self.retry(request, decided, actions);
                return None;
            }
            if request.failed_open || request.all_refused {
                sick = self.decide(&request, Kind::Retry { open: true }).ok();
            }
        }
        if sick.is_some() {
            request.pass();
        }
        request = self.fall_back(request, Among::Live, actions)?;
        request.unpass();
        if let Some(decided) = sick {
            self.retry(request, decided, actions);
            return None;
        }
        self.fall_back(request, Among::All, actions)
    }

    fn retry(&mut self, request: Request, decided: Decided, actions: &mut Vec<Action>) {
        self.spend(&request);
        self.dispatch(request, decided, actions);
    }

    pub(super) fn withdraw(&mut self, id: RequestId) {
        let Some(request) = self.requests.remove(&id) else {
            return;
        };
        if let Stage::Running(attempt) = request.stage {
            self.release((&request, &attempt), Over::untold(Outcome::Abandoned));
        }
        self.forget(&request);
    }

    /// Leaves a slow attempt for another candidate, if there is one; else waits on.
    pub(super) fn move_on(&mut self, id: RequestId, number: u32, actions: &mut Vec<Action>) {
        let Some((mut request, attempt)) = self.take_running(id, Some(number)) else {
            return;
        };
        self.refresh(&mut request);
        let may = request.plan.retry.on_timeout && request.may_go_on() && self.budget_allows(&request);
        request.tried.push(Tried::after(&attempt, Outcome::TimedOut));
        if may && let Ok(decided) = self.decide(&request, Kind::Retry { open: false }) {
            self.release((&request, &attempt), Over::untold(Outcome::TimedOut));
            request.all_refused = false;
            request.so_far = None;
            self.spend(&request);
            actions.push(Action::Abort {
                request: id,
                attempt: number,
            });
            self.dispatch(request, decided, actions);
        } else {
            request.tried.pop();
            self.requests.insert(id, request);
        }
    }

    /// Takes a request out of the table whose attempt `number` is under way.
    fn take_running(&mut self, id: RequestId, number: Option<u32>) -> Option<(Request, Attempt)> {
        let request = self.requests.get(&id)?;
        let Stage::Running(attempt) = request.stage else {
            return None;
        };
        if number.is_some_and(|number| number != request.attempts) {
            return None;
        }
        self.requests.remove(&id).map(|request| (request, attempt))
    }

    /// Gives an attempt's slot back; a removed endpoint's place is free once it is idle.
    fn release(&mut self, (request, attempt): (&Request, &Attempt), over: Over<'_>) {
        let now = self.now;
        let slot = attempt.endpoint.slot;
        let Some(endpoint) = find_mut(&mut self.endpoints, attempt.endpoint) else {
            return;
        };
        let means = &mut self.pools[endpoint.pool_at].means;
        endpoint.engine.ended(now, (&attempt.hold.load, over), means);
        let was_ejected = endpoint.ejection.is_ejected();
        endpoint.ended(now, over.outcome, attempt.hold);
        let returned = was_ejected && !endpoint.ejection.is_ejected();
        let shared = !endpoint.siblings.is_empty();
        let gone = endpoint.removed && endpoint.inflight == 0;
        if let Some(work) = request.arrival.work.as_deref() {
            self.prompt_over(attempt.endpoint, work);
        }
        self.cache_lost(attempt.endpoint, over.outcome);
        if gone {
            self.by_hand.keep(&self.endpoints[slot as usize], now);
            self.lingering.retain(|other| *other != slot);
            self.free.push(slot);
        }
        self.touched.push(slot);
        if shared {
            self.tell_siblings(attempt.endpoint, over.outcome, returned);
        }
    }

    fn budget_allows(&self, request: &Request) -> bool {
        (self.routes.get(request.plan.id.0 as usize)).is_some_and(|route| route.budget.allows(self.now))
    }

    fn spend(&mut self, request: &Request) {
        if let Some(route) = self.routes.get_mut(request.plan.id.0 as usize) {
            route.budget.spend(self.now);
        }
    }

    /// Sends the request on to the next route that it has not been to and that its cause is a reason for: of its own
    /// route's list first, then of the lists of the routes that led here, then those that it had left with something
    /// untried. Gives it back if there is none.
    pub(super) fn fall_back(
        &mut self,
        mut request: Request,
        among: Among,
        actions: &mut Vec<Action>,
    ) -> Option<Request> {
        let is_retry = request.attempts > 0;
        if request.arrival.only.is_some()
            || !request.may_go_on()
            || (is_retry && !self.budget_allows(&request))
        {
            return Some(request);
        }
        let Some(route) = self.next_fallback(&request, among) else {
            return Some(request);
        };
        if is_retry {
            self.spend(&request);
        }
        let id = request.arrival.request;
        request.stage = Stage::FallingBack;
        self.requests.insert(id, request);
        actions.push(Action::Fallback { request: id, route });
        None
    }

    fn next_fallback(&self, request: &Request, among: Among) -> Option<RouteId> {
        let named = std::iter::once(&request.plan)
            .chain(request.trail.iter().rev())
            .flat_map(|plan| &plan.fallback)
            .filter(|step| step.on.meets(request.cause))
            .filter_map(|step| self.route_names.get(&step.route).copied());
        let passed = request.passed.iter().filter(|(_, why)| why.meets(request.cause));
        let is_there = |id: &RouteId| (self.routes.get(id.0 as usize)).is_some_and(|route| !route.removed);
        named
            .chain(passed.map(|(route, _)| *route))
            // One that was left for later may be gone from the config since.
            .filter(|route| is_there(route) && !request.is_done_with(*route))
            .find(|route| among == Among::All || self.lives(*route, request))
    }

    /// Whether a candidate of `route` can take the request now.
    fn lives(&self, route: RouteId, request: &Request) -> bool {
        (self.routes.get(route.0 as usize)).is_some_and(|route| {
            select::any_live(&Query {
                tried: &request.tried,
                ..self.query(&route.plan, request)
            })
        })
    }

    /// A question about `plan` that leaves no trace.
    fn query<'a>(&'a self, plan: &'a Arc<Plan>, request: &'a Request) -> Query<'a> {
        Query {
            now: self.now,
            plan,
            shares: None,
            endpoints: &self.endpoints,
            pools: &self.pools,
            prefixes: &self.prefixes,
            under_way: &self.under_way,
            facts: request.facts(),
            protocols: request.arrival.protocols,
            only: request.arrival.only,
            tried: &[],
            kind: Kind::First,
        }
    }

    /// Nothing of the request's route is live.
    pub(super) fn unavailable(&self, request: &Request) -> Verdict {
        let soonest = select::soonest_return(&self.query(&request.plan, request));
        Verdict::Unavailable {
            retry_after: soonest.unwrap_or(UNKNOWN_RETURN),
        }
    }

    /// When to come back, where the last answer says "later" or nothing could be reached.
    fn relay_retry_after(&self, request: &Request, outcome: Outcome) -> Option<Duration> {
        let says_later = matches!(
            outcome,
            Outcome::Status {
                code: 429 | 503 | 529,
                ..
            }
        );
        if !says_later && !request.all_refused {
            return None;
        }
        select::soonest_return(&self.query(&request.plan, request))
    }

    pub(super) fn finish(&mut self, request: Request, verdict: Verdict, actions: &mut Vec<Action>) {
        self.forget(&request);
        actions.push(Action::Finish {
            request: request.arrival.request,
            verdict,
        });
    }

    fn forget(&mut self, request: &Request) {
        if let Some(route) = self.routes.get_mut(request.origin().id.0 as usize) {
            route.requests = route.requests.saturating_sub(1);
        }
    }
}

/// Which reasons for going on with another route the end of an attempt is.
fn cause(ended: &Ended) -> FallbackOn {
    let by_outcome = match ended.outcome {
        Outcome::Refused | Outcome::ConnectTimeout | Outcome::ConnectFailed => FallbackOn::UNAVAILABLE,
        Outcome::TimedOut => FallbackOn::TIMEOUT,
        Outcome::Reset | Outcome::Broken => FallbackOn::SERVER_ERROR,
        Outcome::Status { code: 429, .. } => FallbackOn::RATE_LIMIT,
        Outcome::Status { code: 529, .. } => FallbackOn::RATE_LIMIT.and(FallbackOn::SERVER_ERROR),
        Outcome::Status { code: 504, .. } => FallbackOn::TIMEOUT.and(FallbackOn::SERVER_ERROR),
        Outcome::Status { code: 500.., .. } => FallbackOn::SERVER_ERROR,
        Outcome::Status { .. } | Outcome::Complete | Outcome::Abandoned => FallbackOn::NONE,
    };
    if ended.too_long {
        by_outcome.and(FallbackOn::CONTEXT_LENGTH)
    } else {
        by_outcome
    }
}

/// Whether an outcome is one that `retry.on` names.
fn wants_retry(retry: &RetrySpec, outcome: Outcome) -> bool {
    match outcome {
        Outcome::Refused | Outcome::ConnectTimeout | Outcome::ConnectFailed => retry.on_connect,
        Outcome::Reset => retry.on_reset,
        Outcome::TimedOut => retry.on_timeout,
        Outcome::Status { code, .. } => retry.on_status.contains(&code),
        Outcome::Complete | Outcome::Broken | Outcome::Abandoned => false,
    }
}
