//! A request in flight: whatever happens to it, the scheduler learns that it ended, its slot is given back, and exactly
//! one record is written.

use super::headers::request_id;
use super::upload::Upload;
use super::waiting::Shared;
use crate::client::connection::Client;
use crate::clock::unix_seconds;
use crate::driver::Turn;
use crate::server::Worker;
use crate::snapshot::{RouteEntry, Snapshot, Upstream};
use crate::telemetry::decisions::Taken;
use crate::telemetry::outcome::Outcome;
use crate::telemetry::record::Record;
use crate::telemetry::trace::Trace;
use http::HeaderMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use weighbridge_core::action::Dispatch;
use weighbridge_core::event::{Arrival, Ended, Outcome as Ending, Spent};
use weighbridge_core::work::Needs;
use weighbridge_core::{Event, RequestId};
use weighbridge_store::{Home, Homes, Owner};

/// Dropped before its end, it withdraws: the client has left.
pub(crate) struct Flight {
    pub(crate) worker: Rc<Worker>,
    pub(crate) client: Rc<Client>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) record: Record,
    /// The request's body, where it is sent on while it arrives.
    pub(crate) upload: Option<Upload>,
    /// Number of the upstream key of the newest attempt.
    upstream_key: u16,
    id: RequestId,
    /// The attempt that runs.
    attempt: Option<u32>,
    /// Attempts made before the request came to its route.
    attempts_elsewhere: u32,
    /// Whether the scheduler waits to hear of the request.
    known: bool,
    finished: bool,
    /// Whether the client asked for the decision's explanation.
    explain: bool,
    /// Where it did: what of the request counts for nothing.
    pub(crate) notes: Option<Arc<[String]>>,
    /// What is shared with the stream's wait, where there is one.
    shared: Option<Rc<Shared>>,
    /// Streams: time without a byte after which the client is sent a sign of life.
    pub(crate) heartbeat: Option<Duration>,
    /// Whether the head went ahead of the answer, so that whatever comes must be events under it.
    pub(crate) head_sent: bool,
    /// Whether the answer is read to its end when the client leaves.
    pub(crate) reads_on: bool,
    /// Whether it has left.
    left: bool,
}

impl Flight {
    /// Begins with the head of a request.
    pub(crate) fn begin(worker: &Rc<Worker>, client: &Rc<Client>, headers: &HeaderMap) -> Self {
        worker.gateway.lifecycle.started();
        Self {
            worker: worker.clone(),
            client: client.clone(),
            snapshot: worker.gateway.snapshot_full(),
            record: Record::new(request_id(headers), Trace::of(headers)),
            upload: None,
            upstream_key: 0,
            id: worker.gateway.next_request(),
            attempt: None,
            attempts_elsewhere: 0,
            known: false,
            finished: false,
            explain: false,
            notes: None,
            shared: None,
            heartbeat: None,
            head_sent: false,
            reads_on: false,
            left: false,
        }
    }

    /// Notes what the request shares with whoever waits for it.
    pub(crate) fn await_with(&mut self, shared: &Rc<Shared>, heartbeat: Option<Duration>) {
        self.shared = Some(shared.clone());
        self.heartbeat = heartbeat;
    }

    /// When the client must hear something, if it has heard nothing yet.
    pub(crate) fn beat_due(&self) -> Option<Instant> {
        let every = self.heartbeat.filter(|_| !self.head_sent)?;
        self.record.received.checked_add(every)
    }

    /// Sends `head` ahead of the answer.
    pub(crate) fn send_ahead(&mut self, head: HeaderMap) {
        if let Some(shared) = &self.shared {
            self.head_sent = true;
            shared.send_ahead(head);
        }
    }

    /// The client leaves, and the request goes on for nobody.
    pub(crate) fn leave(&mut self) {
        self.left = true;
    }

    /// Whether the client has left.
    pub(crate) fn has_left(&self) -> bool {
        self.left || self.shared.as_ref().is_some_and(|shared| shared.has_left())
    }

    /// The request's number at the scheduler.
    pub(crate) fn id(&self) -> RequestId {
        self.id
    }

    fn advance(&mut self, event: Event) -> Turn {
        let began = Instant::now();
        let turn = self.worker.gateway.advance(self.id, event);
        self.record.decision_time += began.elapsed();
        if matches!(turn, Turn::Finish(_)) {
            self.known = false;
        }
        if let Turn::Dispatch(dispatch) = &turn {
            self.dispatched(dispatch);
        }
        turn
    }

    /// Arrives at a route.
    pub(crate) fn arrive(&mut self, arrival: Arrival) -> Turn {
        self.known = true;
        self.explain = arrival.explain;
        self.attempts_elsewhere = self.record.attempts;
        self.advance(Event::Arrive(arrival))
    }

    /// The running attempt has ended; what next?
    pub(crate) fn ended(&mut self, outcome: Ending, committed: bool) -> Turn {
        self.end_attempt(outcome, (committed, false))
    }

    /// The running attempt has failed before anything of it reached the client; what next? `too_long`: the upstream said
    /// that the prompt is.
    pub(crate) fn failed(&mut self, outcome: Ending, too_long: bool) -> Turn {
        self.end_attempt(outcome, (false, too_long))
    }

    fn end_attempt(&mut self, outcome: Ending, (committed, too_long): (bool, bool)) -> Turn {
        let Some(attempt) = self.attempt.take() else {
            return Turn::Nothing;
        };
        self.count_attempt(outcome_word(outcome, committed));
        self.advance(Event::Ended(Ended {
            request: self.id,
            attempt,
            outcome,
            // Nobody waits for another attempt.
            committed: committed || self.has_left(),
            too_long,
            spent: self.spent(outcome),
        }))
    }

    /// What the running attempt cost, where the route wants to know. Of an answer that broke off nobody can learn what the
    /// whole one takes.
    fn spent(&self, outcome: Ending) -> Option<Spent> {
        if !self.is_watched() || outcome != Ending::Complete {
            return None;
        }
        let usage = self.record.usage?;
        let whole = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        Some(Spent {
            prompt: whole(usage.prompt_tokens),
            cached: usage.cached_tokens.map(whole),
            output: whole(usage.completion_tokens),
        })
    }

    /// Whether policies learn from what its attempts do.
    fn is_watched(&self) -> bool {
        (self.record.route.as_ref()).is_some_and(|route| route.needs.meets(Needs::LIVE))
    }

    /// The first token of the running attempt came.
    pub(crate) fn first_token(&self) {
        if let Some(attempt) = self.attempt.filter(|_| self.is_watched()) {
            self.worker.gateway.tell(Event::FirstToken {
                request: self.id,
                attempt,
            });
        }
    }

    /// The soft clock of the running attempt ran out.
    pub(crate) fn move_on(&mut self) -> Turn {
        let Some(attempt) = self.attempt else {
            return Turn::Nothing;
        };
        let (target, upstream) = (self.record.target, self.record.upstream.clone());
        let turn = self.advance(Event::MoveOn {
            request: self.id,
            attempt,
        });
        if let (Turn::Dispatch(_), Some(upstream)) = (&turn, &upstream) {
            tracing::debug!(?target, endpoint = %upstream.name, "moved on from a slow endpoint");
            upstream.attempts.ended(Outcome::Timeout);
        }
        turn
    }

    /// The upstream of `dispatch`, by the snapshot that the request started with, or as it is known now where the fleet
    /// has changed in between.
    fn upstream(&self, dispatch: &Dispatch) -> Option<Arc<Upstream>> {
        let known = self.snapshot.upstream(dispatch.endpoint).cloned();
        known.or_else(|| self.worker.gateway.upstream(dispatch.endpoint))
    }

    fn dispatched(&mut self, dispatch: &Dispatch) {
        self.attempt = Some(dispatch.attempt);
        self.record.attempts = dispatch.attempt;
        self.upstream_key = dispatch.key;
        self.record.target = Some(dispatch.target);
        self.record.upstream = self.upstream(dispatch);
        if self.explain {
            self.record.explanation.clone_from(&dispatch.explanation);
        }
        let (Some(route), Some(upstream)) = (&self.record.route, &self.record.upstream) else {
            return;
        };
        let metrics = self.worker.gateway.metrics();
        for (policy, reason) in &dispatch.decision.abstained {
            metrics.abstained(policy, reason.as_str());
        }
        if dispatch.decision.session_moved {
            metrics.session_moved();
        }
        if dispatch.attempt > self.attempts_elsewhere + 1 {
            metrics.retried(&route.name);
        }
        let target = route.targets.get(usize::from(dispatch.target));
        self.worker.gateway.decisions.push(
            &route.name,
            Taken {
                request_id: self.record.request_id.clone(),
                time: SystemTime::now(),
                attempt: dispatch.attempt,
                target: target.map(|target| target.name.clone()),
                endpoint: Some(upstream.name.clone()),
                refused: None,
                notes: self.notes.clone(),
                behind: route.behind,
                decision: dispatch.decision.clone(),
                explanation: dispatch.explanation.as_deref().cloned().map(Arc::new),
            },
        );
    }

    /// Whether the request is still arriving.
    pub(crate) fn is_arriving(&self) -> bool {
        self.upload.as_ref().is_some_and(|upload| !upload.is_complete())
    }

    /// Whose the responses are that this request makes, and may ask for.
    pub(crate) fn owner(&self) -> Option<Owner> {
        self.record.key.as_deref().map(Owner::of)
    }

    /// Notes that the endpoint of the running attempt holds the response `id`.
    pub(crate) fn remember(&self, id: &str) {
        let (Some(route), Some(upstream)) = (&self.record.route, &self.record.upstream) else {
            return;
        };
        let home = Home {
            route: route.name.clone(),
            pool: upstream.pool_name().clone(),
            endpoint: upstream.name.clone(),
            upstream_key: self.upstream_key,
            owner: self.owner(),
        };
        self.worker.gateway.homes.put(id, home, unix_seconds());
    }

    /// Notes among the decisions that `route` had nothing to choose for `arrival`.
    pub(crate) fn refused(&self, route: &RouteEntry, arrival: &Arrival, why: &'static str) {
        let gateway = &self.worker.gateway;
        let Some(explanation) = gateway.explain(arrival) else {
            return;
        };
        gateway.decisions.push(
            &route.name,
            Taken {
                request_id: self.record.request_id.clone(),
                time: SystemTime::now(),
                attempt: self.record.attempts,
                target: None,
                endpoint: None,
                refused: Some(why),
                notes: self.notes.clone(),
                behind: route.behind,
                decision: explanation.decision.clone(),
                explanation: Some(Arc::new(explanation)),
            },
        );
    }

    fn count_attempt(&self, outcome: Outcome) {
        if let Some(upstream) = &self.record.upstream {
            upstream.attempts.ended(outcome);
        }
    }

    /// Notes that the stream of the running attempt moved.
    pub(crate) fn progressed(&self, at: Instant) {
        if let Some(upstream) = &self.record.upstream {
            let at = self.worker.gateway.clock.at(at).nanos();
            upstream.last_byte.store(at, std::sync::atomic::Ordering::Relaxed);
        }
    }

    /// The request is over; writes its record. `status` is what the client got.
    pub(crate) fn finish(&mut self, outcome: Outcome, status: u16) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        if self.attempt.take().is_some() {
            self.count_attempt(outcome);
        }
        if let Some(upload) = &self.upload {
            self.record.stream |= upload.stream();
            upload.abandon();
        }
        if std::mem::take(&mut self.known) {
            self.worker.gateway.tell(Event::Withdraw(self.id));
        }
        let (outcome, status) = if self.has_left() {
            (Outcome::ClientClosed, 499)
        } else {
            (outcome, status)
        };
        let gateway = &self.worker.gateway;
        self.record
            .finish((&gateway.sink, &self.snapshot.config.log), outcome, status);
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.finish(Outcome::ClientClosed, 499);
        if self.has_left() {
            // Its connection has ended without it.
            self.worker.gateway.lifecycle.ended();
        } else {
            // Runs until the connection has written it: it tells the lifecycle then.
            self.client.answered(&self.worker.gateway.lifecycle);
        }
    }
}

/// The word for how an attempt ended.
pub(crate) fn outcome_word(outcome: Ending, committed: bool) -> Outcome {
    match outcome {
        Ending::Complete => Outcome::Ok,
        Ending::Status { code, .. } => Outcome::of_upstream_status(code),
        Ending::Refused | Ending::ConnectTimeout | Ending::ConnectFailed => Outcome::ConnectError,
        Ending::TimedOut => Outcome::Timeout,
        Ending::Reset | Ending::Broken if committed => Outcome::UpstreamStreamError,
        Ending::Reset | Ending::Broken => Outcome::UpstreamError,
        Ending::Abandoned => Outcome::ClientClosed,
    }
}
