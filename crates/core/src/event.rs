//! What the driver tells the scheduler.

use crate::ids::{EndpointId, RequestId, RouteId};
use crate::policies::session_affinity::SessionKey;
use crate::signals::{CacheChange, Reading};
use crate::spec::{FleetSpec, Protocols, Weight};
use crate::time::Time;
use crate::work::Work;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// Something that happened. Holds no prompt text, so an event log can be kept and shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The fleet is now this. State of what kept its name is kept. Answered by [`crate::Action::Configured`].
    Configure(Arc<FleetSpec>),
    /// A request wants to be served; also sent to go on after [`crate::Action::Fallback`].
    Arrive(Arrival),
    /// An attempt is over, its last byte relayed or its failure known.
    Ended(Ended),
    /// The client left or the driver gave up: no more attempts. The running attempt counts as neither success nor
    /// failure and gives its slot back.
    Withdraw(RequestId),
    /// The soft clock of this attempt ran out before its first byte: move on if an untried candidate remains.
    MoveOn {
        /// The request.
        request: RequestId,
        /// The attempt that is slow.
        attempt: u32,
    },
    /// A probe came back.
    Probed {
        /// The endpoint that was probed.
        endpoint: EndpointId,
        /// Whether it answered as expected.
        healthy: bool,
    },
    /// Newest byte that any stream of the endpoint delivered; sent now and then where `stall_after` is set, and before a
    /// probe that failed, which it outweighs.
    Progress {
        /// The endpoint.
        endpoint: EndpointId,
        /// When the byte came.
        at: Time,
    },
    /// The first token of an attempt's answer came. Told where [`crate::work::Needs::LIVE`] asks for it.
    FirstToken {
        /// The request.
        request: RequestId,
        /// The attempt.
        attempt: u32,
    },
    /// A reading of an engine's metrics came.
    Scraped {
        /// The endpoint.
        endpoint: EndpointId,
        /// What it said.
        reading: Box<Reading>,
    },
    /// The prefix cache of an engine changed, by its own events.
    Cache {
        /// The endpoint.
        endpoint: EndpointId,
        /// What happened, in order.
        changes: Vec<CacheChange>,
    },
    /// A person's command.
    Control {
        /// The endpoint it is about.
        endpoint: EndpointId,
        /// What to do.
        command: Control,
    },
    /// Nothing but time: [`crate::scheduler::Scheduler::next_deadline`] has come.
    Tick,
}

/// A request, reduced to what scheduling needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Chosen by the driver, unique.
    pub request: RequestId,
    /// The route asked for.
    pub route: RouteId,
    /// What the client speaks: candidates that do not serve it are filtered out.
    pub protocols: Protocols,
    /// Hash state of the session key, where the route's chain of keys found one.
    pub session: Option<SessionKey>,
    /// The one endpoint that can serve it, because it holds what the request is about; none: any of the route's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Only>,
    /// Whether the full explanation of this decision is wanted.
    pub explain: bool,
    /// What it asks of an engine; none: no policy of the route looks at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Arc<Work>>,
}

impl Arrival {
    /// A request of which nothing is known but its route.
    #[must_use]
    pub fn new(request: RequestId, route: RouteId) -> Self {
        Self {
            request,
            route,
            protocols: Protocols::ANY,
            session: None,
            only: None,
            explain: false,
            work: None,
        }
    }
}

/// Where alone a request can be served. No other endpoint, and no other route, is tried for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Only {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// The upstream key that it must be asked with; none: any.
    pub key: Option<u16>,
}

/// End of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// The request.
    pub request: RequestId,
    /// The attempt, as numbered by [`crate::action::Dispatch::attempt`].
    pub attempt: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether a byte of its body has reached the client, so nothing may be tried again.
    pub committed: bool,
    /// Whether the upstream said that the prompt is longer than its model takes.
    #[serde(default)]
    pub too_long: bool,
    /// What it cost, where the upstream said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
}

impl Ended {
    /// The end of an attempt of which nothing reached the client.
    #[must_use]
    pub fn new(request: RequestId, attempt: u32, outcome: Outcome) -> Self {
        Self {
            request,
            attempt,
            outcome,
            committed: false,
            too_long: false,
            spent: None,
        }
    }
}

/// Tokens of an answered request, as its upstream counted them, or as its text lets one guess where that says nothing. Told where [`crate::work::Needs::LIVE`] asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Of the prompt.
    pub prompt: u32,
    /// Of these, found in the engine's cache; none: it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached: Option<u32>,
    /// Of the answer.
    pub output: u32,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A complete 2xx.
    Complete,
    /// Any other answer.
    Status {
        /// The upstream's status (or that of an error it sent as the first event of a stream).
        code: u16,
        /// Its Retry-After, if it made sense.
        retry_after: Option<Duration>,
    },
    /// The connection was refused.
    Refused,
    /// The connection could not be made in time.
    ConnectTimeout,
    /// The connection could not be made for another reason (name, route, TLS).
    ConnectFailed,
    /// Closed or reset before any byte of an answer.
    Reset,
    /// A timeout of ours while waiting for the answer or its next part.
    TimedOut,
    /// Nonsense, a redirect, or an answer that broke off.
    Broken,
    /// Ended by us for a reason that says nothing about the endpoint.
    Abandoned,
}

/// What a person may tell an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// No new requests; running ones finish.
    Drain,
    /// Undo `Drain`.
    Resume,
    /// Override the configured weight until the time given (or for good).
    Weight {
        /// The weight to use; none: back to the configured one.
        weight: Option<Weight>,
        /// When the override ends.
        until: Option<Time>,
    },
    /// A weight that was measured: in place of the configured one, but for an override.
    Calibrated {
        /// The weight to use, above 0; none: back to the configured one.
        weight: Option<Weight>,
        /// When it ends; none: with the process.
        until: Option<Time>,
    },
}
