//! A response body that turns the engine's events into server-sent events.

use super::driver::Ticket;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use weighbridge_sim::engine::EventKind;

/// Tokens after which a frame is closed, so that a slow reader meets back pressure.
const EVENTS_PER_FRAME: usize = 256;

/// Writes the events of one answer in its dialect.
pub(super) trait Script: Send {
    /// Appends what the client gets to see of one event.
    fn write(&mut self, event: EventKind, out: &mut Vec<u8>);
}

/// The body. Dropped before its end, as when the client leaves, it cancels the work.
pub(super) struct TokenBody {
    ticket: Option<Ticket>,
    script: Box<dyn Script>,
}

impl TokenBody {
    pub(super) fn new(ticket: Ticket, script: Box<dyn Script>) -> Self {
        Self {
            ticket: Some(ticket),
            script,
        }
    }
}

impl Body for TokenBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = &mut *self;
        let Some(ticket) = &mut this.ticket else {
            return Poll::Ready(None);
        };
        let mut out = Vec::new();
        for _ in 0..EVENTS_PER_FRAME {
            match ticket.poll_event(cx) {
                Poll::Pending if out.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                // An error cuts the connection, which is what a client of a dying engine sees.
                Poll::Ready(None) => return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into()))),
                Poll::Ready(Some(event)) => {
                    this.script.write(event, &mut out);
                    if event == EventKind::Finished {
                        this.ticket = None;
                        break;
                    }
                }
            }
        }
        if out.is_empty() && this.ticket.is_some() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.ticket.is_none()
    }
}
