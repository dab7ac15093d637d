//! The streams of one HTTP/2 connection: what each of them still has to write, who waits for it, and when a client
//! counts as gone that takes nothing.
//!
//! The codec runs each stream as a task of its own, so that one which waits holds no other up. Dropping such a task
//! resets its stream; a stream that the client resets, and a connection that ends, make the codec end its task. So
//! cancelling is dropping here too.

use super::connection::Client;
use super::turn::Turns;
use crate::lifecycle::Lifecycle;
use crate::memory::BodyMemory;
use bytes::{Buf, Bytes};
use hyper::rt::Executor;
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// Streams of a connection, shared by its task and theirs.
pub(crate) struct Streams {
    /// Those whose tasks run.
    running: RefCell<Vec<Rc<Stream>>>,
    /// Those whose requests have ended, and whose answers may not be written yet.
    answered: RefCell<Vec<Rc<Stream>>>,
    /// The one whose task is about to begin.
    newest: RefCell<Option<Rc<Stream>>>,
    /// The connection's task.
    connection: RefCell<Option<Waker>>,
    /// When the last one ended, or the connection began.
    idle_since: Cell<Instant>,
    /// How many there were.
    pub(crate) opened: Cell<u64>,
    pub(crate) resets: RefCell<Resets>,
    /// The connection has ended.
    over: Cell<bool>,
    /// What held answers take.
    held: Arc<BodyMemory>,
    /// Bytes of answers that the connection has taken.
    taken: Cell<u64>,
}

/// Bytes that a client must take of a stream a second, on average of the time that they wait for it: who takes less holds
/// an engine, or memory, for nothing.
const PACE_MIN: u64 = 1024;
/// Bytes of all streams a second with which a client counts as one that takes what its line can: each stream may have
/// little of it then.
const CONNECTION_PACE: u64 = 64 * 1024;

/// Since when bytes wait without a break, and what had been taken by then.
#[derive(Clone, Copy)]
struct Pace {
    since: Instant,
    /// Of the stream.
    taken: u64,
    /// Of all streams.
    all: u64,
}

/// One stream.
pub(crate) struct Stream {
    streams: Rc<Streams>,
    /// Bytes of its answer that the codec has and the connection has not taken yet.
    unwritten: Cell<usize>,
    /// When the newest of them were taken, or the first of them came.
    moved: Cell<Instant>,
    /// Bytes of its answer that were taken.
    taken: Cell<u64>,
    pace: Cell<Pace>,
    task: RefCell<Option<Waker>>,
    /// Its task waits for the last byte to be taken.
    waits: Cell<bool>,
    /// The client takes nothing of it.
    given_up: Cell<bool>,
    /// What its request knows.
    client: RefCell<Weak<Client>>,
}

impl Streams {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            running: RefCell::default(),
            answered: RefCell::default(),
            newest: RefCell::default(),
            connection: RefCell::default(),
            idle_since: Cell::new(Instant::now()),
            opened: Cell::new(0),
            resets: RefCell::default(),
            over: Cell::new(false),
            held: Arc::new(BodyMemory::part()),
            taken: Cell::new(0),
        })
    }

    /// Begins a stream, whose task is the next that the codec asks for.
    pub(crate) fn open(self: &Rc<Self>) -> Rc<Stream> {
        let stream = Rc::new(Stream {
            streams: self.clone(),
            unwritten: Cell::new(0),
            moved: Cell::new(Instant::now()),
            taken: Cell::new(0),
            pace: Cell::new(Pace {
                since: Instant::now(),
                taken: 0,
                all: 0,
            }),
            task: RefCell::default(),
            waits: Cell::new(false),
            given_up: Cell::new(false),
            client: RefCell::default(),
        });
        self.opened.set(self.opened.get() + 1);
        *self.newest.borrow_mut() = Some(stream.clone());
        stream
    }

    /// To be called by the connection's task, which is then woken whenever a request has ended.
    pub(crate) fn attend(&self, task: &Waker) {
        let mut connection = self.connection.borrow_mut();
        if connection.as_ref().is_none_or(|known| !known.will_wake(task)) {
            *connection = Some(task.clone());
        }
    }

    /// Tells the lifecycle of answers that are written; to be called after the codec, which has written what it could.
    pub(crate) fn settle(&self, lifecycle: &Lifecycle) {
        self.answered.borrow_mut().retain(|stream| {
            let written = stream.unwritten.get() == 0;
            if written {
                lifecycle.ended();
            }
            !written
        });
    }

    /// The connection has ended: nothing more will be written.
    pub(crate) fn end(&self, lifecycle: &Lifecycle) {
        self.over.set(true);
        for _ in self.answered.take() {
            lifecycle.ended();
        }
    }

    /// Has every stream look at what it waits for.
    pub(crate) fn wake_all(&self) {
        for stream in &*self.running.borrow() {
            stream.wake();
        }
    }

    /// Streams whose tasks run.
    #[cfg(test)]
    pub(crate) fn running(&self) -> usize {
        self.running.borrow().len()
    }

    /// Since when there has been no stream; none: there is one.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let idle = self.running.borrow().is_empty() && self.answered.borrow().is_empty();
        idle.then(|| self.idle_since.get())
    }

    /// Gives up the streams of which the client has taken nothing, or too little, for `patience` though there is something. True: one of
    /// them cannot be given up any more, since its task has done all it could; only the connection can.
    pub(crate) fn give_up(&self, patience: Duration) -> bool {
        for stream in &*self.running.borrow() {
            if stream.is_stuck(patience) {
                stream.given_up.set(true);
                stream.wake();
            }
        }
        let running = self.running.borrow();
        let has_task = |stream: &Rc<Stream>| running.iter().any(|other| Rc::ptr_eq(other, stream));
        self.answered
            .borrow()
            .iter()
            .any(|stream| stream.is_stuck(patience) && !has_task(stream))
    }

    fn closed(&self, stream: &Rc<Stream>) {
        let mut running = self.running.borrow_mut();
        if let Some(place) = running.iter().position(|other| Rc::ptr_eq(other, stream)) {
            running.swap_remove(place);
        }
        self.idle_since.set(Instant::now());
    }
}

impl Stream {
    /// Takes note of bytes that are given to the codec.
    pub(crate) fn hand_over(self: &Rc<Self>, bytes: Bytes) -> Unwritten {
        if self.unwritten.get() == 0 {
            self.moved.set(Instant::now());
            self.begin_pace();
        }
        self.unwritten.set(self.unwritten.get() + bytes.len());
        Unwritten {
            bytes,
            stream: self.clone(),
        }
    }

    fn written(&self, count: usize) {
        if count == 0 {
            return;
        }
        let left = self.unwritten.get() - count;
        self.unwritten.set(left);
        self.moved.set(Instant::now());
        self.taken.set(self.taken.get() + count as u64);
        self.streams.taken.set(self.streams.taken.get() + count as u64);
        if left == 0 && self.waits.take() {
            self.wake();
        }
    }

    /// Whether the codec still holds bytes; if so, the stream's task is woken once it does not.
    pub(crate) fn holds_bytes(&self) -> bool {
        let holds = self.unwritten.get() > 0;
        self.waits.set(holds);
        holds
    }

    /// The stream's request has ended; it counts as running until its answer is written.
    pub(crate) fn answered(self: &Rc<Self>, lifecycle: &Lifecycle) {
        if self.streams.over.get() {
            lifecycle.ended();
            return;
        }
        self.streams.answered.borrow_mut().push(self.clone());
        if let Some(connection) = &*self.streams.connection.borrow() {
            connection.wake_by_ref();
        }
    }

    /// The request was dropped before it had an answer: the client has reset it.
    pub(crate) fn reset_early(&self) {
        self.streams.resets.borrow_mut().note(Instant::now());
    }

    /// Says whose it is.
    pub(crate) fn belongs_to(&self, client: &Rc<Client>) {
        *self.client.borrow_mut() = Rc::downgrade(client);
    }

    /// What the held answers of its connection take.
    pub(crate) fn held(&self) -> &Arc<BodyMemory> {
        &self.streams.held
    }

    fn begin_pace(&self) {
        self.pace.set(Pace {
            since: Instant::now(),
            taken: self.taken.get(),
            all: self.streams.taken.get(),
        });
    }

    /// Whether what waits has waited for `patience`, and the client has taken too little meanwhile. Otherwise the next such
    /// span begins.
    fn is_slow(&self, patience: Duration) -> bool {
        let Pace { since, taken, all } = self.pace.get();
        let waited = since.elapsed();
        if waited < patience {
            return false;
        }
        let least = |pace: u64| pace.saturating_mul(waited.as_secs());
        let slow = self.taken.get() - taken < least(PACE_MIN)
            && self.streams.taken.get() - all < least(CONNECTION_PACE);
        if !slow {
            self.begin_pace();
        }
        slow
    }

    /// Whether something waits for a client that has taken nothing, or too little, of it for `patience`, or whose answer must be over: the
    /// codec asks the answer for nothing then, so that it cannot end itself.
    fn is_stuck(&self, patience: Duration) -> bool {
        let client = self.client.borrow().upgrade();
        let deadline = client.and_then(|client| client.exchange.deadline.get());
        let overdue = || deadline.is_some_and(|at| at <= Instant::now());
        self.unwritten.get() > 0
            && (overdue() || self.moved.get().elapsed() >= patience || self.is_slow(patience))
    }

    fn wake(&self) {
        if let Some(task) = &*self.task.borrow() {
            task.wake_by_ref();
        }
    }
}

/// Bytes on their way to the client, which the stream counts until the connection has taken them.
pub(crate) struct Unwritten {
    bytes: Bytes,
    stream: Rc<Stream>,
}

impl Buf for Unwritten {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.stream.written(count);
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.stream.written(self.bytes.len());
    }
}

/// Runs the codec's streams, each as a task of this thread.
#[derive(Clone)]
pub(crate) struct Tasks(pub(crate) Rc<Streams>);

impl<F> Executor<F> for Tasks
where
    F: Future<Output = ()> + 'static,
{
    fn execute(&self, work: F) {
        let stream = self.0.newest.borrow_mut().take();
        let Some(stream) = stream else {
            tokio::task::spawn_local(work);
            return;
        };
        self.0.running.borrow_mut().push(stream.clone());
        tokio::task::spawn_local(async move {
            let running = Running(stream);
            let stream = &running.0;
            let mut turns = Turns::default();
            let mut work = pin!(work);
            poll_fn(|cx| {
                if stream.given_up.get() {
                    return Poll::Ready(());
                }
                if stream.task.borrow().is_none() {
                    *stream.task.borrow_mut() = Some(cx.waker().clone());
                }
                turns.take(cx, |cx| work.as_mut().poll(cx))
            })
            .await;
        });
    }
}

/// A stream whose task runs.
struct Running(Rc<Stream>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.streams.closed(&self.0);
    }
}

/// How often a client resets what it has just asked for. Each such request costs it nothing and us something, and never
/// counts as concurrent (CVE-2023-44487).
#[derive(Default)]
pub(crate) struct Resets {
    /// Begin of the span that is counted.
    since: Option<Instant>,
    count: u64,
    /// Streams opened before it.
    opened: u64,
}

impl Resets {
    /// What is counted together.
    const SPAN: Duration = Duration::from_secs(10);
    /// More of them in one span are an attack, unless the client also waits for answers.
    const MAX: u64 = 1000;

    fn note(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.count += 1;
    }

    /// Whether a client that has opened this many streams has reset nine of ten, and too many.
    pub(crate) fn too_many(&mut self, opened: u64, now: Instant) -> bool {
        let Some(since) = self.since else { return false };
        let meanwhile = opened - self.opened;
        if self.count > Self::MAX && self.count * 10 >= meanwhile * 9 {
            return true;
        }
        if now.duration_since(since) >= Self::SPAN {
            *self = Self {
                opened,
                ..Self::default()
            };
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_are_too_many_only_together_and_among_few_others() {
        let start = Instant::now();
        let after = |resets: u64, opened: u64, apart: Duration| {
            let mut counted = Resets::default();
            (0..resets).any(|i| {
                let now = start + apart * u32::try_from(i).unwrap();
                counted.note(now);
                counted.too_many(opened * (i + 1) / resets, now)
            })
        };
        assert!(after(1001, 1100, Duration::from_millis(1)));
        assert!(!after(1000, 1000, Duration::from_millis(1)));
        assert!(
            !after(2000, 2400, Duration::from_millis(1)),
            "others wait for answers"
        );
        assert!(!after(5000, 5000, Duration::from_millis(11)), "slow enough");
    }

    #[test]
    fn bytes_are_counted_until_they_are_taken_or_thrown_away() {
        let lifecycle = Lifecycle::default();
        let streams = Streams::new();
        let stream = streams.open();
        lifecycle.started();
        let mut first = stream.hand_over(Bytes::from_static(b"abc"));
        let second = stream.hand_over(Bytes::from_static(b"de"));
        stream.answered(&lifecycle);
        streams.settle(&lifecycle);
        assert!(stream.holds_bytes() && lifecycle.running() == 1);
        first.advance(2);
        drop((first, second));
        assert!(!stream.holds_bytes());
        streams.settle(&lifecycle);
        assert_eq!(lifecycle.running(), 0);
    }
}
