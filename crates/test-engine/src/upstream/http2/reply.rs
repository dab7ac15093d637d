//! The answering side of one stream.

use super::super::conn::Stop;
use super::super::state::lock;
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, ready};

/// The stream, before its head and after.
pub(crate) struct Reply(Mutex<State>);

struct State {
    respond: SendResponse<Bytes>,
    body: Option<SendStream<Bytes>>,
}

impl Reply {
    pub(super) fn new(respond: SendResponse<Bytes>) -> Reply {
        Reply(Mutex::new(State { respond, body: None }))
    }

    pub(crate) fn head(&self, head: http::Response<()>) -> Result<(), Stop> {
        let mut state = lock(&self.0);
        let body = state.respond.send_response(head, false).map_err(|_| Stop::Gone)?;
        state.body = Some(body);
        Ok(())
    }

    /// Sends all of `data`, as fast as the peer takes it.
    pub(crate) async fn send(&self, data: &[u8]) -> Result<(), Stop> {
        let mut data = Bytes::copy_from_slice(data);
        while !data.is_empty() {
            poll_fn(|cx| {
                let mut state = lock(&self.0);
                let body = state.body.as_mut().ok_or(Stop::Gone)?;
                body.reserve_capacity(data.len());
                while body.capacity() == 0 {
                    if !matches!(ready!(body.poll_capacity(cx)), Some(Ok(_))) {
                        return Poll::Ready(Err(Stop::Gone));
                    }
                }
                let piece = data.split_to(body.capacity().min(data.len()));
                Poll::Ready(body.send_data(piece, false).map_err(|_| Stop::Gone))
            })
            .await?;
        }
        Ok(())
    }

    pub(crate) fn end(&self) -> Result<(), Stop> {
        match &mut lock(&self.0).body {
            Some(body) => body.send_data(Bytes::new(), true).map_err(|_| Stop::Gone),
            None => Err(Stop::Gone),
        }
    }

    pub(super) fn reset(&self, reason: Reason) {
        let mut state = lock(&self.0);
        match &mut state.body {
            Some(body) => body.send_reset(reason),
            None => state.respond.send_reset(reason),
        }
    }

    /// Waits until the peer resets the stream, and gives its reason; none where the connection ended.
    pub(super) async fn gone(&self) -> Option<Reason> {
        poll_fn(|cx| {
            let mut state = lock(&self.0);
            match &mut state.body {
                Some(body) => body.poll_reset(cx),
                None => state.respond.poll_reset(cx),
            }
        })
        .await
        .ok()
    }
}

/// The reason that a mode names, or numbers.
pub(super) fn reason(name: &str) -> Reason {
    let named = [
        Reason::NO_ERROR,
        Reason::PROTOCOL_ERROR,
        Reason::INTERNAL_ERROR,
        Reason::FLOW_CONTROL_ERROR,
        Reason::REFUSED_STREAM,
        Reason::CANCEL,
        Reason::ENHANCE_YOUR_CALM,
        Reason::HTTP_1_1_REQUIRED,
    ];
    let found = named.into_iter().find(|reason| format!("{reason:?}") == name);
    found.unwrap_or_else(|| {
        name.parse()
            .map_or(Reason::INTERNAL_ERROR, |code: u32| code.into())
    })
}
