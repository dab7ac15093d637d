//! Whether the client of a running request is still there.
//!
//! A client that closes its connection and one that only closes its sending half look the same at first: both send a
//! FIN. A closed peer answers any further byte with a reset, a half-closed one does not, so after a moment of grace
//! (most answers are written by then) something harmless is written and the reset waited for: `100 Continue` before
//! the answer's head, which HTTP/1.1 clients must skip, or a comment between the events of a stream, which the
//! [relay](crate::exchange::relay) writes when [`Presence::wants_comment`] says so.
//!
//! To an HTTP/1.0 client nothing can be written before its answer. One that sent a FIN and has none after
//! [`OLD_PATIENCE`] counts as gone: proxies that speak HTTP/1.0 close when their own client leaves, and never half-close.

use super::socket::{Incoming, Socket};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// From the FIN to the first probe.
const GRACE: Duration = Duration::from_millis(250);
/// From a probe to the look for a reset; a few looks, further and further apart, so that far clients are seen too.
const LOOKS: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(80),
    Duration::from_millis(200),
    Duration::from_millis(700),
];
/// From the last look to the next probe.
const AGAIN: Duration = Duration::from_secs(2);
/// From the FIN of an HTTP/1.0 client that has no answer yet to taking it for gone.
const OLD_PATIENCE: Duration = Duration::from_secs(5);

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What the codec's side knows, shared with the request.
#[derive(Default)]
pub(crate) struct Exchange {
    /// A request has arrived whole and is being answered.
    pub(crate) active: Cell<bool>,
    /// The head of its answer is on its way.
    pub(crate) committed: Cell<bool>,
    /// The client speaks HTTP/1.1, so it must skip a 100.
    pub(crate) interim_allowed: Cell<bool>,
    /// A comment is wanted between two events of the stream.
    wants_comment: Cell<bool>,
    /// When the answer must be over, however slowly the client reads.
    pub(crate) deadline: Cell<Option<Instant>>,
    /// Counts the connection's requests.
    serial: Cell<u64>,
    /// Requests that were answered, whose answers may not be written yet.
    answered: Cell<usize>,
}

impl Exchange {
    /// The head of a new request has arrived.
    pub(crate) fn begin(&self, interim_allowed: bool) {
        self.active.set(false);
        self.committed.set(false);
        self.wants_comment.set(false);
        self.deadline.set(None);
        self.interim_allowed.set(interim_allowed);
        self.serial.set(self.serial.get() + 1);
    }

    /// All of the request has arrived: from now on the client only waits.
    pub(crate) fn received(&self) {
        self.active.set(true);
    }

    /// The answer is complete, or nobody waits for it any more.
    pub(crate) fn ended(&self) {
        self.active.set(false);
        self.answered.set(self.answered.get() + 1);
    }

    /// Takes the number of requests that were answered since the last time.
    pub(crate) fn take_answered(&self) -> usize {
        self.answered.take()
    }

    /// Takes the wish for a comment.
    pub(crate) fn take_wants_comment(&self) -> bool {
        self.wants_comment.take()
    }
}

enum Watch {
    /// Nothing received since the request.
    Listening,
    /// More requests wait on the connection and hide what follows them: it is looked for now and then.
    Blind,
    /// A FIN came.
    HalfClosed { since: Instant, look: usize },
}

/// Watches one connection.
pub(crate) struct Presence {
    socket: Socket,
    watch: Watch,
    /// Request that `watch` is about.
    serial: u64,
    timer: Option<Pin<Box<Sleep>>>,
    /// Of the answer's deadline, while the client does not take what it has.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl Presence {
    pub(crate) fn new(socket: Socket) -> Self {
        Self {
            socket,
            watch: Watch::Listening,
            serial: 0,
            timer: None,
            overdue: None,
        }
    }

    /// Ready when the client is gone. To be polled after the codec, in the same task, while a request is active.
    pub(crate) fn poll_gone(&mut self, exchange: &Exchange, cx: &mut Context<'_>) -> Poll<()> {
        if !exchange.active.get() {
            return Poll::Pending;
        }
        if self.poll_overdue(exchange, cx).is_ready() {
            return Poll::Ready(());
        }
        // What was received after the last request may have been this one; a FIN stays one.
        if self.serial != exchange.serial.get() {
            self.serial = exchange.serial.get();
            if matches!(self.watch, Watch::Blind) {
                self.watch = Watch::Listening;
            }
        }
        if matches!(self.watch, Watch::Listening) {
            match self.socket.poll_incoming(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Incoming::Broken) => return Poll::Ready(()),
                Poll::Ready(Incoming::Bytes) => {
                    self.watch = Watch::Blind;
                    self.wake_in(GRACE);
                }
                Poll::Ready(Incoming::End) => self.half_closed(),
            }
        }
        while self
            .timer
            .as_mut()
            .is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
        {
            if self.timer_rang(exchange, cx) {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    /// Ready when an answer's time is over whose client takes no more of it: the codec asks the answer for nothing then, so
    /// that it cannot end itself.
    fn poll_overdue(&mut self, exchange: &Exchange, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = exchange.deadline.get().filter(|_| self.socket.is_clogged()) else {
            self.overdue = None;
            return Poll::Pending;
        };
        self.overdue
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)))
            .as_mut()
            .poll(cx)
    }

    fn half_closed(&mut self) {
        self.watch = Watch::HalfClosed {
            since: Instant::now(),
            look: LOOKS.len(),
        };
        self.wake_in(GRACE);
    }

    /// Looks again at a client that cannot be listened to; true: it is gone.
    fn timer_rang(&mut self, exchange: &Exchange, cx: &mut Context<'_>) -> bool {
        let Watch::HalfClosed { since, look } = self.watch else {
            if self.socket.peer_has_closed(cx) {
                self.half_closed();
            } else {
                self.wake_in(GRACE);
            }
            return false;
        };
        let silent = !exchange.committed.get() && !exchange.interim_allowed.get();
        if self.socket.is_broken() || (silent && since.elapsed() >= OLD_PATIENCE) {
            return true;
        }
        let look = if look >= LOOKS.len() {
            self.probe(exchange, cx);
            0
        } else {
            look + 1
        };
        self.watch = Watch::HalfClosed { since, look };
        self.wake_in(LOOKS.get(look).copied().unwrap_or(AGAIN));
        false
    }

    fn wake_in(&mut self, delay: Duration) {
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(delay)));
        timer.as_mut().reset(Instant::now() + delay);
    }

    fn probe(&self, exchange: &Exchange, cx: &mut Context<'_>) {
        if exchange.committed.get() {
            exchange.wants_comment.set(true);
            cx.waker().wake_by_ref();
        } else if exchange.interim_allowed.get() {
            self.socket.write_now(CONTINUE, cx);
        }
    }
}
