//! Requests that outlive the wait for their answer's head, and those that outlive their client.
//!
//! A stream that is slow to begin gets its head and signs of life ([`routes[].heartbeat`]) while its attempts go on behind
//! them, so that nobody between here and the client takes the silence for death. What runs is one future either way: it
//! moves from before the head into the body when the first sign is due. The attempt that runs then rings for it, with the
//! clock that it has anyway, so streams that begin in time pay nothing but a box.
//!
//! [`routes[].heartbeat`]: weighbridge_config::resolved::Route::heartbeat

use super::flight::Flight;
use super::intake::Intake;
use super::relay::AnswerBody;
use super::run;
use crate::client::connection::Client;
use crate::client::turn::Turns;
use crate::lifecycle::Phase;
use crate::server::Worker;
use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Body;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use weighbridge_wire::{Api, Protocol};

/// A request that runs to its answer.
type Running = Pin<Box<dyn Future<Output = Response<AnswerBody>>>>;

/// What a request that runs and whoever polls it tell each other.
#[derive(Default)]
pub(crate) struct Shared {
    /// The head that goes ahead of the answer; the answer must fit under it then.
    head: Cell<Option<HeaderMap>>,
    /// The client has left, and the request goes on without it.
    left: Cell<bool>,
}

impl Shared {
    /// Sends a head ahead of the answer.
    pub(crate) fn send_ahead(&self, head: HeaderMap) {
        self.head.set(Some(head));
    }

    /// Whether the client has left.
    pub(crate) fn has_left(&self) -> bool {
        self.left.get()
    }
}

/// A request that runs. Dropped before its end its client has left: it is withdrawn, or goes on for nobody where its route
/// says so.
struct Owned {
    running: Option<Running>,
    shared: Rc<Shared>,
    worker: Rc<Worker>,
    reads_on: bool,
}

impl Owned {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Response<AnswerBody>> {
        let Some(running) = &mut self.running else {
            return Poll::Pending;
        };
        let answered = running.as_mut().poll(cx);
        if answered.is_ready() {
            self.running = None;
        }
        answered
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let Some(running) = self.running.take().filter(|_| self.reads_on) else {
            return;
        };
        let worker = self.worker.clone();
        self.shared.left.set(true);
        self.worker.leftovers.adopt(Box::pin(async move {
            read_on(worker, running.await.into_body()).await
        }));
    }
}

/// Serves `intake` to its answer, or to the head that goes ahead of it.
pub(crate) async fn serve(mut flight: Flight, intake: Intake) -> Response<AnswerBody> {
    let heartbeat = intake
        .route
        .heartbeat
        .filter(|_| intake.peek.stream && is_generating(intake.api));
    flight.reads_on = intake.route.finish;
    if heartbeat.is_none() && !flight.reads_on {
        return run::run(flight, intake).await;
    }
    let shared = Rc::new(Shared::default());
    flight.await_with(&shared, heartbeat);
    let (worker, client, api) = (flight.worker.clone(), flight.client.clone(), intake.api);
    let reads_on = flight.reads_on;
    let mut owned = Owned {
        running: Some(Box::pin(run::run(flight, intake))),
        shared,
        worker,
        reads_on,
    };
    let begun = poll_fn(|cx| match owned.poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Ok(answer)),
        Poll::Pending => owned
            .shared
            .head
            .take()
            .map_or(Poll::Pending, |head| Poll::Ready(Err(head))),
    });
    let head = match begun.await {
        Ok(answer) => return answer,
        Err(head) => head,
    };
    client.exchange.committed.set(true);
    let every = heartbeat.unwrap_or(Duration::MAX);
    let body = AnswerBody::Waiting(Box::new(Waiting {
        owned,
        client,
        sign: sign_of_life(api),
        every,
        next: Box::pin(tokio::time::sleep(Duration::ZERO)),
    }));
    let mut response = Response::new(body);
    *response.headers_mut() = head;
    response
}

/// Whether streams of this call are made of events that signs of life fit between.
fn is_generating(api: Api) -> bool {
    matches!(
        api,
        Api::ChatCompletions | Api::Completions | Api::Responses | Api::Messages
    )
}

/// What readers of the call's streams pass over. A comment ends with a blank line, for those who split at blank lines; see
/// [`COMMENT_LINE`] for where it must not.
pub(crate) fn sign_of_life(api: Api) -> &'static [u8] {
    match api.protocol() {
        Protocol::OpenAi => COMMENT,
        Protocol::Anthropic => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
    }
}

/// A comment as a block of its own.
pub(crate) const COMMENT: &[u8] = b":\n\n";

/// A comment that the next event begins with: once a stream has given an `id`, some readers (OpenAI's Python client among
/// them) take every blank line for the end of an event, and choke on an empty one.
pub(crate) const COMMENT_LINE: &[u8] = b":\n";

/// The body of a stream whose answer has not begun.
pub(crate) struct Waiting {
    owned: Owned,
    client: Rc<Client>,
    sign: &'static [u8],
    every: Duration,
    /// When the next sign is due.
    next: Pin<Box<Sleep>>,
}

/// What a stream that waits comes to.
pub(crate) enum Waited {
    /// Nothing yet; this goes to the client.
    Sign(Bytes),
    /// The rest of its body.
    Answer(AnswerBody),
}

impl Waiting {
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Waited> {
        if let Poll::Ready(answer) = self.owned.poll(cx) {
            return Poll::Ready(Waited::Answer(answer.into_body()));
        }
        if self.next.as_mut().poll(cx).is_ready() {
            self.next.as_mut().reset(Instant::now() + self.every);
            // Polled again before it is waited for: a body that gave data is.
            return Poll::Ready(Waited::Sign(Bytes::from_static(self.sign)));
        }
        if self.client.exchange.take_wants_comment() {
            return Poll::Ready(Waited::Sign(Bytes::from_static(COMMENT)));
        }
        Poll::Pending
    }
}

/// Most answers that one worker reads for nobody; beyond it they are cancelled as elsewhere.
const LEFTOVERS_MAX: usize = 1024;

/// Answers without a client, on their way to a task of their own.
pub(crate) struct Leftovers {
    sender: tokio::sync::mpsc::UnboundedSender<Leftover>,
    count: Rc<Cell<usize>>,
}

/// An answer that is read to its end.
type Leftover = Pin<Box<dyn Future<Output = ()>>>;

impl Leftovers {
    /// What a worker has, with the task that must run on it.
    pub(crate) fn new() -> (Self, impl Future<Output = ()>) {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<Leftover>();
        let count = Rc::new(Cell::new(0));
        let counted = count.clone();
        let run = async move {
            while let Some(leftover) = receiver.recv().await {
                let counted = counted.clone();
                tokio::task::spawn_local(async move {
                    leftover.await;
                    counted.set(counted.get() - 1);
                });
            }
        };
        (Self { sender, count }, run)
    }

    /// Reads `leftover` to its end, unless there are too many.
    pub(crate) fn adopt(&self, leftover: Leftover) {
        if self.count.get() < LEFTOVERS_MAX {
            self.count.set(self.count.get() + 1);
            let _ = self.sender.send(leftover);
        }
    }
}

/// Reads an answer to its end for nobody, under the same clocks as for a client.
pub(crate) async fn read_on(worker: Rc<Worker>, mut body: AnswerBody) {
    let mut cutting = pin!(worker.gateway.lifecycle.reached(Phase::Cutting));
    let mut cut = false;
    let mut turns = Turns::default();
    poll_fn(|cx| {
        turns.take(cx, |cx| {
            // The relay ends itself when it is polled then.
            if !cut {
                cut = cutting.as_mut().poll(cx).is_ready();
            }
            loop {
                match Pin::new(&mut body).poll_frame(cx) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
    })
    .await;
}
