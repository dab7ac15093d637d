//! Bodies of answers: bytes at hand, or a relay from the upstream's connection to the client's.

use super::attempt::Deadlines;
use super::clocks::{Clocks, Ring};
use super::flight::Flight;
use super::guard::{Guard, last_blank_line};
use super::headers::secrets_blanked;
use super::plan::joined;
use super::prompt::Prompt;
use super::stored;
use super::waiting::{COMMENT, COMMENT_LINE, Waited, Waiting, read_on, sign_of_life};
use crate::burst::Pace;
use crate::lifecycle::Phase;
use crate::snapshot::Upstream;
use crate::telemetry::outcome::Outcome;
use crate::upstream::link::{Incoming, Link};
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;
use weighbridge_core::event::Outcome as Ending;
use weighbridge_wire::{Api, ErrorBody, StreamObserver, Timeout, UnaskedUsage, end_usage};

/// An answer's body was cut; the codec closes the connection, so that the client sees it.
#[derive(Debug, thiserror::Error)]
#[error("the answer was cut")]
pub(crate) struct Cut;

/// Bytes that one frame to the client gathers of what has already arrived.
const GATHER_MAX: usize = 16 * 1024;

/// Room made for them once there are two.
const GATHER_START: usize = 4 * 1024;

/// Bytes that a relay passes on in one turn of its connection; then others have theirs, and the clocks are looked at.
const TURN_MAX: usize = 256 * 1024;

/// What each piece counts for at least: small ones cost more than their bytes.
const PIECE_MIN: usize = 256;

/// What the codec sends to the client.
pub(crate) enum AnswerBody {
    /// All of it.
    Whole(Option<Bytes>),
    /// A stream whose answer has not begun.
    Waiting(Box<Waiting>),
    /// A stream of events.
    Events(Box<Relay>),
    /// A large answer.
    Pieces(Box<Relay>),
}

/// A relay that runs.
pub(crate) struct Relay {
    flight: Flight,
    upstream: Arc<Upstream>,
    api: Api,
    status: u16,
    /// Bytes that were read before the head was sent.
    first: Option<Bytes>,
    source: Option<(Link, Incoming)>,
    /// For streams.
    observer: Option<Box<StreamObserver>>,
    unasked: Option<UnaskedUsage>,
    /// Keeps secrets from passing in pieces.
    guard: Guard,
    prompt: Prompt,
    /// Of large answers in one piece.
    end: End,
    clocks: Clocks,
    closing: Closing,
    /// The last look found data.
    flows: bool,
    pace: Pace,
    /// Bytes passed on in this turn.
    turn: usize,
}

/// The last bytes of an answer, where its usage is.
#[derive(Default)]
struct End(Vec<u8>);

/// Longest end that is kept, bytes; twice that while it is gathered.
const END_MAX: usize = 2048;

impl End {
    fn add(&mut self, data: &[u8]) {
        let newest = &data[data.len().saturating_sub(END_MAX)..];
        if self.0.len() + newest.len() > 2 * END_MAX {
            let older = self.0.len().saturating_sub(END_MAX);
            self.0.drain(..older);
        }
        self.0.extend_from_slice(newest);
    }
}

/// How far a relay that ends has come.
enum Closing {
    /// It has not ended.
    No,
    /// This is still to be sent, then the end.
    With(Bytes),
    /// The end has been reached in good order.
    Ended,
    /// What is written goes out first, then the connection is closed.
    Cut,
    /// It is going out.
    CutNow,
}

/// Data that arrived together, as one: the codec frames and writes each piece it is given by itself, which costs more
/// than the copy. A piece that comes alone is not copied.
#[derive(Default)]
struct Gathered {
    first: Bytes,
    all: BytesMut,
}

impl Gathered {
    fn add(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.all.is_empty() {
            self.all.reserve(GATHER_START.max(self.first.len() + data.len()));
            self.all.extend_from_slice(&self.first);
        }
        self.all.extend_from_slice(&data);
    }

    fn len(&self) -> usize {
        self.all.len().max(self.first.len())
    }

    fn take(self) -> Bytes {
        if self.all.is_empty() {
            self.first
        } else {
            self.all.freeze()
        }
    }
}

/// What a relay is made of.
pub(crate) struct Source {
    pub(crate) first: Bytes,
    pub(crate) link: Link,
    pub(crate) body: Incoming,
    pub(crate) observer: Option<Box<StreamObserver>>,
    /// For streams whose usage the client did not ask for.
    pub(crate) unasked: Option<UnaskedUsage>,
    pub(crate) prompt: Prompt,
    pub(crate) deadlines: Deadlines,
}

impl Relay {
    pub(crate) fn new(
        flight: Flight,
        upstream: Arc<Upstream>,
        (api, status): (Api, u16),
        mut source: Source,
    ) -> Self {
        let timeouts = upstream.pool.config.timeouts;
        let streams = source.observer.is_some();
        let now = Instant::now();
        let clocks = Clocks::new(source.deadlines, timeouts, (streams, flight.heartbeat), now);
        if let Some(whole) = clocks.whole() {
            flight.client.exchange.deadline.set(Some(whole));
        }
        let secrets = &upstream.pool.secrets;
        let mut guard = Guard::new(streams && source.unasked.is_none() && !secrets.is_empty());
        let begun = source
            .observer
            .as_ref()
            .filter(|observer| !observer.at_boundary());
        let end = begun.map_or(source.first.len(), |_| last_blank_line(&source.first));
        let mut first = guard.feed(source.first, end, secrets);
        if let Some(unasked) = &mut source.unasked {
            first = unasked.feed(first);
        }
        let mut relay = Self {
            flight,
            upstream,
            api,
            status,
            first: Some(first).filter(|first| !first.is_empty()),
            source: Some((source.link, source.body)),
            observer: source.observer,
            unasked: source.unasked,
            guard,
            prompt: source.prompt,
            end: End::default(),
            clocks,
            closing: Closing::No,
            flows: false,
            pace: Pace::default(),
            turn: 0,
        };
        let begun = relay
            .observer
            .as_ref()
            .is_some_and(|observer| observer.events() > 0);
        let content = relay
            .observer
            .as_ref()
            .is_some_and(|observer| observer.content_events() > 0);
        relay.note(now, begun, content);
        if relay
            .observer
            .as_ref()
            .is_some_and(|observer| observer.error().is_some())
        {
            let secrets = &relay.upstream.pool.secrets;
            relay.first = relay.first.take().map(|first| secrets_blanked(first, secrets));
            relay.failed();
        }
        if relay.observer.is_none()
            && let Some(first) = &relay.first
        {
            relay.end.add(first);
        }
        // What has come whole before it is passed on ends here: where the length is known, the codec asks for nothing
        // behind it.
        let all_here = |(_, body): &(Link, Incoming)| body.is_end_stream();
        if relay.source.as_ref().is_some_and(all_here) {
            relay.ended();
        }
        relay
    }

    /// Notes what arrived at `now`.
    fn note(&mut self, now: Instant, progress: bool, content: bool) {
        if !progress {
            return;
        }
        let before = self.clocks.progress.replace(now);
        self.pace.note(now, before);
        let at = now.into_std();
        self.flight.progressed(at);
        if content || self.flight.record.first_token.is_some() {
            if self.flight.record.first_token.is_none() {
                self.flight.record.first_token = Some(at);
                self.flight.first_token();
            }
            self.flight.record.last_token = Some(at);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        let mut gathered = Gathered::default();
        loop {
            // At the start, or at the end what was still held back; nothing is gathered then.
            if let Some(first) = self.first.take() {
                return Poll::Ready(Some(Ok(first)));
            }
            match std::mem::replace(&mut self.closing, Closing::Ended) {
                Closing::No => self.closing = Closing::No,
                Closing::With(last) => return Poll::Ready(Some(Ok(last))),
                Closing::Ended => return Poll::Ready(None),
                Closing::Cut => {
                    self.closing = Closing::CutNow;
                    // Once round, so that the codec writes out what it has.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Closing::CutNow if self.flight.client.is_clogged() && !self.flight.has_left() => {
                    // The codec polls again once it has written out what it has.
                    self.closing = Closing::CutNow;
                    return Poll::Pending;
                }
                Closing::CutNow => return Poll::Ready(Some(Err(Cut))),
            }
            let Some((link, body)) = &mut self.source else {
                return Poll::Ready(None);
            };
            if self.turn >= TURN_MAX && gathered.len() == 0 {
                self.turn = 0;
                return self.end_turn(cx);
            }
            match link.poll_frame(body, cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let last = body.is_end_stream();
                    let data = self.watch(data);
                    // Where the length is known the codec asks for nothing more.
                    if last && matches!(self.closing, Closing::No) {
                        self.ended();
                    }
                    self.turn += data.len().max(PIECE_MIN);
                    gathered.add(data);
                    // A piece that comes alone, as most tokens do, goes out without another look.
                    if self.flows && matches!(self.closing, Closing::No) && gathered.len() < GATHER_MAX {
                        continue;
                    }
                    self.flows = true;
                }
                Poll::Ready(Some(Err(_))) => self.broke(),
                Poll::Ready(None) => self.ended(),
                Poll::Pending if gathered.len() == 0 => {
                    self.flows = false;
                    self.turn = 0;
                    return self.poll_idle(cx);
                }
                Poll::Pending => {}
            }
            if gathered.len() > 0 {
                return Poll::Ready(Some(Ok(gathered.take())));
            }
        }
    }

    /// Much has come, and more may be there: somebody else's turn, unless a clock ran out.
    fn end_turn(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        if self.flight.worker.gateway.lifecycle.phase() == Phase::Cutting {
            return self.poll_idle(cx);
        }
        let Some(which) = self.clocks.over() else {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        };
        self.stop(Ending::TimedOut, Outcome::Timeout, &ErrorBody::timeout(which));
        self.poll(cx)
    }

    /// Nothing has come: is it time to stop waiting, or to say something?
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Cut>>> {
        if self.flight.worker.gateway.lifecycle.phase() == Phase::Cutting {
            if !self.is_whole() {
                self.flight.worker.gateway.lifecycle.was_cut();
            }
            self.stop(Ending::Abandoned, Outcome::Unavailable, &ErrorBody::drain_over());
            return self.poll(cx);
        }
        match self.clocks.poll_ring(cx) {
            Poll::Ready(Ring::Over(which)) => {
                self.stop(Ending::TimedOut, Outcome::Timeout, &ErrorBody::timeout(which));
                self.poll(cx)
            }
            // Between events only: inside one the next chance is as far away as the last. Nothing follows the last one.
            Poll::Ready(Ring::Beat) if self.at_boundary() && !self.is_whole() => {
                Poll::Ready(Some(Ok(self.quietly(sign_of_life(self.api)))))
            }
            Poll::Ready(Ring::Beat) => self.poll_idle(cx),
            Poll::Pending
                if self.at_boundary()
                    && !self.is_whole()
                    && self.flight.client.exchange.take_wants_comment() =>
            {
                Poll::Ready(Some(Ok(self.quietly(COMMENT))))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// A sign of life between two events, in the form that no reader takes for one.
    fn quietly(&self, sign: &'static [u8]) -> Bytes {
        let has_ids = self.observer.as_ref().is_some_and(|observer| observer.has_ids());
        Bytes::from_static(if sign == COMMENT && has_ids {
            COMMENT_LINE
        } else {
            sign
        })
    }

    fn at_boundary(&self) -> bool {
        self.observer
            .as_ref()
            .is_some_and(|observer| observer.at_boundary())
    }

    /// Looks at what passes, and gives what may pass: nothing that follows an error, and no key that the error quotes.
    fn watch(&mut self, mut data: Bytes) -> Bytes {
        let Some(observer) = &mut self.observer else {
            // Large answers in one piece are bounded by `total` alone.
            self.end.add(&data);
            return data;
        };
        let before = observer.content_events();
        let fed = observer.feed(&data);
        let content = observer.content_events() > before;
        let at_boundary = observer.at_boundary();
        if fed.progress {
            stored::begun(&self.flight, self.api, observer);
            self.note(Instant::now(), true, content);
        } else if self.flight.heartbeat.is_some() {
            self.clocks.heard = Instant::now();
        }
        data.truncate(fed.error_end.unwrap_or(data.len()));
        let end = if at_boundary {
            data.len()
        } else {
            fed.last_end.unwrap_or_default()
        };
        data = self.guard.feed(data, end, &self.upstream.pool.secrets);
        if let Some(unasked) = &mut self.unasked {
            data = unasked.feed(data);
        }
        if fed.error_end.is_some() {
            self.failed();
            return secrets_blanked(data, &self.upstream.pool.secrets);
        }
        data
    }

    /// The upstream has said that it failed. Whatever it says after that, an end mark above all, would make the answer
    /// look whole.
    fn failed(&mut self) {
        self.explain("the upstream reported an error inside its stream");
        self.close(Ending::Broken, Outcome::UpstreamStreamError, false);
    }

    /// Whether all of the answer has come, though perhaps not the end of its body.
    fn is_whole(&self) -> bool {
        self.observer
            .as_ref()
            .is_some_and(|observer| observer.done() && observer.error().is_none())
    }

    /// The upstream's end, in good order.
    fn ended(&mut self) {
        let Some(observer) = &mut self.observer else {
            self.close(Ending::Complete, Outcome::Ok, true);
            return;
        };
        // An event that only lacks its blank line counts as it stands, and yet nothing fits behind it.
        let fits = observer.at_boundary();
        observer.finish();
        if observer.error().is_some() {
            self.failed();
        } else if observer.done() || observer.finished() {
            self.close(Ending::Complete, Outcome::Ok, true);
        } else {
            let error = ErrorBody::stream_cut();
            self.explain(&error.message);
            self.close(Ending::Broken, Outcome::UpstreamTruncated, false);
            self.tell(fits, &error);
        }
    }

    /// The upstream's end, in no order.
    fn broke(&mut self) {
        self.stop(
            Ending::Broken,
            Outcome::UpstreamStreamError,
            &ErrorBody::stream_cut(),
        );
    }

    /// Stops a relay that has not ended: whoever has the whole answer needs no more, others are told.
    fn stop(&mut self, ending: Ending, outcome: Outcome, error: &ErrorBody) {
        if self.is_whole() {
            self.close(Ending::Complete, Outcome::Ok, false);
            return;
        }
        let fits = self.at_boundary();
        self.explain(&error.message);
        self.close(ending, outcome, false);
        self.tell(fits, error);
    }

    /// Says in the log why the answer is not whole.
    fn explain(&mut self, why: &str) {
        self.flight.record.reason = Some(why.to_owned());
    }

    /// Ends what the client gets: with an error event where one fits, else by closing.
    fn tell(&mut self, fits: bool, error: &ErrorBody) {
        let id = self.flight.record.request_id.clone();
        self.closing = if fits {
            Closing::With(error.sse_event_for(self.api, Some(&id)))
        } else {
            Closing::Cut
        };
    }

    /// Notes what the stream has cost so far.
    fn count(&mut self) {
        let Some(observer) = &self.observer else {
            self.flight.record.usage = end_usage(self.api, &self.end.0);
            return;
        };
        let record = &mut self.flight.record;
        record.content_events = observer.content_events();
        let counted = observer.counted(|| self.prompt.tokens());
        record.usage = counted.map(|counted| counted.usage);
        record.usage_estimated = counted.is_some_and(|counted| counted.estimated);
    }

    /// Reports the end and lets go of the connection.
    fn close(&mut self, ending: Ending, outcome: Outcome, reusable: bool) {
        let reusable = reusable && !self.flight.is_arriving();
        if let Some((link, _)) = self.source.take().filter(|_| reusable) {
            self.flight.worker.upstreams.put(&self.upstream, link);
        }
        self.closing = Closing::Ended;
        let rest = match &mut self.unasked {
            Some(unasked) => {
                let finished = self.observer.as_ref().is_some_and(|observer| observer.finished());
                unasked.cut(finished)
            }
            None => self.guard.finish(),
        };
        if !rest.is_empty() {
            let rest = joined(self.first.take().unwrap_or_default(), rest);
            self.first = Some(secrets_blanked(rest, &self.upstream.pool.secrets));
        }
        self.count();
        self.flight.ended(ending, true);
        self.flight.finish(outcome, self.status);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.source.is_some() && self.first.is_none() && self.is_whole() {
            self.close(Ending::Complete, Outcome::Ok, false);
        }
        // A client that takes nothing keeps the relay from looking at this clock itself.
        if self.source.is_some() && self.clocks.whole().is_some_and(|whole| Instant::now() >= whole) {
            self.explain(&ErrorBody::timeout(Timeout::StreamTotal).message);
            self.close(Ending::TimedOut, Outcome::Timeout, false);
        }
        // Left before the end: what was relayed so far still counts.
        if self.source.is_some() {
            self.count();
        }
    }
}

impl Relay {
    /// Whether the upstream's answer is still wanted though its client leaves.
    fn goes_on(&self) -> bool {
        let lifecycle = &self.flight.worker.gateway.lifecycle;
        self.flight.reads_on
            && self.source.is_some()
            && !self.is_whole()
            && !self.flight.has_left()
            && self.clocks.over().is_none()
            && lifecycle.phase() != Phase::Cutting
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        let (Self::Events(relay) | Self::Pieces(relay)) = self else {
            return;
        };
        if !relay.goes_on() {
            return;
        }
        relay.flight.leave();
        let worker = relay.flight.worker.clone();
        let body = std::mem::replace(self, Self::Whole(None));
        let leftover = Box::pin(read_on(worker.clone(), body));
        worker.leftovers.adopt(leftover);
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let body = self.get_mut();
        if let Self::Waiting(waiting) = body {
            match waiting.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Waited::Sign(sign)) => return Poll::Ready(Some(Ok(Frame::data(sign)))),
                Poll::Ready(Waited::Answer(answer)) => *body = answer,
            }
        }
        match body {
            Self::Waiting(_) => Poll::Pending,
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Events(relay) | Self::Pieces(relay) => relay
                .poll(cx)
                .map(|frame| frame.map(|data| data.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Waiting(_) | Self::Events(_) | Self::Pieces(_) => SizeHint::default(),
        }
    }
}
