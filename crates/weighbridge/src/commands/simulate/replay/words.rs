//! Events and actions in words.

use super::names::Known;
use crate::commands::explain;
use serde_json::Value;
use std::time::Duration;
use weighbridge_config::show_duration;
use weighbridge_core::action::{Dispatch, Verdict};
use weighbridge_core::event::{Control, Outcome};
use weighbridge_core::{Action, Event, RequestId, Time};

/// A time since the gateway's start, in seconds.
pub(super) fn clock(now: Time) -> String {
    let seconds = Duration::from_nanos(now.nanos()).as_secs_f64();
    format!("{seconds:>12.6} s")
}

/// The request that an event is about.
pub(super) fn request_of(event: &Event) -> Option<RequestId> {
    match event {
        Event::Arrive(arrival) => Some(arrival.request),
        Event::Ended(ended) => Some(ended.request),
        Event::Withdraw(request) | Event::MoveOn { request, .. } | Event::FirstToken { request, .. } => {
            Some(*request)
        }
        Event::Configure(_)
        | Event::Probed { .. }
        | Event::Progress { .. }
        | Event::Control { .. }
        | Event::Scraped { .. }
        | Event::Cache { .. }
        | Event::Tick => None,
    }
}

/// The request that an action is about.
pub(super) fn request_of_action(action: &Action) -> Option<RequestId> {
    match action {
        Action::Dispatch(dispatch) => Some(dispatch.request),
        Action::Abort { request, .. } | Action::Fallback { request, .. } | Action::Finish { request, .. } => {
            Some(*request)
        }
        Action::Configured(_) | Action::Probe(_) | Action::Changed { .. } => None,
    }
}

/// What happened; none where it is nothing to tell.
pub(super) fn event(known: &Known, event: &Event) -> Option<String> {
    Some(match event {
        Event::Configure(spec) => {
            let endpoints: usize = spec.pools.iter().map(|pool| pool.endpoints.len()).sum();
            format!(
                "the fleet is configured: {} routes, {endpoints} endpoints",
                spec.routes.len()
            )
        }
        Event::Arrive(arrival) => {
            let session = if arrival.session.is_some() {
                ", with a session key"
            } else {
                ""
            };
            format!(
                "request {} arrives at route {}{session}",
                arrival.request.0,
                known.route(arrival.route)
            )
        }
        Event::Ended(ended) => {
            let committed = if ended.committed {
                ", after the client had a part of it"
            } else {
                ""
            };
            format!(
                "request {} attempt {}: {}{committed}",
                ended.request.0,
                ended.attempt,
                outcome(ended.outcome)
            )
        }
        Event::Withdraw(request) => format!("request {}: the client left", request.0),
        Event::MoveOn { request, attempt } => {
            format!(
                "request {} attempt {attempt}: no first byte within move_on_after",
                request.0
            )
        }
        Event::Probed {
            endpoint,
            healthy: false,
        } => format!("{}: a probe failed", known.endpoint(*endpoint)),
        Event::Control { endpoint, command } => {
            let command = match command {
                Control::Drain => "drain",
                Control::Resume => "resume",
                Control::Weight { .. } => "weight",
                Control::Calibrated { .. } => "take a measured weight",
            };
            format!("{}: told to {command}", known.endpoint(*endpoint))
        }
        Event::FirstToken { request, attempt } => {
            format!("request {} attempt {attempt}: first token", request.0)
        }
        Event::Probed { .. }
        | Event::Progress { .. }
        | Event::Scraped { .. }
        | Event::Cache { .. }
        | Event::Tick => return None,
    })
}

fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Complete => "complete".to_owned(),
        Outcome::Status { code, retry_after } => match retry_after {
            Some(wait) => format!("status {code}, Retry-After {}", show_duration(wait)),
            None => format!("status {code}"),
        },
        Outcome::Refused => "connection refused".to_owned(),
        Outcome::ConnectTimeout => "no connection in time".to_owned(),
        Outcome::ConnectFailed => "no connection".to_owned(),
        Outcome::Reset => "connection reset before an answer".to_owned(),
        Outcome::TimedOut => "timeout".to_owned(),
        Outcome::Broken => "a broken answer".to_owned(),
        Outcome::Abandoned => "given up for a reason that says nothing about the endpoint".to_owned(),
    }
}

/// What the scheduler decided, and why: in one line, from the shown explanation.
pub(super) fn dispatched(dispatch: &Dispatch, shown: &Value) -> String {
    let outcome = explain::shown::outcome(shown);
    let mut why: Vec<&str> = outcome.lines().collect();
    // "route r by policy: 2 of 3 candidates live", then "winner p/a: why", then what is special about it.
    let route = if why.is_empty() { "" } else { why.remove(0) };
    let why = why.join("; ").replacen("winner ", "", 1);
    let dropped: Vec<String> = (shown["dropped"].as_object().into_iter().flatten())
        .map(|(filter, count)| format!("{count} dropped by {filter}"))
        .collect();
    let dropped = if dropped.is_empty() {
        String::new()
    } else {
        format!(", {}", dropped.join(", "))
    };
    format!(
        "request {} attempt {} → {why} ({route}{dropped})",
        dispatch.request.0, dispatch.attempt
    )
}

/// What else the scheduler wants; none where it is nothing to tell.
pub(super) fn action(known: &Known, action: &Action) -> Option<String> {
    Some(match action {
        Action::Abort { request, attempt } => {
            format!("request {} attempt {attempt} is dropped: it moves on", request.0)
        }
        Action::Fallback { request, route } => format!(
            "request {} falls back to route {}",
            request.0,
            known.route(*route)
        ),
        Action::Finish { request, verdict } => {
            format!("request {} ends: {}", request.0, self::verdict(*verdict))
        }
        Action::Changed { endpoint, state } => {
            let reason = if state.reason.is_empty() {
                String::new()
            } else {
                format!(" ({})", state.reason)
            };
            format!("{} is {}{reason}", known.endpoint(*endpoint), state.kind.as_str())
        }
        Action::Probe(_) | Action::Configured(_) | Action::Dispatch(_) => return None,
    })
}

fn verdict(verdict: Verdict) -> String {
    match verdict {
        Verdict::Relay { .. } => "the client gets the last answer".to_owned(),
        Verdict::Busy { retry_after } => {
            format!(
                "429, every candidate is cooling or full; back in {}",
                show_duration(retry_after)
            )
        }
        Verdict::Unavailable { retry_after } => {
            format!(
                "503, no candidate may be tried; back in {}",
                show_duration(retry_after)
            )
        }
        Verdict::Unserved => "400, no target speaks the client's protocol".to_owned(),
        Verdict::Unfit(_) => "400, no target can ever serve such a request".to_owned(),
        Verdict::NoRoute => "404, the route was removed".to_owned(),
    }
}
