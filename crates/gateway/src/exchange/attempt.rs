//! One attempt at one endpoint: connect or reuse, send, wait for what decides whether it is the answer.

use super::plan::Plan;
use super::respond;
use super::run::Run;
use super::upload::UploadFault;
use crate::driver::Turn;
use crate::lifecycle::Phase;
use crate::snapshot::Upstream;
use crate::upstream::connect::ConnectError;
use crate::upstream::link::{Incoming, Link};
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};
use weighbridge_core::action::Dispatch;
use weighbridge_core::event::Outcome as Ending;
use weighbridge_wire::{InBandError, StreamObserver, Timeout, UnaskedUsage, is_too_long};

/// How an attempt went.
pub(crate) enum Attempted {
    /// This is the answer.
    Answered(Box<Answer>),
    /// It failed before anything reached the client.
    Failed(Failure),
    /// It was slow, and the scheduler chose another endpoint.
    MovedOn(Box<Dispatch>),
    /// The gateway's own end came first.
    Cut,
    /// The request did not arrive whole.
    NotArrived(UploadFault),
}

/// A 2xx that has begun.
pub(crate) struct Answer {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) status: http::StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) rest: Rest,
}

/// What follows the head.
pub(crate) enum Rest {
    /// All of it, read to its end.
    Whole(Bytes),
    /// A stream of events whose first bytes are here.
    Events {
        first: Bytes,
        link: Link,
        body: Incoming,
        observer: Box<StreamObserver>,
        /// Takes out what the client did not ask for.
        unasked: Option<UnaskedUsage>,
        deadlines: Deadlines,
    },
    /// A large answer whose first bytes are here.
    Pieces {
        first: Bytes,
        link: Link,
        body: Incoming,
        deadlines: Deadlines,
    },
}

/// The clocks of an attempt.
#[derive(Clone, Copy)]
pub(crate) struct Deadlines {
    /// When the attempt began.
    pub(crate) began: Instant,
    /// Until the first event of a stream, or the end of an answer in one piece.
    pub(crate) first: Instant,
    /// Which clock `first` is.
    pub(crate) first_name: Timeout,
}

impl Answer {
    /// With the clocks as they stand now: those of a request that arrived meanwhile began later than its attempt.
    fn under(mut self: Box<Self>, now: Deadlines) -> Box<Self> {
        match &mut self.rest {
            Rest::Whole(_) => {}
            Rest::Events { deadlines, .. } | Rest::Pieces { deadlines, .. } => *deadlines = now,
        }
        self
    }
}

/// A failure before anything reached the client.
pub(crate) enum Failure {
    /// No connection.
    Connect(ConnectError),
    /// It closed or reset without an answer.
    Reset(String),
    /// A clock ran out.
    TimedOut(Timeout),
    /// What came was no answer.
    Broken(String),
    /// An answer that says no.
    Said {
        upstream: Arc<Upstream>,
        status: u16,
        headers: Box<HeaderMap>,
        body: Bytes,
        retry_after: Option<Duration>,
    },
    /// An error in the place of the answer, under a status that said yes.
    InBand {
        upstream: Arc<Upstream>,
        status: u16,
        error: InBandError,
    },
}

impl Failure {
    /// What the scheduler is told.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Connect(ConnectError::Refused) => Ending::Refused,
            Self::Connect(ConnectError::Timeout) => Ending::ConnectTimeout,
            Self::Connect(ConnectError::Other(_)) => Ending::ConnectFailed,
            Self::Reset(_) => Ending::Reset,
            Self::TimedOut(_) => Ending::TimedOut,
            Self::Broken(_) => Ending::Broken,
            Self::Said {
                status, retry_after, ..
            } => Ending::Status {
                code: *status,
                retry_after: *retry_after,
            },
            Self::InBand { status, .. } => Ending::Status {
                code: *status,
                retry_after: None,
            },
        }
    }

    /// Whether the upstream said that the prompt is longer than its model takes.
    pub(crate) fn is_too_long(&self) -> bool {
        match self {
            Self::Said {
                status,
                headers,
                body,
                ..
            } => {
                let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
                is_too_long(*status, content_type, body)
            }
            Self::InBand { error, .. } => error.is_too_long(),
            _ => false,
        }
    }

    /// For the request's log line: no address, no secret, no text of the upstream.
    pub(crate) fn for_log(&self) -> String {
        match self {
            Self::Connect(ConnectError::Refused) => "connection refused".into(),
            Self::Connect(ConnectError::Timeout) => "no connection in time".into(),
            Self::Connect(ConnectError::Other(why)) => why.clone(),
            Self::Reset(why) | Self::Broken(why) => why.clone(),
            Self::TimedOut(which) => format!("{} ran out", which.name()),
            Self::Said { status, .. } => format!("upstream said {status}"),
            Self::InBand { status, .. } => format!("upstream said {status} inside an answer"),
        }
    }
}

/// Makes the attempt that `dispatch` asks for.
pub(crate) async fn attempt(run: &mut Run, dispatch: Dispatch) -> Attempted {
    let Some(upstream) = run.flight.record.upstream.clone() else {
        return Attempted::Failed(Failure::Connect(ConnectError::Other(
            "the endpoint was removed".into(),
        )));
    };
    let worker = run.flight.worker.clone();
    let plan = match Plan::new(run, &upstream, dispatch.key) {
        Ok(plan) => plan,
        Err(failure) => return Attempted::Failed(failure),
    };
    let mut deadlines = plan.deadlines;
    let mut arrives = run.flight.is_arriving();
    let mut soft_clock = soft_clock(run, deadlines.began);
    run.flight
        .record
        .dispatched
        .get_or_insert_with(|| deadlines.began.into_std());
    let mut trying = pin!(plan.carry_out());
    // One clock for both: it rings for the client's sign of life first, where that comes first.
    let beat = run.flight.beat_due().map(Instant::from_std);
    let mut clock = pin!(sleep_until(
        beat.map_or(deadlines.first, |beat| beat.min(deadlines.first))
    ));
    loop {
        let ended = poll_fn(|cx| {
            if arrives {
                match poll_arrival(run, &mut deadlines, cx) {
                    Ok(more) => arrives = more,
                    Err(fault) => return Poll::Ready(Ended::NotArrived(fault)),
                }
                clock.as_mut().reset(deadlines.first);
            }
            if let Poll::Ready(tried) = trying.as_mut().poll(cx) {
                return Poll::Ready(Ended::Tried(tried.map(Box::new)));
            }
            if worker.gateway.lifecycle.phase() == Phase::Cutting {
                return Poll::Ready(Ended::Cut);
            }
            // The timer of a task that is busy does not ring, and an upstream can keep one busy with nothing.
            let rings = clock.as_mut().poll(cx).is_ready();
            if Instant::now() >= deadlines.first {
                return Poll::Ready(Ended::Clock);
            }
            if rings {
                return Poll::Ready(Ended::Beat);
            }
            match &mut soft_clock {
                Some(soft) => soft.as_mut().poll(cx).map(|()| Ended::SoftClock),
                None => Poll::Pending,
            }
        });
        match ended.await {
            Ended::Tried(Ok(answer)) => return Attempted::Answered(answer.under(deadlines)),
            Ended::NotArrived(fault) => return Attempted::NotArrived(fault),
            Ended::Tried(Err(failure)) => return Attempted::Failed(failure),
            Ended::Cut => return Attempted::Cut,
            Ended::Clock => return Attempted::Failed(Failure::TimedOut(deadlines.first_name)),
            Ended::Beat => {
                respond::send_ahead(run);
                clock.as_mut().reset(deadlines.first);
            }
            Ended::SoftClock => {
                soft_clock = None;
                if let Turn::Dispatch(next) = run.flight.move_on() {
                    return Attempted::MovedOn(next);
                }
            }
        }
    }
}

/// Takes what has come of a request that still arrives, and sets its first clock: it runs from when the upstream last took
/// something of it, and stands while it is the client that is waited for, who has a clock of its own. False once all has
/// come.
fn poll_arrival(run: &mut Run, deadlines: &mut Deadlines, cx: &Context<'_>) -> Result<bool, UploadFault> {
    let flight = &mut run.flight;
    let (Some(upload), Some(upstream)) = (&flight.upload, &flight.record.upstream) else {
        return Ok(false);
    };
    if let Some(fault) = upload.drive(cx, false) {
        return Err(fault);
    }
    let timeouts = upstream.pool.config.timeouts;
    let (patience, name) = if upload.stream() {
        (timeouts.first_byte, Timeout::FirstByte)
    } else {
        (timeouts.total, Timeout::Total)
    };
    deadlines.first = upload.due(patience).unwrap_or_else(|| Instant::now() + patience);
    deadlines.first_name = name;
    let complete = upload.is_complete();
    if complete {
        flight.client.exchange.received();
        flight.record.received = std::time::Instant::now();
    }
    Ok(!complete)
}

/// When a stream moves on from an endpoint that has not begun it, if its route wants that.
fn soft_clock(run: &Run, began: Instant) -> Option<Pin<Box<Sleep>>> {
    let route = run.flight.record.route.as_ref()?;
    let after = route.retry.move_on_after.filter(|_| run.intake.peek.stream)?;
    Some(Box::pin(sleep_until(began + after)))
}

/// What ends the wait for an attempt.
enum Ended {
    Tried(Result<Box<Answer>, Failure>),
    Clock,
    Beat,
    SoftClock,
    Cut,
    NotArrived(UploadFault),
}
