//! Following one engine.

use super::link::{Link, LinkError};
use super::replay::{Replay, Reply};
use super::source;
use super::status::Status;
use crate::gateway::Gateway;
use crate::tokens::Told;
use bytes::Bytes;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use weighbridge_config::kv_events::{Place, Source};
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::signals::CacheChange;
use weighbridge_core::{EndpointId, Event};
use weighbridge_wire::kv_events::{Ask, Change, Fault, Follower};

/// Most blocks of one engine that are kept track of, at about 60 bytes each.
const BLOCKS_MAX: usize = 2_000_000;
/// Most blocks that the scheduler is told of at once: bounds for how long its lock is held.
const TOLD_MAX: usize = 256;
/// Where nothing can be asked for again: how long what is missing may still come by itself.
const GRACE: Duration = Duration::from_millis(500);
/// Silence after which the engine is asked whether something got lost: nothing else shows the loss of its last batch.
const SILENCE: Duration = Duration::from_secs(10);

/// Longest lag that is believed, seconds: beyond a day it tells of clocks, not of batches.
const LAG_MAX: f64 = 86_400.0;

/// Follows one engine until it is dropped.
pub(super) struct Subscriber {
    gateway: Arc<Gateway>,
    id: EndpointId,
    replay_at: Option<Place>,
    status: Arc<Status>,
    told: Arc<Told>,
    follower: Follower,
    link: Option<Link>,
    replay: Option<Replay>,
    /// When what is missing is given up, or the engine is asked whether something is.
    due: Option<Instant>,
    changes: Vec<Change>,
    faults: u64,
    /// Times that the engine was asked for batches.
    replays: u64,
}

/// What happens next.
enum Next {
    Connected(Box<Link>),
    Published(Result<Vec<Bytes>, LinkError>),
    Replied(Option<Reply>),
    Due,
    Over,
}

impl Subscriber {
    pub(super) fn new(
        gateway: Arc<Gateway>,
        id: EndpointId,
        (replay_at, status, told): (Option<Place>, Arc<Status>, Arc<Told>),
    ) -> Self {
        Self {
            gateway,
            id,
            replay_at,
            status,
            told,
            follower: Follower::new(BLOCKS_MAX),
            link: None,
            replay: None,
            due: None,
            changes: Vec::new(),
            faults: 0,
            replays: 0,
        }
    }

    /// Follows for ever.
    pub(super) async fn run(mut self, source: Source) {
        let (sender, mut links) = mpsc::channel(1);
        let lost = Rc::new(Notify::new());
        let connecting = source::run(source, sender, (lost.clone(), self.status.clone()));
        let _connecting = EndsWith(tokio::task::spawn_local(connecting).abort_handle());
        loop {
            match self.next(&mut links).await {
                Next::Connected(link) => {
                    self.link = Some(*link);
                    self.status.connected();
                    let ask = self.follower.connected(&mut self.changes);
                    self.took(ask).await;
                }
                Next::Published(Ok(parts)) => {
                    let ask = self.follower.published(&parts, &mut self.changes);
                    self.heard(ask).await;
                }
                Next::Published(Err(error)) => {
                    self.link = None;
                    // One that is away has nothing new to tell; whether it is the same is asked when it is back.
                    if !self.follower.asking() {
                        self.due = None;
                    }
                    self.status.disconnected(&error.to_string());
                    lost.notify_one();
                }
                Next::Replied(Some(Reply::Message(parts))) => {
                    let ask = self.follower.replayed(&parts, &mut self.changes);
                    self.heard(ask).await;
                }
                Next::Replied(reply) => {
                    if let Some(Reply::Failed(error)) = reply {
                        self.status.failed(&format!("the replay failed: {error}"));
                    }
                    self.give_up().await;
                }
                Next::Due if self.follower.asking() => self.give_up().await,
                Next::Due => {
                    let ask = self.follower.check(&mut self.changes);
                    self.took(ask).await;
                }
                Next::Over => return,
            }
        }
    }

    async fn next(&mut self, links: &mut mpsc::Receiver<Link>) -> Next {
        let published = async {
            match &mut self.link {
                Some(link) => link.receive().await,
                None => pending().await,
            }
        };
        let replied = async {
            match &mut self.replay {
                Some(replay) => replay.next().await,
                None => pending().await,
            }
        };
        let due = async {
            match self.due {
                Some(due) => sleep_until(due).await,
                None => pending().await,
            }
        };
        tokio::select! {
            link = links.recv() => link.map_or(Next::Over, |link| Next::Connected(Box::new(link))),
            message = published => Next::Published(message),
            reply = replied => Next::Replied(reply),
            () = due => Next::Due,
        }
    }

    async fn give_up(&mut self) {
        self.replay = None;
        let ask = self.follower.replay_failed(&mut self.changes);
        self.took(ask).await;
    }

    async fn heard(&mut self, said: Result<Option<Ask>, Fault>) {
        match said {
            Ok(ask) => self.took(ask).await,
            Err(fault) => {
                self.faults += 1;
                self.status.unreadable();
                self.status.failed(&fault.to_string());
            }
        }
    }

    /// Does what the follower wants, and passes on what it found out.
    async fn took(&mut self, ask: Option<Ask>) {
        let silence = self.link.as_ref().map(|_| Instant::now() + SILENCE);
        match (ask, &self.replay_at) {
            (Some(ask), Some(place)) => {
                self.replays += 1;
                self.replay = Some(Replay::start(place.clone(), ask.from));
                self.due = None;
            }
            (Some(_), None) => self.due = Some(Instant::now() + GRACE),
            (None, Some(_)) if !self.follower.asking() => {
                self.replay = None;
                self.due = silence;
            }
            (None, None) if !self.follower.asking() => self.due = None,
            (None, _) => {}
        }
        let news = !self.changes.is_empty();
        if news {
            self.told.note(&self.follower);
        }
        self.tell().await;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(f64::NAN, |now| now.as_secs_f64());
        let lag = news.then(|| lag(self.follower.seconds(), now));
        self.status
            .update(&self.follower, (self.faults, self.replays, lag));
    }

    /// Tells the scheduler what changed, in pieces.
    async fn tell(&mut self) {
        let mut piece = Vec::new();
        let mut blocks = 0;
        for change in std::mem::take(&mut self.changes) {
            for part in parts(change) {
                blocks += size(&part);
                piece.push(part);
                if blocks >= TOLD_MAX {
                    let changes = std::mem::take(&mut piece);
                    self.gateway.tell(Event::Cache {
                        endpoint: self.id,
                        changes,
                    });
                    blocks = 0;
                    tokio::task::yield_now().await;
                }
            }
        }
        if !piece.is_empty() {
            self.gateway.tell(Event::Cache {
                endpoint: self.id,
                changes: piece,
            });
        }
    }
}

/// A change in the scheduler's terms, cut into pieces.
fn parts(change: Change) -> Vec<CacheChange> {
    let named = |blocks: &[u64]| blocks.iter().map(|block| BlockHash(*block)).collect::<Vec<_>>();
    match change {
        Change::Stored { mut parent, blocks } => blocks
            .chunks(TOLD_MAX)
            .map(|piece| {
                let stored = CacheChange::Stored {
                    parent: parent.map(BlockHash),
                    blocks: named(piece),
                };
                parent = piece.last().copied();
                stored
            })
            .collect(),
        Change::Removed { blocks } => blocks
            .chunks(TOLD_MAX)
            .map(|piece| CacheChange::Removed { blocks: named(piece) })
            .collect(),
        Change::Cleared => vec![CacheChange::Cleared],
        Change::Lost => vec![CacheChange::Lost],
    }
}

fn size(change: &CacheChange) -> usize {
    match change {
        CacheChange::Stored { blocks, .. } | CacheChange::Removed { blocks } => blocks.len(),
        CacheChange::Cleared | CacheChange::Lost => 1,
    }
}

/// Seconds from when a batch was made, by its engine's clock, until now, by ours; none where the clocks disagree.
fn lag(made: f64, now: f64) -> Option<f64> {
    Some(now - made).filter(|lag| (0.0..=LAG_MAX).contains(lag))
}

/// Ends a task with its owner.
struct EndsWith(AbortHandle);

impl Drop for EndsWith {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::lag;

    #[test]
    fn a_lag_is_known_within_a_day() {
        let now = 1_796_005_345.0;
        assert_eq!(lag(now - 2.5, now), Some(2.5));
        assert_eq!(lag(now, now), Some(0.0));
        assert_eq!(lag(now - 86_400.0, now), Some(86_400.0));
        assert_eq!(lag(now - 86_401.0, now), None);
        assert_eq!(lag(1.0, now), None);
        assert_eq!(lag(now + 1.0, now), None);
        assert_eq!(lag(f64::NAN, now), None);
        assert_eq!(lag(f64::NEG_INFINITY, now), None);
        assert_eq!(lag(now, f64::NAN), None);
    }
}
