//! Requests between arrival and end.

use crate::action::Verdict;
use crate::endpoint::Hold;
use crate::event::{Arrival, Outcome};
use crate::ids::{EndpointId, RequestId, RouteId};
use crate::policies::Request as Facts;
use crate::route::Plan;
use crate::spec::FallbackOn;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// All requests, by id. Never iterated: only looked up.
pub(crate) type Requests = HashMap<RequestId, Request, BuildHasherDefault<IdHasher>>;

/// One request.
pub(crate) struct Request {
    pub(crate) arrival: Arrival,
    /// The route as it was when the request came to it: a reload does not disturb it.
    pub(crate) plan: Arc<Plan>,
    /// Routes that fell back to this one, the first one first.
    pub(crate) trail: SmallVec<[Arc<Plan>; 1]>,
    /// Of those, the ones that were left with something untried, because it was not live, and why each was left.
    pub(crate) passed: SmallVec<[(RouteId, FallbackOn); 1]>,
    /// Attempts so far, over all routes.
    pub(crate) attempts: u32,
    /// Where it has been.
    pub(crate) tried: SmallVec<[Tried; 3]>,
    pub(crate) stage: Stage,
    /// Whether nothing was live when it came to this route.
    pub(crate) failed_open: bool,
    /// Whether all attempts on this route failed to connect.
    pub(crate) all_refused: bool,
    /// What it ends with if no other route takes it: its last attempt, or why none was made.
    pub(crate) so_far: Option<Verdict>,
    /// The newest reason for going on with another route.
    pub(crate) cause: FallbackOn,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage {
    /// The end of its attempt.
    Running(Attempt),
    /// Its arrival at the route that it was told to fall back to.
    FallingBack,
}

/// The attempt under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) endpoint: EndpointId,
    pub(crate) hold: Hold,
}

/// What must not be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tried {
    pub(crate) endpoint: EndpointId,
    /// None: whatever the key.
    pub(crate) key: Option<u16>,
}

impl Tried {
    /// Another key helps only where the endpoint answered.
    pub(crate) fn after(attempt: &Attempt, outcome: Outcome) -> Self {
        let answered = matches!(outcome, Outcome::Status { .. });
        Self {
            endpoint: attempt.endpoint,
            key: answered.then_some(attempt.hold.key),
        }
    }
}

impl Request {
    /// What policies see of it.
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts {
            session: self.arrival.session,
            work: self.arrival.work.as_deref(),
        }
    }

    /// Route that the client asked for.
    pub(crate) fn origin(&self) -> &Arc<Plan> {
        self.trail.first().unwrap_or(&self.plan)
    }

    /// Whether the request may make one more attempt.
    pub(crate) fn may_go_on(&self) -> bool {
        self.attempts < self.origin().retry.max_attempts
    }

    /// Whether it is on this route, or has been and need not come back.
    pub(crate) fn is_done_with(&self, route: RouteId) -> bool {
        let visited = self.trail.iter().any(|plan| plan.id == route);
        self.plan.id == route || (visited && !self.passed.iter().any(|(passed, _)| *passed == route))
    }

    /// Notes that a route cannot take it, and why. That says nothing of the attempts it had, which the client hears of;
    /// where it had none, it hears of the route that is back soonest, the earlier one among equals.
    pub(crate) fn refused(&mut self, why: Verdict) -> Verdict {
        let told = match (self.so_far, why) {
            (None, why) => why,
            (Some(relay @ Verdict::Relay { .. }), _) => relay,
            (Some(before), why) => match (before.wait(), why.wait()) {
                (Some(one), Some(other)) if other < one => why,
                (None, Some(_)) => why,
                _ => before,
            },
        };
        self.so_far = Some(told);
        told
    }

    /// Notes that the route is left with something untried; once, so that no two routes can send it to and fro for ever.
    pub(crate) fn pass(&mut self) {
        if !self.trail.iter().any(|plan| plan.id == self.plan.id) {
            self.passed.push((self.plan.id, self.cause));
        }
    }

    /// Notes that it is not left after all, or come back to.
    pub(crate) fn unpass(&mut self) {
        self.passed.retain(|(route, _)| *route != self.plan.id);
    }
}

/// Multiplies by a large odd number: ids are counted up by the driver, so that is all that spreads them. Not for keys
/// that a stranger can choose.
#[derive(Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
}
