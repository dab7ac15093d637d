//! Choosing a candidate: filters, then the route's way of choosing. Pure: reads the fleet, writes only to the scratch
//! buffers, and says what to advance when the choice is taken; so a dry run and the real thing are one code path.

mod cached;
mod closed;
mod filter;
mod inside;
mod picker;
mod policy;
pub(crate) mod record;
pub(crate) mod shares;

pub(crate) use closed::soonest_return;
pub(crate) use filter::any_live;

use crate::action::{Unfit, Verdict};
use crate::endpoint::Endpoint;
use crate::event::Only;
use crate::explain::{Abstained, Dropped};
use crate::ids::EndpointId;
use crate::policies::{Cached, Candidates, PromptLine, Request};
use crate::pool::Pool;
use crate::prefix::{Matches, PrefixIndex};
use crate::requests::Tried;
use crate::rng::Rng;
use crate::route::Plan;
use crate::spec::{Protocols, RouteBy};
use crate::time::Time;
use shares::{Members, Shares};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// What is asked.
pub(crate) struct Query<'a> {
    pub(crate) now: Time,
    pub(crate) plan: &'a Arc<Plan>,
    /// Turns of the route; none if it has changed its shape since the request came.
    pub(crate) shares: Option<&'a Shares>,
    pub(crate) endpoints: &'a [Endpoint],
    pub(crate) pools: &'a [Pool],
    pub(crate) prefixes: &'a PrefixIndex,
    /// The same of prompts under way at engines that tell of their caches.
    pub(crate) under_way: &'a PrefixIndex,
    pub(crate) facts: Request<'a>,
    pub(crate) protocols: Protocols,
    pub(crate) only: Option<Only>,
    pub(crate) tried: &'a [Tried],
    pub(crate) kind: Kind,
}

/// Which choice of a request this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first: counts for the shares.
    First,
    /// The first on a route that another fell back to.
    Fallback,
    /// After a failure. `open`: endpoints that are not live may be tried, since nothing was at the first choice or no
    /// engine has answered the request.
    Retry {
        /// Whether it may fail open.
        open: bool,
    },
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Choice {
    /// This candidate.
    Take(Take),
    /// None.
    Refuse(Refusal),
}

/// A candidate, and what is to be advanced with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Take {
    /// Index into the plan's candidates.
    pub(crate) candidate: usize,
    pub(crate) key: u16,
    /// Prompt tokens that are believed cached there.
    pub(crate) cached: u32,
    /// Place among the live ones; none when failing open.
    pub(crate) live: Option<usize>,
    /// Place of the second best among the live ones.
    pub(crate) runner_up: Option<usize>,
    pub(crate) tie: bool,
    pub(crate) session_moved: bool,
    pub(crate) turns: Turns,
}

/// Whose turn was taken; indexes into the scratch's members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    counted: bool,
    target: Option<usize>,
    endpoint: Option<usize>,
    /// Whether the endpoint's turn was taken by weights that follow the load.
    auto: bool,
    /// (target, place inside it) of the endpoint chosen.
    last: Option<(u16, u32)>,
}

/// Why there is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// All cool or are full.
    Busy(Duration),
    /// The share of a full target, which spills to no other.
    Full(Turns),
    /// None may be tried.
    Unavailable(Duration),
    /// None speaks the client's protocol.
    Unserved,
    /// None can ever serve such a request.
    Unfit(Unfit),
    /// None is left that was not tried.
    Exhausted,
}

impl Refusal {
    /// What a request is told that ends with it.
    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::Busy(retry_after) => Verdict::Busy { retry_after },
            Self::Full(_) => Verdict::Busy {
                retry_after: UNKNOWN_RETURN,
            },
            Self::Unavailable(retry_after) => Verdict::Unavailable { retry_after },
            Self::Exhausted => Verdict::Unavailable {
                retry_after: UNKNOWN_RETURN,
            },
            Self::Unserved => Verdict::Unserved,
            Self::Unfit(unfit) => Verdict::Unfit(unfit),
        }
    }
}

/// Return of what nothing is known about.
pub(crate) const UNKNOWN_RETURN: Duration = Duration::from_secs(1);

/// Buffers of one decision, reused for the next.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Per candidate of the plan.
    pub(crate) dropped: Vec<Option<Dropped>>,
    /// Their indexes, where there are filters.
    all: Vec<usize>,
    /// Order that serves.
    pub(crate) order: u16,
    /// Indexes of the live candidates of that order.
    pub(crate) live: Vec<usize>,
    /// Per live candidate.
    pub(crate) penalties: Vec<f64>,
    pub(crate) cached: Vec<Cached>,
    /// Of one chain.
    pub(crate) matches: Matches,
    pub(crate) totals: Vec<f64>,
    /// Per live candidate, where there are modifiers.
    pub(crate) factors: Vec<f64>,
    /// Raw scores: those of the first policy that scored, then those of the second, …
    pub(crate) raw: Vec<f64>,
    pub(crate) scored: SmallVec<[Scored; 2]>,
    pub(crate) abstained: SmallVec<[(&'static str, Abstained); 2]>,
    /// Targets that may have a turn, and endpoints inside the one that has it.
    targets: Members,
    endpoints: Members,
    /// Room of a policy that ranks.
    pub(crate) ranks: Cell<Vec<u128>>,
    /// Room of one that compares what prompts take.
    pub(crate) lines: Cell<Vec<PromptLine>>,
    /// Scores that were negative or not finite, since the start.
    pub(crate) bad_scores: u64,
}

/// A policy that scored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    pub(crate) policy: usize,
    /// Of its raw scores.
    pub(crate) sum: f64,
}

impl Query<'_> {
    /// Whether the request can be served by another endpoint alone.
    pub(crate) fn is_elsewhere(&self, id: EndpointId) -> bool {
        self.only.is_some_and(|only| only.endpoint != id)
    }

    #[inline]
    pub(crate) fn endpoint(&self, id: EndpointId) -> Option<&Endpoint> {
        self.endpoints
            .get(id.slot as usize)
            .filter(|endpoint| endpoint.id.generation == id.generation)
    }

    /// The candidates at these indexes of the plan, as filters and policies see them.
    fn candidates<'a>(&'a self, live: &'a [usize]) -> Candidates<'a> {
        Candidates {
            now: self.now,
            plan: self.plan,
            live,
            endpoints: self.endpoints,
            penalties: &[],
            cached: &[],
            pools: self.pools,
            draw: 0.0,
            ranks: None,
            lines: None,
        }
    }

    /// The endpoint of a candidate that is live, so is there.
    #[inline]
    fn live_endpoint(&self, candidate: usize) -> Option<&Endpoint> {
        self.endpoint(self.plan.candidates[candidate].endpoint)
    }
}

impl Scratch {
    fn reset(&mut self) {
        self.dropped.clear();
        self.order = 0;
        self.live.clear();
        self.penalties.clear();
        self.cached.clear();
        self.totals.clear();
        self.factors.clear();
        self.raw.clear();
        self.scored.clear();
        self.abstained.clear();
        self.targets.clear();
        self.endpoints.clear();
    }
}

/// Decides.
pub(crate) fn choose(query: &Query<'_>, scratch: &mut Scratch, rng: &mut Rng) -> Choice {
    scratch.reset();
    let keeps_full = !query.plan.spill && query.kind == Kind::First;
    let outside = filter::run(query, scratch, keeps_full);
    let counted = query.kind == Kind::First && !outside;
    if scratch.live.is_empty() && !(keeps_full && filter::any_full_target(query, scratch)) {
        return closed::choose(query, scratch, rng);
    }
    if query.plan.route_by == RouteBy::Policy
        && let Some(take) = policy::choose(query, scratch, rng)
    {
        return Choice::Take(take);
    }
    inside::choose(query, scratch, (counted, keeps_full))
}

/// Takes the turns of a choice.
pub(crate) fn advance(shares: &mut Shares, scratch: &Scratch, turns: Turns) {
    if let Some(chosen) = turns.target {
        let book = shares.targets.book_mut(turns.counted);
        book.advance(&scratch.targets, chosen);
    }
    let Some((target, place)) = turns.last else {
        return;
    };
    if let Some(inside) = shares.inside.get_mut(usize::from(target)) {
        inside.last = Some(place);
        if let Some(chosen) = turns.endpoint.filter(|_| turns.auto) {
            inside.credits.advance(&scratch.endpoints, chosen);
        } else if let Some(chosen) = turns.endpoint {
            let book = inside.endpoints.book_mut(turns.counted);
            book.advance(&scratch.endpoints, chosen);
        }
    }
}
