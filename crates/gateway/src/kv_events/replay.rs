//! Asking a publisher for what got lost.
//!
//! The publisher's ROUTER takes `["", number]` and answers with every batch that it keeps from that number on, each a
//! message, and then with one whose number is -1. A request is a connection of its own, so that the answers to one
//! that is not wanted any more never come between those to the next.

use super::link::{ANSWER, Link, LinkError};
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use weighbridge_config::kv_events::Place;
use weighbridge_wire::zmtp::Role;

/// Messages that may wait to be taken.
const QUEUE: usize = 16;
/// Most messages of an answer that are of no use: batches before those asked for, or again, and what is no batch.
const USELESS_MAX: u32 = 256;
/// Waits before the second and later tries; an engine that starts may publish before it listens for replays.
const AGAIN: [Duration; 3] = [
    Duration::from_millis(200),
    Duration::from_millis(800),
    Duration::from_secs(3),
];

/// What came of it.
pub(super) enum Reply {
    /// A message.
    Message(Vec<Bytes>),
    /// Nothing more will come.
    Failed(LinkError),
}

/// A request that is being answered; dropping it ends it.
pub(super) struct Replay {
    replies: mpsc::Receiver<Reply>,
    task: AbortHandle,
}

impl Replay {
    /// Asks for the batches from number `from` on.
    pub(super) fn start(place: Place, from: u64) -> Self {
        let (sender, replies) = mpsc::channel(QUEUE);
        let task = tokio::task::spawn_local(async move {
            if let Err(error) = run(&place, from, &sender).await {
                // Nobody is there to be told where it has been dropped.
                let _ = sender.send(Reply::Failed(error)).await;
            }
        });
        Self {
            replies,
            task: task.abort_handle(),
        }
    }

    /// The next message; none: nothing more will come.
    pub(super) async fn next(&mut self) -> Option<Reply> {
        self.replies.recv().await
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(place: &Place, from: u64, replies: &mpsc::Sender<Reply>) -> Result<(), LinkError> {
    let mut waits = AGAIN.iter();
    let mut link = loop {
        match Link::connect(place, Role::Dealer).await {
            Ok(link) => break link,
            Err(error) => match waits.next() {
                Some(wait) => sleep(*wait).await,
                None => return Err(error),
            },
        }
    };
    answer(&mut link, (from, ANSWER), replies).await
}

/// Passes on all that comes for the batches from number `from` on, for so long and no longer: whoever takes longer, or sends
/// what was not asked for again and again, gives no answer.
async fn answer(
    link: &mut Link,
    (from, within): (u64, Duration),
    replies: &mpsc::Sender<Reply>,
) -> Result<(), LinkError> {
    let all = async {
        link.send(&[b"", &from.to_be_bytes()]).await?;
        let mut wanted = Wanted {
            next: from,
            useless: 0,
        };
        loop {
            let message = link.receive().await?;
            if !wanted.admits(&message) {
                return Err(LinkError::Useless);
            }
            if replies.send(Reply::Message(message)).await.is_err() {
                return Ok(());
            }
        }
    };
    timeout(within, all).await.map_err(|_| LinkError::AnswerTime)?
}

/// Which batches an answer may still have: publishers send them in order.
struct Wanted {
    next: u64,
    useless: u32,
}

impl Wanted {
    /// Notes a message; false: too many of them are of no use.
    fn admits(&mut self, parts: &[Bytes]) -> bool {
        let number = match parts {
            [.., number, _] => number.as_ref().try_into().ok().map(u64::from_be_bytes),
            _ => None,
        };
        match number {
            Some(number) if number >= self.next => self.next = number.saturating_add(1),
            _ => self.useless += 1,
        }
        self.useless <= USELESS_MAX
    }
}

#[cfg(test)]
mod tests;
