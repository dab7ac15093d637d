//! Attempts: sent to an engine, heard of, and at an end; and what the routers make of that.

use super::routers::{Replica, Router};
use super::run::{Due, Flight, Loop, PROBE_TAKES};
use super::slots::Refused;
use super::{DriveError, Seen};
use crate::engine;
use crate::outcome::{Fate, Record};
use smallvec::SmallVec;
use std::time::Duration;
use weighbridge_core::action::{Dispatch, Verdict};
use weighbridge_core::event::{Ended, Outcome, Spent};
use weighbridge_core::work::Needs;
use weighbridge_core::{Action, Event, RequestId, RouteId};

impl Loop<'_> {
    /// A client sends a request.
    pub(super) fn arrive(&mut self, index: u32) -> Result<(), DriveError> {
        self.arrived[index as usize] = self.now;
        let number = index as usize % self.routers.len();
        if let Router::Scheduler(replica) = &self.routers[number] {
            let request = (index, &self.workload.requests[index as usize]);
            let event = replica.arrival(request, self.workload, None);
            return self.tell(number, event);
        }
        self.place(number, index)
    }

    /// Has a yardstick place a request.
    fn place(&mut self, number: usize, index: u32) -> Result<(), DriveError> {
        let request = &self.workload.requests[index as usize];
        let Router::Baseline { baseline, inflight } = &mut self.routers[number] else {
            return Ok(());
        };
        let pools = self.spec.routes[self.route]
            .targets
            .iter()
            .map(|target| target.pool);
        let all = pools.flat_map(|pool| self.places.get(pool).into_iter().flatten());
        inflight.resize(self.slots.slots.len(), 0);
        let candidates: Vec<Seen<'_>> = all
            .filter(|place| self.slots.slots[**place].up)
            .map(|place| self.slots.seen(*place, inflight[*place]))
            .collect();
        self.decisions += 1;
        if candidates.is_empty() {
            return self.end(index, Fate::Unavailable);
        }
        let chosen = baseline.choose(self.now, (index as usize, request), &candidates);
        let Some(place) = candidates.get(chosen).map(|seen| seen.endpoint) else {
            return Err(self.broken(format!(
                "the baseline chose candidate {chosen} of {}",
                candidates.len()
            )));
        };
        inflight[place] += 1;
        match self.send(index, (number, place, 1)) {
            Ok(()) => Ok(()),
            Err(refused) => {
                let (outcome, too_long) = told(&refused);
                self.settle(index, outcome, too_long)
            }
        }
    }

    /// Sends an attempt to its engine.
    fn send(&mut self, index: u32, (replica, place, attempt): (usize, usize, u32)) -> Result<(), Refused> {
        self.attempts += 1;
        self.flights[index as usize] = Some(Flight {
            replica,
            place,
            attempt,
            sent: self.now,
            first: None,
        });
        let request = &self.workload.requests[index as usize];
        self.slots.submit((place, index), request, self.now)?;
        let first_byte = self.slots.slots[place].spec.first_byte;
        let move_on = self.spec.routes[self.route].retry.move_on_after;
        for (after, gives_up) in [(move_on, false), (first_byte, true)] {
            if let Some(after) = after {
                let clock = Due::Clock {
                    index,
                    attempt,
                    gives_up,
                };
                self.plan(self.now.saturating_add(after), clock);
            }
        }
        Ok(())
    }

    /// A clock of an attempt has run out, which matters as long as nothing has come.
    pub(super) fn rings(&mut self, (index, attempt): (u32, u32), gives_up: bool) -> Result<(), DriveError> {
        let waits = |flight: &Flight| flight.attempt == attempt && flight.first.is_none();
        let Some(flight) = self.flights[index as usize].filter(waits) else {
            return Ok(());
        };
        if gives_up {
            self.slots.cancel((flight.place, index), self.now);
            return self.settle(index, Outcome::TimedOut, false);
        }
        let request = RequestId(u64::from(index));
        self.tell(flight.replica, Event::MoveOn { request, attempt })
    }

    /// Takes in what the engines have done up to now.
    pub(super) fn hear(&mut self) -> Result<(), DriveError> {
        let mut touched = SmallVec::<[usize; 8]>::new();
        while let Some((place, event)) = self.slots.hear(self.now) {
            touched.push(place);
            let index = u32::try_from(event.id.0).unwrap_or(u32::MAX);
            // What was given up in this same moment belongs to nobody.
            let mine = self.flights[index as usize].is_some_and(|flight| flight.place == place);
            match event.kind {
                engine::EventKind::FirstToken {
                    cached_tokens,
                    scheduled,
                } if mine => {
                    self.began(index, (event.at, scheduled, cached_tokens))?;
                }
                engine::EventKind::Finished => {
                    let inflight = &mut self.slots.slots[place].inflight;
                    *inflight = inflight.saturating_sub(1);
                    if mine {
                        self.settle(index, Outcome::Complete, false)?;
                    }
                }
                engine::EventKind::FirstToken { .. } | engine::EventKind::Token => {}
            }
        }
        for place in touched {
            self.slots.check(place).map_err(|what| self.broken(what))?;
        }
        self.tell_caches()
    }

    /// An attempt has its first token.
    fn began(&mut self, index: u32, first: (Duration, Duration, u32)) -> Result<(), DriveError> {
        let Some(flight) = &mut self.flights[index as usize] else {
            return Ok(());
        };
        flight.first = Some(first);
        let (replica, place, attempt) = (flight.replica, flight.place, flight.attempt);
        match &mut self.routers[replica] {
            Router::Baseline { baseline, .. } => baseline.began(self.now, index as usize, place),
            Router::Scheduler(scheduler) if scheduler.needs.meets(Needs::LIVE) => {
                let request = RequestId(u64::from(index));
                self.tell(replica, Event::FirstToken { request, attempt })?;
            }
            Router::Scheduler(_) => {}
        }
        Ok(())
    }

    /// Tells all schedulers what caches stored and gave up.
    fn tell_caches(&mut self) -> Result<(), DriveError> {
        while let Some((place, changes)) = self.slots.caches.pop_front() {
            for number in 0..self.routers.len() {
                let endpoint = self.scheduler(number).and_then(|replica| replica.id(place));
                if let Some(endpoint) = endpoint {
                    let changes = changes.clone();
                    self.tell(number, Event::Cache { endpoint, changes })?;
                }
            }
        }
        Ok(())
    }

    /// Tells the schedulers that look at it what their engines said.
    pub(super) fn tell_readings(&mut self) -> Result<(), DriveError> {
        for number in 0..self.routers.len() {
            if !self.routers[number].reads_metrics() {
                continue;
            }
            for place in 0..self.slots.slots.len() {
                let endpoint = self.scheduler(number).and_then(|replica| replica.id(place));
                if let (Some(endpoint), Some(reading)) = (endpoint, self.slots.reading(place, self.now)) {
                    let reading = Box::new(reading);
                    self.tell(number, Event::Scraped { endpoint, reading })?;
                }
            }
        }
        Ok(())
    }

    /// An attempt is over: what its router makes of it.
    pub(super) fn settle(&mut self, index: u32, outcome: Outcome, too_long: bool) -> Result<(), DriveError> {
        let Some(flight) = self.flights[index as usize] else {
            return Err(self.broken(format!("request {index} ended twice")));
        };
        if outcome == Outcome::Complete {
            self.count(&flight, index);
        }
        match &mut self.routers[flight.replica] {
            Router::Scheduler(_) => {
                let ended = self.attempt_ended(index, flight.attempt, (outcome, too_long));
                self.tell(flight.replica, ended)
            }
            Router::Baseline { baseline, inflight } => {
                inflight[flight.place] = inflight[flight.place].saturating_sub(1);
                baseline.ended(self.now, index as usize, flight.place);
                self.end(index, fate(outcome, too_long))
            }
        }
    }

    /// Keeps how an attempt ended, and gives what its scheduler is to hear of it.
    fn attempt_ended(&mut self, index: u32, attempt: u32, (outcome, too_long): (Outcome, bool)) -> Event {
        self.note(index, outcome, too_long);
        let flight = self.flights[index as usize];
        Event::Ended(Ended {
            request: RequestId(u64::from(index)),
            attempt,
            outcome,
            committed: flight.is_some_and(|flight| flight.first.is_some()),
            too_long,
            spent: (outcome == Outcome::Complete).then(|| self.spent(index)),
        })
    }

    /// What an answered request cost, as its engine tells it.
    fn spent(&self, index: u32) -> Spent {
        let request = &self.workload.requests[index as usize];
        let first = self.flights[index as usize].and_then(|flight| flight.first);
        Spent {
            prompt: request.prompt_tokens,
            cached: first.map(|(_, _, cached)| cached),
            output: request.output_tokens,
        }
    }

    /// Adds a finished attempt to the endpoint's counts.
    fn count(&mut self, flight: &Flight, index: u32) {
        let request = &self.workload.requests[index as usize];
        let cached = flight.first.map_or(0, |(_, _, cached)| cached);
        let run = &mut self.slots.slots[flight.place].run;
        run.cached_tokens += u64::from(cached);
        run.uncached_tokens += u64::from(request.prompt_tokens - cached.min(request.prompt_tokens));
        run.output_tokens += u64::from(request.output_tokens);
    }

    /// Tells a replica's scheduler something, and does what it wants, and what follows.
    pub(super) fn tell(&mut self, replica: usize, event: Event) -> Result<(), DriveError> {
        self.todo.push_back((replica, event));
        while let Some((replica, event)) = self.todo.pop_front() {
            let Router::Scheduler(router) = &mut self.routers[replica] else {
                continue;
            };
            let actions = router.step(self.now, event);
            for action in actions {
                self.perform(replica, action)?;
            }
        }
        Ok(())
    }

    pub(super) fn perform(&mut self, replica: usize, action: Action) -> Result<(), DriveError> {
        match action {
            Action::Dispatch(dispatch) => self.dispatch(replica, &dispatch),
            Action::Fallback { request, route } => self.fall_back(replica, (request, route)),
            Action::Finish { request, verdict } => self.verdict(index_of(request), verdict)?,
            Action::Probe(endpoint) => {
                if let Some(place) = self.scheduler(replica).and_then(|router| router.place(endpoint)) {
                    self.plan(
                        self.now + PROBE_TAKES,
                        Due::Probed {
                            replica,
                            endpoint,
                            place,
                        },
                    );
                }
            }
            Action::Abort { request, .. } => {
                let index = index_of(request);
                if let Some(flight) = self.flights[index as usize] {
                    self.slots.cancel((flight.place, index), self.now);
                }
            }
            Action::Changed { .. } | Action::Configured(_) => {}
        }
        Ok(())
    }

    fn scheduler(&self, replica: usize) -> Option<&Replica> {
        match self.routers.get(replica)? {
            Router::Scheduler(router) => Some(router),
            Router::Baseline { .. } => None,
        }
    }

    fn dispatch(&mut self, replica: usize, dispatch: &Dispatch) {
        self.decisions += 1;
        let index = index_of(dispatch.request);
        let Some(place) = self
            .scheduler(replica)
            .and_then(|router| router.place(dispatch.endpoint))
        else {
            return;
        };
        let Err(refused) = self.send(index, (replica, place, dispatch.attempt)) else {
            return;
        };
        let (outcome, too_long) = told(&refused);
        let ended = self.attempt_ended(index, dispatch.attempt, (outcome, too_long));
        self.todo.push_back((replica, ended));
    }

    fn fall_back(&mut self, replica: usize, (request, route): (RequestId, RouteId)) {
        let index = index_of(request);
        let what = (index, &self.workload.requests[index as usize]);
        let workload = self.workload;
        if let Some(event) = self
            .scheduler(replica)
            .map(|router| router.arrival(what, workload, Some(route)))
        {
            self.todo.push_back((replica, event));
        }
    }

    /// Keeps how the last attempt ended, for the verdict that passes it on.
    fn note(&mut self, index: u32, outcome: Outcome, too_long: bool) {
        let record = self.record(index, fate(outcome, too_long));
        self.records[index as usize] = Some(record);
    }

    fn verdict(&mut self, index: u32, verdict: Verdict) -> Result<(), DriveError> {
        let fate = match verdict {
            Verdict::Relay { .. } => match self.records[index as usize].take() {
                Some(record) => record.fate,
                None => {
                    return Err(self.broken(format!("request {index} was to be passed on without an answer")));
                }
            },
            Verdict::Busy { .. } => Fate::Rejected,
            Verdict::Unavailable { .. } | Verdict::Unserved | Verdict::Unfit(_) | Verdict::NoRoute => {
                Fate::Unavailable
            }
        };
        self.end(index, fate)
    }

    fn record(&self, index: u32, fate: Fate) -> Record {
        let request = &self.workload.requests[index as usize];
        let flight = self.flights[index as usize];
        let first = flight.and_then(|flight| flight.first);
        Record {
            arrived: self.arrived[index as usize],
            sent: flight.map(|flight| flight.sent),
            scheduled: first.map(|(_, scheduled, _)| scheduled),
            first: first.map(|(at, _, _)| at),
            ended: self.now,
            fate,
            endpoint: flight.and_then(|flight| u32::try_from(flight.place).ok()),
            attempts: flight.map_or(0, |flight| flight.attempt),
            prompt_tokens: request.prompt_tokens,
            cached_tokens: first.map_or(0, |(_, _, cached)| cached),
            output_tokens: request.output_tokens,
            tenant: request.tenant,
            class: request.class,
        }
    }

    /// The end of a request; others that waited for it follow.
    fn end(&mut self, index: u32, fate: Fate) -> Result<(), DriveError> {
        let record = self.record(index, fate);
        self.records[index as usize] = Some(record);
        self.flights[index as usize] = None;
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| self.broken("more ends than requests".to_owned()))?;
        let turns: Vec<(u32, Duration)> = self.clients.turns_after(index).collect();
        for (turn, thinks) in turns {
            self.turns += 1;
            self.plan(self.now + thinks, Due::Turn(turn));
        }
        // Not at once: what led here is still being dealt with.
        if let Some(next) = self.clients.ended() {
            self.plan(self.now, Due::Sent(next));
        }
        Ok(())
    }
}

/// What a refusal looks like from the gateway: the outcome, and whether the prompt is said to be too long.
fn told(refused: &Refused) -> (Outcome, bool) {
    match refused {
        Refused::Down => (Outcome::Refused, false),
        Refused::TooLong => {
            let code = 400;
            let retry_after = None;
            (Outcome::Status { code, retry_after }, true)
        }
    }
}

fn index_of(request: RequestId) -> u32 {
    u32::try_from(request.0).unwrap_or(u32::MAX)
}

/// What an attempt's end is for its request, if it is the last.
fn fate(outcome: Outcome, too_long: bool) -> Fate {
    match outcome {
        Outcome::Complete => Fate::Answered,
        Outcome::TimedOut => Fate::TimedOut,
        _ if too_long => Fate::TooLong,
        _ => Fate::Failed,
    }
}
