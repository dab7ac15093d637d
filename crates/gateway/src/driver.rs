//! Drives the scheduler with real time: turns its actions into work and keeps its deadlines.

use crate::gateway::Gateway;
use crate::snapshot::Upstream;
use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::action::{Dispatch, Verdict};
use weighbridge_core::{Action, Event, RequestId, RouteId, Time};

/// Longest sleep between two looks at the scheduler's deadline: bounds how late a deadline that moved closer is met.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// What the scheduler wants of the request that an event was about.
pub(crate) enum Turn {
    /// Make this attempt.
    Dispatch(Box<Dispatch>),
    /// Arrive again at this route.
    Fallback(RouteId),
    /// The end.
    Finish(Verdict),
    /// Nothing new.
    Nothing,
}

impl Gateway {
    /// Tells the scheduler about `request` and gives what it wants of it; what it wants otherwise is done at once.
    pub(crate) fn advance(&self, request: RequestId, event: Event) -> Turn {
        thread_local! {
            static ACTIONS: RefCell<Vec<Action>> = const { RefCell::new(Vec::new()) };
        }
        ACTIONS.with_borrow_mut(|actions| {
            self.step(event, actions);
            let mut turn = Turn::Nothing;
            for action in actions.drain(..) {
                match action {
                    Action::Dispatch(dispatch) if dispatch.request == request => {
                        turn = Turn::Dispatch(dispatch)
                    }
                    Action::Fallback { request: of, route } if of == request => turn = Turn::Fallback(route),
                    Action::Finish { request: of, verdict } if of == request => turn = Turn::Finish(verdict),
                    other => self.perform(other),
                }
            }
            turn
        })
    }

    /// Does what is about no request in particular.
    pub(crate) fn perform(&self, action: Action) {
        match action {
            Action::Probe(endpoint) => {
                // The receiver lives as long as the probing thread; at shutdown a probe more or less is nothing.
                let _ = self.probes.send(endpoint);
            }
            Action::Changed { endpoint, state } => {
                if let Some(upstream) = self.upstream(endpoint) {
                    tracing::info!(
                        pool = %upstream.pool_name(), endpoint = %upstream.name,
                        state = state.kind.as_str(), reason = %state.reason, "endpoint changed state"
                    );
                }
            }
            // An attempt is aborted by the request that moved on, which dropped it before it asked.
            Action::Abort { .. } | Action::Configured(_) => {}
            Action::Dispatch(_) | Action::Fallback { .. } | Action::Finish { .. } => {
                tracing::error!("an action about a request that did not ask: a fault of the gateway");
            }
        }
    }

    /// Tells the scheduler something that is about no request.
    pub(crate) fn tell(&self, event: Event) {
        let mut actions = Vec::new();
        self.step(event, &mut actions);
        actions.into_iter().for_each(|action| self.perform(action));
    }
}

/// Wakes the scheduler at its deadlines, passes on the streams' progress and samples the balance, for ever.
pub(crate) async fn keep_time(gateway: Arc<Gateway>) {
    const SAMPLE: Duration = Duration::from_secs(5);
    let mut sampled = gateway.clock.now();
    loop {
        let now = gateway.clock.now();
        let sleep = gateway
            .next_deadline()
            .map_or(LONGEST_SLEEP, |deadline| deadline.since(now).min(LONGEST_SLEEP));
        tokio::time::sleep(sleep.max(Duration::from_millis(1))).await;
        let now = gateway.clock.now();
        report_progress(&gateway);
        if gateway.next_deadline().is_some_and(|deadline| deadline <= now) {
            gateway.tell(Event::Tick);
        }
        if now.since(sampled) >= SAMPLE {
            sampled = now;
            let view = gateway.view();
            gateway.balance.sample(&view);
            gateway.forget_gone(&view);
        }
    }
}

/// Passes on when each endpoint's streams last moved, where stalling is watched for.
fn report_progress(gateway: &Gateway) {
    let snapshot = gateway.snapshot_full();
    let watched = |pool: &weighbridge_core::spec::PoolSpec| pool.stall_after.is_some();
    if !snapshot.config.fleet.pools.iter().any(watched) {
        return;
    }
    for upstream in snapshot.upstreams() {
        report(gateway, upstream);
    }
}

/// Passes on when this endpoint's streams last moved, if they did since it was last told.
pub(crate) fn report(gateway: &Gateway, upstream: &Upstream) {
    let at = upstream.last_byte.swap(0, std::sync::atomic::Ordering::Relaxed);
    if at > 0 {
        let at = Time::from_origin(Duration::from_nanos(at));
        gateway.tell(Event::Progress {
            endpoint: upstream.id,
            at,
        });
    }
}

/// Records every event of the scheduler with the actions it led to, so that an incident can be replayed.
///
/// One JSON line each: `{"now": ns, "event": …, "actions": […]}`; the first holds the fleet. Bounded: once `most` bytes
/// are written it says so in a last line and stops, since a log without its beginning cannot be replayed.
pub struct EventLog {
    out: std::io::BufWriter<Box<dyn Write + Send>>,
    left: u64,
}

impl EventLog {
    /// Records to `out`, at most `most` bytes.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, most: u64) -> Self {
        Self {
            out: std::io::BufWriter::new(out),
            left: most,
        }
    }

    pub(crate) fn record(&mut self, now: Time, event: &Event, actions: &[Action]) {
        #[derive(serde::Serialize)]
        struct Line<'a> {
            now: Time,
            event: &'a Event,
            actions: &'a [Action],
        }
        if self.left == 0 {
            return;
        }
        let Ok(mut line) = serde_json::to_vec(&Line { now, event, actions }) else {
            return;
        };
        line.push(b'\n');
        match self.left.checked_sub(line.len() as u64) {
            Some(left) => self.left = left,
            None => {
                self.left = 0;
                line = b"{\"full\":true}\n".to_vec();
                tracing::warn!("the event log is full and stops here");
            }
        }
        if let Err(error) = self.out.write_all(&line) {
            self.left = 0;
            tracing::warn!(%error, "the event log cannot be written and stops here");
        }
    }

    pub(crate) fn flush(&mut self) {
        let _ = self.out.flush();
    }
}
