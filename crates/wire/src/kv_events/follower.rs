//! One publisher followed: from its messages to changes of what its engine holds.

use xxhash_rust::xxh3::xxh3_64;

use super::batch::{Batch, BatchError};
use super::blocks::{Blocks, Change, Placed};
use super::sequence::{Numbered, Reset, Sequence, Step};

/// Why a message is of no use. Quotes nothing of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It has not the parts `[topic, number, batch]`.
    Parts,
    /// Its number has not eight bytes.
    Number,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Parts => "a message without the parts [topic, number, batch]",
            Self::Number => "a message whose number has not eight bytes",
        })
    }
}

impl std::error::Error for Fault {}

/// Batches that are to be asked for on the replay socket. It takes the place of what was asked for before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The number of the first one.
    pub from: u64,
}

/// What was seen of a publisher.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FollowerCounts {
    /// Batches taken on.
    pub batches: u64,
    /// Events of them.
    pub events: u64,
    /// Times that batches were wanted again; whether they can be asked for, who follows knows.
    pub replays: u64,
    /// Times that the publisher began anew.
    pub restarts: u64,
    /// Times that batches were missing and could not be had again.
    pub losses: u64,
    /// Batches that could not be read, each of which clears the view.
    pub broken: u64,
    /// Events of kinds that are not known here.
    pub unknown: u64,
    /// Stored blocks that could not be used, in events.
    pub unusable: u64,
}

/// Follows one publisher: one engine, or one data-parallel rank of it.
#[derive(Debug)]
pub struct Follower {
    sequence: Sequence<Result<Batch, BatchError>>,
    blocks: Blocks,
    counts: FollowerCounts,
    /// Whether everything is known since the cache was empty.
    whole: bool,
    /// Whether a batch was taken on since all was forgotten.
    begun: bool,
    /// When the newest batch that was taken on was made.
    seconds: f64,
    steps: Vec<Step<Result<Batch, BatchError>>>,
}

/// The number of the message that ends a replay.
const END: u64 = u64::MAX;

impl Follower {
    /// Nothing known yet, and never more than `blocks_max` blocks kept.
    #[must_use]
    pub fn new(blocks_max: usize) -> Self {
        Self {
            sequence: Sequence::default(),
            blocks: Blocks::new(blocks_max),
            counts: FollowerCounts::default(),
            whole: false,
            begun: false,
            seconds: 0.0,
            steps: Vec::new(),
        }
    }

    /// A connection to the publisher is there, which may have begun anew meanwhile.
    pub fn connected(&mut self, changes: &mut Vec<Change>) -> Option<Ask> {
        self.run(|sequence, steps| sequence.connected(steps), changes)
    }

    /// Nothing came for a while: whether something got lost on the way is worth a replay.
    pub fn check(&mut self, changes: &mut Vec<Change>) -> Option<Ask> {
        self.run(Sequence::check, changes)
    }

    /// A message was published: `[topic, number, batch]`.
    ///
    /// # Errors
    ///
    /// What is no such message. It changes nothing; the batch is then missing, which the next one shows.
    pub fn published<B: AsRef<[u8]>>(
        &mut self,
        parts: &[B],
        changes: &mut Vec<Change>,
    ) -> Result<Option<Ask>, Fault> {
        let (number, bytes) = numbered(parts)?;
        let item = item(number, bytes);
        Ok(self.run(|sequence, steps| sequence.published(item, steps), changes))
    }

    /// A message came on the replay socket: `[topic, number, batch]`, of older publishers `[number, batch]`, the empty
    /// part before them left out or not.
    ///
    /// # Errors
    ///
    /// What is no such message.
    pub fn replayed<B: AsRef<[u8]>>(
        &mut self,
        parts: &[B],
        changes: &mut Vec<Change>,
    ) -> Result<Option<Ask>, Fault> {
        let (number, bytes) = numbered(parts)?;
        if number == END && bytes.is_empty() {
            return Ok(self.run(Sequence::replay_ended, changes));
        }
        let item = item(number, bytes);
        Ok(self.run(|sequence, steps| sequence.replayed(item, steps), changes))
    }

    /// What was asked for cannot be had.
    pub fn replay_failed(&mut self, changes: &mut Vec<Change>) -> Option<Ask> {
        self.run(Sequence::replay_failed, changes)
    }

    /// Whether what was asked for is still wanted. Where not, the replay socket has done its work.
    #[must_use]
    pub fn asking(&self) -> bool {
        self.sequence.asking()
    }

    /// Batches that wait for missing ones.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.sequence.waiting()
    }

    /// Whether everything is known since the cache was empty.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.whole
    }

    /// Different blocks that the engine holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.blocks.len()
    }

    /// Tokens of a block, once one was stored.
    #[must_use]
    pub fn block_size(&self) -> Option<u32> {
        self.blocks.block_size()
    }

    /// [`chain::root`](super::chain::root)s of the adapters that blocks were stored for, the first few hundred.
    #[must_use]
    pub fn adapters(&self) -> &[u64] {
        self.blocks.adapters()
    }

    /// What was seen.
    #[must_use]
    pub fn counts(&self) -> FollowerCounts {
        self.counts
    }

    /// What became of the blocks seen.
    #[must_use]
    pub fn placed(&self) -> Placed {
        self.blocks.placed()
    }

    /// When the newest batch taken on was made, by the engine's clock, seconds since 1970.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    fn run(
        &mut self,
        input: impl FnOnce(&mut Sequence<Result<Batch, BatchError>>, &mut Vec<Step<Result<Batch, BatchError>>>),
        changes: &mut Vec<Change>,
    ) -> Option<Ask> {
        let mut steps = std::mem::take(&mut self.steps);
        input(&mut self.sequence, &mut steps);
        let mut ask = None;
        for step in steps.drain(..) {
            if let Step::Ask { from } = step {
                self.counts.replays += 1;
                ask = Some(Ask { from });
            } else {
                self.step(step, changes);
            }
        }
        self.steps = steps;
        ask.filter(|_| self.sequence.asking())
    }

    fn step(&mut self, step: Step<Result<Batch, BatchError>>, changes: &mut Vec<Change>) {
        match step {
            Step::Apply {
                batch: Ok(batch),
                first,
            } => {
                self.begin(first, changes);
                self.whole |= batch.events.contains(&super::Event::Cleared);
                self.counts.batches += 1;
                self.counts.events += batch.events.len() as u64;
                self.counts.unknown += u64::from(batch.unknown);
                self.counts.unusable += u64::from(batch.unusable);
                self.seconds = batch.seconds;
                self.blocks.apply(batch, changes);
            }
            Step::Apply { batch: Err(_), .. } => {
                self.counts.broken += 1;
                self.forget(Change::Lost, changes);
                self.begun = true;
            }
            Step::Reset(Reset::Restarted) => {
                self.counts.restarts += 1;
                self.forget(Change::Cleared, changes);
            }
            Step::Reset(Reset::Lost) => {
                self.counts.losses += 1;
                self.forget(Change::Lost, changes);
            }
            Step::Ask { .. } => {}
        }
    }

    /// Before the first batch of a view: whether it is the first of its publisher's life.
    fn begin(&mut self, first: bool, changes: &mut Vec<Change>) {
        if self.begun {
            return;
        }
        self.begun = true;
        self.whole = first;
        changes.push(if first { Change::Cleared } else { Change::Lost });
    }

    fn forget(&mut self, change: Change, changes: &mut Vec<Change>) {
        self.whole = false;
        self.begun = false;
        self.blocks.clear();
        changes.push(change);
    }
}

/// The number and the batch, the last two parts.
fn numbered<B: AsRef<[u8]>>(parts: &[B]) -> Result<(u64, &[u8]), Fault> {
    let [.., number, batch] = parts else {
        return Err(Fault::Parts);
    };
    let number = number.as_ref().try_into().map_err(|_| Fault::Number)?;
    Ok((u64::from_be_bytes(number), batch.as_ref()))
}

fn item(number: u64, bytes: &[u8]) -> Numbered<Result<Batch, BatchError>> {
    let batch = Batch::decode(bytes);
    Numbered {
        number,
        mark: xxh3_64(bytes),
        seconds: batch.as_ref().map_or(0.0, |batch| batch.seconds),
        bytes: bytes.len(),
        batch,
    }
}

#[cfg(test)]
mod tests;
