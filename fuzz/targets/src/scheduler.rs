//! The scheduler under any history of events, sensible or not.
//!
//! A history is read off the input: fleets to change between, requests, ends, probes, commands and time, which may run
//! backwards; events about requests and endpoints that never were are among them. The books of [`books`] say after each
//! step what must hold; at the end everything is ended, and the recorded history must replay to the same actions.

mod books;
mod engines;
mod fleet;

use crate::input::Input;
use books::Books;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::event::{Arrival, Control, Ended, Outcome};
use weighbridge_core::ids::{EndpointId, RequestId, RouteId};
use weighbridge_core::policies::session_affinity::SessionKey;
use weighbridge_core::replay::replay;
use weighbridge_core::spec::{Protocols, Weight};
use weighbridge_core::{Action, Event, Scheduler, Time};

/// Longer histories find nothing that shorter ones do not.
const STEPS_MAX: usize = 400;

/// A seed, then a fleet, then one event after another.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    let seed = u64::from(input.short());
    let mut world = World::new(seed);
    world.configure(&mut input);
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        world.next(&mut input);
    }
    world.rest();
    assert_eq!(replay(world.log.into_iter(), seed), Ok(()));
}

struct World {
    scheduler: Scheduler,
    now: Time,
    books: Books,
    log: Vec<(Time, Event, Vec<Action>)>,
    requests: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            scheduler: Scheduler::new(seed),
            now: Time::ZERO,
            books: Books::default(),
            log: Vec::new(),
            requests: 0,
        }
    }

    fn configure(&mut self, input: &mut Input<'_>) {
        let spec = fleet::read(input);
        // The config never gives such a fleet.
        if spec.check().is_ok() {
            self.step(Event::Configure(Arc::new(spec)));
        }
    }

    fn step(&mut self, event: Event) {
        self.step_at(self.now, event);
    }

    fn step_at(&mut self, at: Time, event: Event) {
        let before = self.scheduler.view(self.now);
        let mut actions = Vec::new();
        self.scheduler.step(at, event.clone(), &mut actions);
        let after = self.scheduler.view(self.now);
        self.books.take(&event, &actions, (&before, &after));
        assert_eq!(self.scheduler.bad_scores(), 0);
        self.log.push((at, event, actions));
        // Drivers follow a fallback at once.
        while let Some((request, route)) = self.books.fallback() {
            self.arrive(request, route, None);
        }
    }

    fn arrive(&mut self, request: RequestId, route: RouteId, session: Option<u8>) {
        let protocols = self.books.protocols(request);
        self.step(Event::Arrive(Arrival {
            request,
            route,
            protocols,
            session: session.map(|session| SessionKey::new(&[session])),
            only: None,
            explain: session == Some(0),
            work: self.books.work(request),
        }));
    }

    fn next(&mut self, input: &mut Input<'_>) {
        match input.byte() % 20 {
            0..=3 => self.new_request(input),
            4..=7 => self.end(input),
            8 => {
                if let Some((request, _)) = self.books.running(input.byte()) {
                    self.books.withdrawn(request);
                    self.step(Event::Withdraw(request));
                }
            }
            9 => {
                let Some((request, attempt)) = self.books.running(input.byte()) else {
                    return;
                };
                self.step(Event::MoveOn { request, attempt });
            }
            10 => {
                if let Some(endpoint) = self.books.probe_answered() {
                    let healthy = input.flag();
                    self.step(Event::Probed { endpoint, healthy });
                }
            }
            11 => self.command(input),
            12 => self.configure(input),
            13 => {
                // To the next deadline, if one is near.
                let next = self.scheduler.next_deadline().unwrap_or(self.now);
                if next.since(self.now) < Duration::from_secs(3600) {
                    self.now = self.now.max(next);
                }
                self.step(Event::Tick);
            }
            14 => {
                let millis = Duration::from_millis(u64::from(input.short()));
                self.now = self.now.after(millis);
                self.step(Event::Tick);
            }
            15 => self.stray(input),
            16 | 17 => self.told(input),
            18 => {
                if let Some((request, attempt)) = self.books.running(input.byte()) {
                    self.step(Event::FirstToken { request, attempt });
                }
            }
            _ => {
                let Some(endpoint) = self.books.endpoint(input.byte()) else {
                    return;
                };
                let changes = engines::changes(input);
                self.step(Event::Cache { endpoint, changes });
            }
        }
    }

    fn new_request(&mut self, input: &mut Input<'_>) {
        let how = input.byte();
        let Some(route) = self.books.route(how) else {
            return;
        };
        self.requests += 1;
        let request = RequestId(self.requests);
        let protocols = [Protocols::OPENAI, Protocols::ANTHROPIC][usize::from(how >> 7)];
        let work = (how & 0x20 != 0).then(|| Arc::new(engines::work(input)));
        self.books.arrived(request, protocols, work);
        let session = (how & 0x40 != 0).then(|| input.byte() % 8);
        self.arrive(request, route, session);
    }

    fn end(&mut self, input: &mut Input<'_>) {
        if let Some((request, attempt)) = self.books.running(input.byte()) {
            let outcome = outcome(input);
            self.step(Event::Ended(Ended {
                request,
                attempt,
                outcome,
                committed: input.byte() < 32,
                too_long: input.flag(),
                spent: engines::spent(input),
            }));
        }
    }

    /// An engine tells of itself.
    fn told(&mut self, input: &mut Input<'_>) {
        if let Some(endpoint) = self.books.endpoint(input.byte()) {
            let reading = Box::new(engines::reading(input));
            self.step(Event::Scraped { endpoint, reading });
        }
    }

    fn command(&mut self, input: &mut Input<'_>) {
        let Some(endpoint) = self.books.endpoint(input.byte()) else {
            return;
        };
        let command = match input.byte() % 6 {
            0 => Control::Drain,
            1 | 2 => Control::Resume,
            3 => Control::Weight {
                weight: None,
                until: None,
            },
            4 => {
                let at = self.now.after(Duration::from_millis(u64::from(input.short())));
                self.step(Event::Progress { endpoint, at });
                return;
            }
            _ => Control::Weight {
                weight: Some(Weight(u64::from(input.byte() % 4) * 500_000)),
                until: input
                    .flag()
                    .then(|| self.now.after(Duration::from_millis(u64::from(input.short())))),
            },
        };
        self.step(Event::Control { endpoint, command });
    }

    /// Events about what does not exist, or at a time that is past.
    fn stray(&mut self, input: &mut Input<'_>) {
        let request = RequestId(1_000_000 + u64::from(input.byte()));
        let attempt = u32::from(input.byte());
        let endpoint = EndpointId {
            slot: attempt,
            generation: u32::from(input.byte()),
        };
        let stale = self.books.running(input.byte());
        let at = Time::ZERO.after(Duration::from_millis(u64::from(input.byte())));
        let ended = |(request, attempt)| {
            Event::Ended(Ended {
                request,
                attempt,
                outcome: Outcome::Refused,
                committed: false,
                too_long: false,
                ..Ended::new(RequestId(0), 0, Outcome::Complete)
            })
        };
        self.step_at(at, ended((request, attempt)));
        if let Some((request, running)) = stale {
            self.step(ended((request, running + 1)));
            self.step(Event::MoveOn {
                request,
                attempt: running + 1,
            });
        }
        self.step(Event::Withdraw(request));
        self.step(Event::MoveOn { request, attempt });
        if !self.books.knows(endpoint) {
            self.step(Event::Probed {
                endpoint,
                healthy: attempt.is_multiple_of(2),
            });
            self.step(Event::Progress { endpoint, at });
            self.step(Event::Control {
                endpoint,
                command: Control::Drain,
            });
        }
        self.step(Event::Arrive(Arrival {
            request: RequestId(2_000_000 + u64::from(input.byte()) + self.requests * 1000),
            route: RouteId(9_999),
            protocols: Protocols::ANY,
            session: None,
            only: None,
            explain: true,
            ..Arrival::new(RequestId(0), RouteId(0))
        }));
    }

    /// Ends what runs; all counts are zero then.
    fn rest(&mut self) {
        while let Some((request, attempt)) = self.books.running(0) {
            self.step(Event::Ended(Ended {
                request,
                attempt,
                outcome: Outcome::Complete,
                committed: true,
                too_long: false,
                ..Ended::new(RequestId(0), 0, Outcome::Complete)
            }));
        }
        let view = self.scheduler.view(self.now);
        assert!(
            view.endpoints
                .iter()
                .all(|endpoint| endpoint.inflight == 0 && !endpoint.removed)
        );
        assert!(view.routes.iter().all(|route| route.requests == 0));
        self.books.closed();
    }
}

fn outcome(input: &mut Input<'_>) -> Outcome {
    const CODES: [u16; 8] = [400, 404, 408, 429, 500, 502, 503, 529];
    match input.byte() % 12 {
        0..=3 => Outcome::Complete,
        4 | 5 => Outcome::Status {
            code: CODES[input.below(CODES.len())],
            retry_after: input
                .flag()
                .then(|| Duration::from_secs(u64::from(input.short()))),
        },
        6 => Outcome::Refused,
        7 => Outcome::ConnectTimeout,
        8 => Outcome::Reset,
        9 => Outcome::TimedOut,
        10 => Outcome::Broken,
        _ => [Outcome::ConnectFailed, Outcome::Abandoned][input.below(2)],
    }
}
