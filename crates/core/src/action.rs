//! What the scheduler tells the driver to do.

use crate::explain::{Decision, Explanation};
use crate::ids::{EndpointId, RequestId, RouteId};
use crate::spec::FallbackOn;
use crate::work::Abilities;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Something to do, in the order given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The ids of the fleet that was just configured.
    Configured(Bindings),
    /// Send the request to this endpoint; a slot is reserved.
    Dispatch(Box<Dispatch>),
    /// Drop this attempt at once: the request has moved on. Its slot is already given back.
    Abort {
        /// The request.
        request: RequestId,
        /// The attempt to drop.
        attempt: u32,
    },
    /// Go on with another route: send [`crate::Event::Arrive`] again with that route's facts, from the original
    /// request.
    Fallback {
        /// The request.
        request: RequestId,
        /// The next route.
        route: RouteId,
    },
    /// Nothing more will be tried: this is the request's end.
    Finish {
        /// The request.
        request: RequestId,
        /// What the client gets.
        verdict: Verdict,
    },
    /// Probe this endpoint and report [`crate::Event::Probed`].
    Probe(EndpointId),
    /// An endpoint changed state; for the log.
    Changed {
        /// The endpoint.
        endpoint: EndpointId,
        /// Its state now.
        state: crate::view::State,
    },
}

/// Ids in the order of the spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bindings {
    /// One per [`crate::spec::FleetSpec::routes`].
    pub routes: Vec<RouteId>,
    /// One per endpoint of each [`crate::spec::FleetSpec::pools`].
    pub endpoints: Vec<Vec<EndpointId>>,
}

/// An attempt to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    /// The request.
    pub request: RequestId,
    /// 1 for the first attempt of a request, counted on over retries and fallbacks.
    pub attempt: u32,
    /// Index of the target in the route's spec.
    pub target: u16,
    /// Where to send it.
    pub endpoint: EndpointId,
    /// Which of the pool's upstream keys to use.
    pub key: u16,
    /// Why, in short.
    pub decision: Decision,
    /// Why, in full: where it was asked for, or sampled.
    pub explanation: Option<Box<Explanation>>,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The last attempt was the answer, whatever it was, and whatever routes could not take the request since; pass it on. `retry_after` is the soonest return of any
    /// candidate, where the last answer asks the client to come back.
    Relay {
        /// Soonest return among the candidates.
        retry_after: Option<Duration>,
    },
    /// All candidates are cooling or full; nothing was sent. 429.
    Busy {
        /// Soonest return.
        retry_after: Duration,
    },
    /// No candidate may be tried. 503.
    Unavailable {
        /// Soonest return, 1 s where unknown.
        retry_after: Duration,
    },
    /// No target of the route speaks the client's protocol. 400.
    Unserved,
    /// No target of the route can ever serve such a request, by its filters. 400.
    Unfit(Unfit),
    /// The route was removed before the request arrived. 404.
    NoRoute,
}

/// What is missing where no target of a route can serve a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfit {
    /// Abilities that the request wants and no target has; where each has some of them, all that it wants.
    pub abilities: Abilities,
    /// Whether labels are missing.
    pub labels: bool,
}

impl Verdict {
    /// Why nothing was chosen, in a word; none: it does not say so.
    #[must_use]
    pub const fn refused(self) -> Option<&'static str> {
        match self {
            Self::Busy { .. } => Some("busy"),
            Self::Unavailable { .. } => Some("unavailable"),
            Self::Unserved => Some("unserved"),
            Self::Unfit(_) => Some("unfit"),
            Self::Relay { .. } | Self::NoRoute => None,
        }
    }

    /// The conditions under which another route is tried instead.
    #[must_use]
    pub const fn cause(self) -> FallbackOn {
        match self {
            Self::Unavailable { .. } | Self::Unfit(_) => FallbackOn::UNAVAILABLE,
            Self::Busy { .. } => FallbackOn::RATE_LIMIT,
            Self::Unserved | Self::NoRoute | Self::Relay { .. } => FallbackOn::NONE,
        }
    }

    /// How long the client is to wait, where it may come back.
    pub(crate) fn wait(self) -> Option<Duration> {
        match self {
            Self::Relay { retry_after } => retry_after,
            Self::Busy { retry_after } | Self::Unavailable { retry_after } => Some(retry_after),
            Self::Unserved | Self::Unfit(_) | Self::NoRoute => None,
        }
    }
}
