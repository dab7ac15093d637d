//! A form with a file in it, sent on while it still arrives.
//!
//! What has arrived is kept, up to the largest body allowed, until the answer is on its way: each attempt reads it from the
//! start and then waits for more. Nothing is kept twice; attempts share the pieces.

use super::body::{Fault, broken, latest};
use crate::memory::{Metered, Room, Stopped};
use bytes::{Bytes, BytesMut};
use http_body::{Body, SizeHint};
use hyper::body::Incoming;
use std::cell::{RefCell, RefMut};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use weighbridge_wire::form::{FormError, FormModel, FormScanner};

/// Pieces from this size on are kept as they came; smaller ones are gathered into blocks, so that many tiny ones cost
/// hardly more than their bytes.
const PIECE_MIN: usize = 16 * 1024;
/// Size of such a block.
const BLOCK: usize = 64 * 1024;

/// The body of a request upstream cannot be completed; whoever sends it must give up.
#[derive(Debug, thiserror::Error)]
#[error("the request's body did not arrive")]
pub(crate) struct Broken;

/// Why there is no whole form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFault {
    /// It did not arrive as it should.
    Body(Fault),
    /// There is no memory for it.
    NoRoom,
    /// What arrived is no form that can be taken.
    Form(FormError),
    /// Nobody wants it any more.
    Unwanted,
}

/// What bounds a form: the length its head says, if any, and how much is allowed.
pub(crate) type Bounds = (Option<usize>, usize);

/// A form that arrives. Clones are the same one.
pub(crate) struct Upload<B = Incoming>(Rc<RefCell<Shared<B>>>);

impl<B> Clone for Upload<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

struct Shared<B> {
    /// What is still to come; none once all has come, or no more is wanted.
    body: Option<Metered<B>>,
    /// The room that what has come takes, once all has.
    room: Option<Room>,
    said: Option<usize>,
    most: usize,
    scanner: FormScanner,
    /// What has come: full blocks in order, each with where it begins, then the last one.
    blocks: Vec<(usize, Bytes)>,
    tail: BytesMut,
    len: usize,
    /// How far the newest attempt has read.
    sent: usize,
    /// Counts what changed, so that the other side is woken for it.
    changes: u64,
    /// When the upstream last took something, or last had to wait for it.
    moved: Instant,
    began: Instant,
    late: Pin<Box<Sleep>>,
    fault: Option<UploadFault>,
    /// The answer is on its way, so what has been read need not be kept.
    committed: bool,
    driver: Option<Waker>,
    reader: Option<Waker>,
}

impl<B: Body<Data = Bytes, Error: std::error::Error + 'static> + Unpin> Upload<B> {
    pub(crate) fn new(body: Metered<B>, (said, most): Bounds, scanner: FormScanner) -> Self {
        let now = Instant::now();
        let too_large = said.is_some_and(|said| said > most);
        Self(Rc::new(RefCell::new(Shared {
            body: Some(body),
            room: None,
            said,
            most,
            scanner,
            blocks: Vec::new(),
            tail: BytesMut::new(),
            len: 0,
            sent: 0,
            changes: 0,
            moved: now,
            began: now,
            late: Box::pin(tokio::time::sleep_until(latest(now, 0))),
            fault: too_large.then_some(UploadFault::Body(Fault::TooLarge)),
            committed: false,
            driver: None,
            reader: None,
        })))
    }

    /// Takes what has arrived, until `over`; the caller is woken when more comes.
    pub(crate) fn drive(&self, cx: &Context<'_>, over: bool) -> Option<UploadFault> {
        let mut shared = self.0.borrow_mut();
        let before = shared.changes;
        let waits = shared.receive(cx);
        if over && waits {
            shared.fail(UploadFault::Body(Fault::Over));
        }
        if shared.changes > before {
            wake(&mut shared.reader, cx);
        }
        shared.driver = Some(cx.waker().clone());
        shared.fault
    }

    /// Waits until the model is known, or all has arrived.
    pub(crate) async fn model(&self, over: impl Fn() -> bool) -> Result<Option<FormModel>, UploadFault> {
        std::future::poll_fn(|cx| {
            if let Some(fault) = self.drive(cx, over()) {
                return Poll::Ready(Err(fault));
            }
            let shared = self.0.borrow();
            match shared.scanner.model() {
                Some(model) => Poll::Ready(Ok(Some(model.clone()))),
                None if shared.is_complete() => Poll::Ready(Ok(None)),
                None => Poll::Pending,
            }
        })
        .await
    }
}

impl<B> Upload<B> {
    /// Whether all of it has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.0.borrow().is_complete()
    }

    /// Whether the form asks for a stream, as far as it has arrived.
    pub(crate) fn stream(&self) -> bool {
        self.0.borrow().scanner.stream()
    }

    /// When an upstream that has been given all that is there, and may take `patience`, is out of time; none while it is
    /// the client that is waited for.
    pub(crate) fn due(&self, patience: Duration) -> Option<Instant> {
        let shared = self.0.borrow();
        let waits = !shared.is_complete() && shared.sent >= shared.len;
        (!waits).then(|| shared.moved + patience)
    }

    /// What to change so that the form names `model`: the place, and what stands there then.
    pub(crate) fn rename(&self, model: &str, may_add: bool) -> Option<(Range<usize>, Bytes)> {
        let shared = self.0.borrow();
        match shared.scanner.model() {
            Some(named) if named.name == model => None,
            Some(named) => Some((named.place.clone(), Bytes::copy_from_slice(model.as_bytes()))),
            None if !may_add => None,
            None => {
                let (at, part) = shared.scanner.model_part(model)?;
                Some((at..at, part.into()))
            }
        }
    }

    /// The answer is on its way: nobody will read from the start again.
    pub(crate) fn commit(&self) {
        let mut shared = self.0.borrow_mut();
        shared.committed = true;
        let sent = shared.sent;
        for (begins, bytes) in &mut shared.blocks {
            if *begins + bytes.len() <= sent {
                *begins += bytes.len();
                *bytes = Bytes::new();
            }
        }
        let reader = shared.reader.take();
        drop(shared);
        // Whoever read for the attempt no longer does.
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// No more is wanted: an attempt that still reads breaks off.
    pub(crate) fn abandon(&self) {
        let mut shared = self.0.borrow_mut();
        if !shared.is_complete() {
            shared.fail(UploadFault::Unwanted);
        }
        let reader = shared.reader.take();
        drop(shared);
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

impl<B> Shared<B> {
    fn is_complete(&self) -> bool {
        self.body.is_none() && self.fault.is_none()
    }

    fn fail(&mut self, fault: UploadFault) {
        self.fault.get_or_insert(fault);
        self.body = None;
        self.changes += 1;
    }

    fn add(&mut self, data: Bytes) {
        if self.sent >= self.len {
            self.moved = Instant::now();
        }
        let begins = self.len;
        self.len += data.len();
        self.changes += 1;
        if data.len() >= PIECE_MIN {
            self.seal(begins);
            self.blocks.push((begins, data));
            return;
        }
        if self.tail.len() + data.len() > BLOCK {
            self.seal(begins);
        }
        if self.tail.capacity() == 0 {
            let wanted = self.said.unwrap_or(BLOCK).saturating_sub(begins).min(BLOCK);
            self.tail = BytesMut::with_capacity(wanted.max(data.len()));
        }
        self.tail.extend_from_slice(&data);
    }

    /// The last block, which ends at `end`, is full.
    fn seal(&mut self, end: usize) {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail).freeze();
            self.blocks.push((end - tail.len(), tail));
        }
    }

    /// What stands at `at`, as much of it as lies together; `block` is where the last search ended.
    fn piece(&mut self, at: usize, block: &mut usize) -> Bytes {
        while let Some((begins, bytes)) = self.blocks.get_mut(*block) {
            if at < *begins + bytes.len() {
                return bytes.slice(at - *begins..);
            }
            if self.committed {
                *begins += bytes.len();
                *bytes = Bytes::new();
            }
            *block += 1;
        }
        let begins = self.len - self.tail.len();
        Bytes::copy_from_slice(&self.tail[at - begins..])
    }
}

impl<B: Body<Data = Bytes, Error: std::error::Error + 'static> + Unpin> Shared<B> {
    /// Takes what is there; true if more must be waited for.
    fn receive(&mut self, cx: &Context<'_>) -> bool {
        let mut cx = Context::from_waker(cx.waker());
        loop {
            let Some(body) = self.body.as_mut().filter(|_| self.fault.is_none()) else {
                return false;
            };
            match Pin::new(body).poll_frame(&mut cx) {
                Poll::Ready(None) => self.end(),
                Poll::Ready(Some(Err(Stopped::NoRoom))) => self.fail(UploadFault::NoRoom),
                Poll::Ready(Some(Err(error))) => self.fail(UploadFault::Body(broken(&error))),
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.take(data);
                    }
                }
                Poll::Pending => {
                    if self.late.as_mut().poll(&mut cx).is_pending() {
                        return true;
                    }
                    self.fail(UploadFault::Body(Fault::Slow));
                }
            }
        }
    }

    fn take(&mut self, data: Bytes) {
        if self.len + data.len() > self.most {
            return self.fail(UploadFault::Body(Fault::TooLarge));
        }
        if let Err(error) = self.scanner.feed(&data) {
            return self.fail(UploadFault::Form(error));
        }
        self.add(data);
        self.late.as_mut().reset(latest(self.began, self.len));
    }

    fn end(&mut self) {
        match self.scanner.finish() {
            Err(error) => self.fail(UploadFault::Form(error)),
            Ok(()) => {
                self.room = self.body.take().map(Metered::into_room);
                self.changes += 1;
                self.moved = Instant::now();
                self.seal(self.len);
            }
        }
    }
}

/// Wakes the other side, unless it is the one that works now.
fn wake(other: &mut Option<Waker>, cx: &Context<'_>) {
    if let Some(waker) = other.take_if(|waker| !waker.will_wake(cx.waker())) {
        waker.wake();
    }
}

/// A form as one attempt sends it.
pub(crate) struct UploadBody<B = Incoming> {
    upload: Upload<B>,
    /// How far it has been read.
    at: usize,
    block: usize,
    /// What differs upstream: a place and what stands there instead.
    change: Option<(Range<usize>, Bytes)>,
    total: Option<usize>,
    /// Bytes given out.
    given: usize,
}

impl<B: Body<Data = Bytes, Error: std::error::Error + 'static> + Unpin> UploadBody<B> {
    /// From the start, with `change`, whose place has arrived.
    pub(crate) fn new(upload: &Upload<B>, change: Option<(Range<usize>, Bytes)>) -> Self {
        let mut shared = upload.0.borrow_mut();
        shared.sent = 0;
        shared.moved = Instant::now();
        let total = if shared.is_complete() {
            Some(shared.len)
        } else {
            shared.said
        };
        let total = total.map(|total| match &change {
            Some((place, text)) => total - place.len() + text.len(),
            None => total,
        });
        drop(shared);
        Self {
            upload: upload.clone(),
            at: 0,
            block: 0,
            change,
            total,
            given: 0,
        }
    }

    pub(crate) fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        let data = self.poll_piece(cx);
        if let Poll::Ready(Some(Ok(data))) = &data {
            self.given += data.len();
        }
        data
    }

    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        let Self {
            upload,
            at,
            block,
            change,
            ..
        } = self;
        let mut shared = upload.0.borrow_mut();
        if *at >= shared.len {
            let before = shared.changes;
            shared.receive(cx);
            if shared.changes > before {
                wake(&mut shared.driver, cx);
            }
        }
        if shared.fault.is_some() {
            return Poll::Ready(Some(Err(Broken)));
        }
        if let Some((place, text)) =
            change.take_if(|(place, _)| place.start == *at && shared.len >= place.end)
        {
            *at = place.end;
            if !text.is_empty() {
                return Poll::Ready(Some(Ok(text)));
            }
        }
        if *at >= shared.len {
            if shared.is_complete() {
                return Poll::Ready(None);
            }
            shared.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Self::next(&mut shared, (at, block), change.as_ref()))))
    }

    /// The next piece, up to the place of the change.
    fn next(
        shared: &mut RefMut<'_, Shared<B>>,
        (at, block): (&mut usize, &mut usize),
        change: Option<&(Range<usize>, Bytes)>,
    ) -> Bytes {
        let mut piece = shared.piece(*at, block);
        if let Some((place, _)) = change {
            piece.truncate(place.start - *at);
        }
        *at += piece.len();
        shared.sent = *at;
        shared.moved = Instant::now();
        piece
    }

    pub(crate) fn is_over(&self) -> bool {
        let shared = self.upload.0.borrow();
        shared.is_complete() && self.at >= shared.len && self.change.is_none()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        self.total.map_or_else(SizeHint::default, |total| {
            SizeHint::with_exact(total.saturating_sub(self.given) as u64)
        })
    }
}

impl<B> Drop for UploadBody<B> {
    fn drop(&mut self) {
        // It may be this one that would have been woken, and nobody else then.
        let driver = self.upload.0.borrow_mut().driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

#[cfg(test)]
mod tests;
