//! The one task that owns the engine model and maps its virtual time to the clock.

use super::metrics::Telemetry;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use weighbridge_sim::engine::{BatchingEngine, Engine, Event, EventKind, Stats, Time, Work, WorkId};

/// Iterations after which the driver looks for commands again, should the model fall behind the clock.
const ITERATIONS_PER_TURN: usize = 64;

/// How a piece of work ends, as `/metrics` counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Stop,
    Length,
}

enum Command {
    Submit {
        work: Work,
        reason: Reason,
        events: mpsc::UnboundedSender<EventKind>,
    },
    Cancel(WorkId),
    Report(oneshot::Sender<Report>),
}

/// State of the engine at one moment.
pub(super) struct Report {
    pub(super) stats: Stats,
    pub(super) telemetry: Telemetry,
}

/// Sends work to the driver.
#[derive(Clone)]
pub(super) struct Handle {
    commands: mpsc::UnboundedSender<Command>,
    next_id: Arc<AtomicU64>,
}

impl Handle {
    /// Queues work; its `id` is set here.
    pub(super) fn submit(&self, mut work: Work, reason: Reason) -> Ticket {
        let id = WorkId(self.next_id.fetch_add(1, Ordering::Relaxed));
        work.id = id;
        let (sender, events) = mpsc::unbounded_channel();
        // A driver that is gone closes the channel, which the ticket reports.
        let _ = self.commands.send(Command::Submit {
            work,
            reason,
            events: sender,
        });
        Ticket {
            id,
            events,
            commands: self.commands.clone(),
            done: false,
        }
    }

    /// State and totals; `None` once the engine is stopped.
    pub(super) async fn report(&self) -> Option<Report> {
        let (sender, receiver) = oneshot::channel();
        self.commands.send(Command::Report(sender)).ok()?;
        receiver.await.ok()
    }
}

/// Work under way. Dropped before the end, it is cancelled.
pub(super) struct Ticket {
    id: WorkId,
    events: mpsc::UnboundedReceiver<EventKind>,
    commands: mpsc::UnboundedSender<Command>,
    done: bool,
}

impl Ticket {
    /// The next event; `None` if the engine stopped before the work's end.
    pub(super) fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<EventKind>> {
        let event = self.events.poll_recv(cx);
        if let Poll::Ready(Some(EventKind::Finished)) = event {
            self.done = true;
        }
        event
    }

    /// Waits for the end; gives the cached prompt tokens, or `None` if the engine stopped before.
    pub(super) async fn finished(mut self) -> Option<u32> {
        let mut cached = 0;
        loop {
            match std::future::poll_fn(|cx| self.poll_event(cx)).await? {
                EventKind::FirstToken { cached_tokens, .. } => cached = cached_tokens,
                EventKind::Token => {}
                EventKind::Finished => return Some(cached),
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.done {
            let _ = self.commands.send(Command::Cancel(self.id));
        }
    }
}

/// Virtual time against the clock.
struct Pace {
    start: Instant,
    speed: f64,
}

impl Pace {
    fn now(&self) -> Time {
        scaled(self.start.elapsed(), self.speed)
    }

    fn instant(&self, virtual_time: Time) -> Instant {
        self.start + scaled(virtual_time, 1.0 / self.speed)
    }
}

/// A duration times a factor; what no duration can hold becomes about a century.
fn scaled(duration: Duration, factor: f64) -> Duration {
    const CENTURY: Duration = Duration::from_secs(3_155_760_000);
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).map_or(CENTURY, |d| d.min(CENTURY))
}

struct Client {
    events: mpsc::UnboundedSender<EventKind>,
    reason: Reason,
    submitted: Time,
    last_token: Time,
}

struct Driver {
    engine: BatchingEngine,
    pace: Pace,
    clients: HashMap<WorkId, Client>,
    telemetry: Telemetry,
    buffer: Vec<Event>,
}

/// A handle, and the future that drives the engine until all handles and tickets are gone.
pub(super) fn driver(engine: BatchingEngine, speed: f64) -> (Handle, impl Future<Output = ()>) {
    let (commands, receiver) = mpsc::unbounded_channel();
    let driver = Driver {
        engine,
        pace: Pace {
            start: Instant::now(),
            speed,
        },
        clients: HashMap::new(),
        telemetry: Telemetry::default(),
        buffer: Vec::new(),
    };
    (
        Handle {
            commands,
            next_id: Arc::new(AtomicU64::new(0)),
        },
        driver.run(receiver),
    )
}

impl Driver {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            let next = self.engine.next_event_time().map(|time| self.pace.instant(time));
            let until = next.unwrap_or(self.pace.start);
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                () = tokio::time::sleep_until(until), if next.is_some() => {}
            }
            while let Ok(command) = commands.try_recv() {
                self.obey(command);
            }
            self.advance();
            tokio::task::yield_now().await;
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Submit { work, reason, events } => {
                let (id, now) = (work.id, self.pace.now());
                // Sizes are checked before; a refusal closes the channel, which the ticket reports.
                if self.engine.submit(now, work).is_ok() {
                    self.clients.insert(
                        id,
                        Client {
                            events,
                            reason,
                            submitted: now,
                            last_token: now,
                        },
                    );
                }
            }
            Command::Cancel(id) => {
                if self.clients.remove(&id).is_some() && self.engine.cancel(id) {
                    self.telemetry.aborted += 1;
                }
            }
            Command::Report(sender) => {
                let _ = sender.send(Report {
                    stats: self.engine.stats(),
                    telemetry: self.telemetry.clone(),
                });
            }
        }
    }

    fn advance(&mut self) {
        let now = self.pace.now();
        for _ in 0..ITERATIONS_PER_TURN {
            let Some(next) = self.engine.next_event_time().filter(|next| *next <= now) else {
                return;
            };
            let mut events = std::mem::take(&mut self.buffer);
            self.engine.advance(next, &mut events);
            for event in events.drain(..) {
                self.deliver(event);
            }
            self.buffer = events;
        }
    }

    fn deliver(&mut self, event: Event) {
        let Some(client) = self.clients.get_mut(&event.id) else {
            return;
        };
        // Metrics hold seconds of the clock, since that is what whoever reads them sees.
        let since = |time: Time| event.at.saturating_sub(time).as_secs_f64() / self.pace.speed;
        match event.kind {
            EventKind::FirstToken { .. } => self.telemetry.first_token.observe(since(client.submitted)),
            EventKind::Token => self.telemetry.inter_token.observe(since(client.last_token)),
            EventKind::Finished => {
                self.telemetry.latency.observe(since(client.submitted));
                match client.reason {
                    Reason::Stop => self.telemetry.stopped += 1,
                    Reason::Length => self.telemetry.cut_by_length += 1,
                }
            }
        }
        client.last_token = event.at;
        // Nobody may be listening any more; the ticket's cancel is then on its way.
        let _ = client.events.send(event.kind);
        if event.kind == EventKind::Finished {
            self.clients.remove(&event.id);
        }
    }
}
