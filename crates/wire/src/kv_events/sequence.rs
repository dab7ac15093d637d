//! Batches in the order in which their publisher made them, whatever the way did to them.
//!
//! A publisher (PUB) drops what a slow subscriber does not take, and what it sent before one subscribed is gone. Its
//! second socket (ROUTER) sends again what it keeps, the newest 10,000 batches by default, from a given number on. A
//! publisher that begins anew counts from 0 again and its engine's cache is empty. Nothing in a batch says which life
//! of the publisher it is from, so a life is known by a batch of it: when a connection was made or numbers are missing,
//! the replay is asked for from the last batch that was taken on, and another batch under that number is another life.

use std::collections::BTreeMap;

/// Most batches that wait for earlier ones.
pub(super) const AHEAD_MAX: usize = 4096;
/// Most bytes of batches that wait for earlier ones.
const AHEAD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Replays in a row that bring nothing, before what is missing is given up.
const IDLE_REPLAYS_MAX: u32 = 3;

/// A batch with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct Numbered<T> {
    /// The number its publisher gave it, from 0.
    pub number: u64,
    /// What tells it from other batches under the same number: a hash of its bytes.
    pub mark: u64,
    /// When its engine made it, seconds since 1970 by that engine's clock.
    pub seconds: f64,
    /// Its size, bytes: what it costs to keep it.
    pub bytes: usize,
    /// The batch.
    pub batch: T,
}

/// Why everything that was known has to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// The publisher began anew, with an empty cache.
    Restarted,
    /// Batches are missing that cannot be had again.
    Lost,
}

/// What to do, in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Step<T> {
    /// This batch is next.
    Apply {
        /// The batch.
        batch: T,
        /// Whether it is the first of its publisher's life, before which the cache was empty.
        first: bool,
    },
    /// What was known is forgotten.
    Reset(Reset),
    /// Batches are to be asked for again, from this number on. It takes the place of what was asked for before.
    Ask {
        /// The first number.
        from: u64,
    },
}

#[derive(Debug, Clone, Copy)]
struct Last {
    number: u64,
    mark: u64,
    seconds: f64,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Whether the publisher may be another one than before: nothing is taken on until its batch under the last number
    /// is the known one.
    verify: bool,
    /// The last number when it was asked.
    began_at: Option<u64>,
    /// Whether the rest of the replay is of no use.
    spoiled: bool,
}

/// The order of one publisher's batches.
#[derive(Debug)]
pub struct Sequence<T> {
    last: Option<Last>,
    ahead: BTreeMap<u64, Numbered<T>>,
    ahead_bytes: usize,
    /// Whether batches were let go of because too many waited.
    overflowed: bool,
    asked: Option<Asked>,
    idle_replays: u32,
}

impl<T> Default for Sequence<T> {
    fn default() -> Self {
        Self {
            last: None,
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
            overflowed: false,
            asked: None,
            idle_replays: 0,
        }
    }
}

impl<T> Sequence<T> {
    /// The number of the last batch taken on.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.last.map(|last| last.number)
    }

    /// Batches that wait for earlier ones.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.ahead.len()
    }

    /// Whether a replay is under way.
    #[must_use]
    pub fn asking(&self) -> bool {
        self.asked.is_some()
    }

    /// A connection to a publisher is there, which need not be the one before.
    pub fn connected(&mut self, steps: &mut Vec<Step<T>>) {
        self.asked = None;
        // Of the same life, it can be had again; of another, it would mislead.
        self.ahead.clear();
        self.ahead_bytes = 0;
        self.overflowed = false;
        self.ask(true, steps);
    }

    /// Nothing came for a while, which may be because the last batches got lost on the way: what the publisher keeps
    /// tells.
    pub fn check(&mut self, steps: &mut Vec<Step<T>>) {
        self.ask(true, steps);
    }

    /// A batch came as it was published.
    pub fn published(&mut self, item: Numbered<T>, steps: &mut Vec<Step<T>>) {
        let Some(last) = self.last else {
            let first = item.number == 0;
            if first && self.asked.is_none() {
                self.take(item, steps);
                self.drain(steps);
            } else {
                self.keep(item);
                self.ask(false, steps);
            }
            return;
        };
        if self.asked.is_some_and(|asked| asked.verify) {
            self.keep(item);
        } else if item.number > last.number {
            self.keep(item);
            self.drain(steps);
            if self.ahead.is_empty() {
                // The missing ones have come by themselves.
                self.asked = None;
            } else {
                self.ask(false, steps);
            }
        } else if item.mark != last.mark && item.seconds > last.seconds {
            self.restart(item, steps);
        }
    }

    /// A batch came because it was asked for.
    pub fn replayed(&mut self, item: Numbered<T>, steps: &mut Vec<Step<T>>) {
        let Some(asked) = self.asked else {
            return self.published(item, steps);
        };
        if asked.spoiled {
            return;
        }
        let Some(last) = self.last else {
            // Whatever is kept first is where the view begins.
            self.take(item, steps);
            self.drain(steps);
            return;
        };
        if asked.verify && item.number == last.number && item.mark == last.mark {
            self.set_asked(Asked {
                verify: false,
                ..asked
            });
            self.drain(steps);
        } else if asked.verify {
            let another = item.number == last.number;
            self.forget(if another { Reset::Restarted } else { Reset::Lost }, steps);
            // From its beginning, which this replay left out.
            self.set_asked(Asked {
                spoiled: true,
                ..asked
            });
        } else if item.number > last.number {
            self.keep(item);
            self.drain(steps);
        } else if item.number == last.number && item.mark != last.mark {
            self.forget(Reset::Restarted, steps);
            self.set_asked(Asked {
                spoiled: true,
                ..asked
            });
        }
    }

    /// The publisher has sent all that it keeps.
    pub fn replay_ended(&mut self, steps: &mut Vec<Step<T>>) {
        let Some(asked) = self.asked.take() else { return };
        let another = asked.verify && !asked.spoiled;
        if another {
            // It does not have the last batch that it sent: it is another one, which has not got as far.
            self.forget(Reset::Restarted, steps);
        }
        if another || asked.spoiled {
            self.ask(false, steps);
            return;
        }
        self.drain(steps);
        let idle = asked.began_at == self.last();
        self.idle_replays = if idle { self.idle_replays + 1 } else { 0 };
        if self.overflowed {
            self.overflowed = false;
            if self.idle_replays < IDLE_REPLAYS_MAX {
                self.ask(false, steps);
                return;
            }
            self.give_up_all(steps);
        } else if !self.ahead.is_empty() {
            if self.idle_replays < IDLE_REPLAYS_MAX {
                self.ask(false, steps);
                return;
            }
            self.give_up(steps);
        }
        self.idle_replays = 0;
    }

    /// What was asked for cannot be had: there is no such socket, or it does not answer.
    pub fn replay_failed(&mut self, steps: &mut Vec<Step<T>>) {
        let Some(asked) = self.asked.take() else { return };
        self.idle_replays = 0;
        if asked.verify && self.last.is_some() {
            self.forget_last(Reset::Lost, steps);
        }
        if std::mem::take(&mut self.overflowed) {
            self.give_up_all(steps);
        } else {
            self.give_up(steps);
        }
    }

    fn ask(&mut self, verify: bool, steps: &mut Vec<Step<T>>) {
        if self.asked.is_none() {
            let verify = verify && self.last.is_some();
            self.asked = Some(Asked {
                verify,
                began_at: self.last(),
                spoiled: false,
            });
            steps.push(Step::Ask {
                from: self.last().unwrap_or(0),
            });
        }
    }

    fn set_asked(&mut self, asked: Asked) {
        self.asked = Some(asked);
    }

    /// A batch of a later life came under a number that an earlier life used.
    fn restart(&mut self, item: Numbered<T>, steps: &mut Vec<Step<T>>) {
        self.asked = None;
        self.forget(Reset::Restarted, steps);
        self.published(item, steps);
    }

    fn forget(&mut self, why: Reset, steps: &mut Vec<Step<T>>) {
        self.ahead.clear();
        self.ahead_bytes = 0;
        self.forget_last(why, steps);
    }

    fn forget_last(&mut self, why: Reset, steps: &mut Vec<Step<T>>) {
        self.last = None;
        self.idle_replays = 0;
        steps.push(Step::Reset(why));
    }

    /// Goes on with what waits, without what is missing before it.
    fn give_up(&mut self, steps: &mut Vec<Step<T>>) {
        self.drain(steps);
        while let Some((_, item)) = self.ahead.pop_first() {
            self.ahead_bytes = self.ahead_bytes.saturating_sub(item.bytes);
            if self.last.is_some() {
                self.forget_last(Reset::Lost, steps);
            }
            self.take(item, steps);
            self.drain(steps);
        }
    }

    fn give_up_all(&mut self, steps: &mut Vec<Step<T>>) {
        self.overflowed = false;
        self.forget(Reset::Lost, steps);
    }

    fn take(&mut self, item: Numbered<T>, steps: &mut Vec<Step<T>>) {
        let Numbered {
            number,
            mark,
            seconds,
            batch,
            ..
        } = item;
        self.last = Some(Last {
            number,
            mark,
            seconds,
        });
        steps.push(Step::Apply {
            batch,
            first: number == 0,
        });
    }

    fn keep(&mut self, item: Numbered<T>) {
        // Of two lives under one number the later one counts.
        if self
            .ahead
            .get(&item.number)
            .is_some_and(|there| there.seconds >= item.seconds)
        {
            return;
        }
        self.ahead_bytes += item.bytes;
        if let Some(there) = self.ahead.insert(item.number, item) {
            self.ahead_bytes = self.ahead_bytes.saturating_sub(there.bytes);
        }
        while self.ahead.len() > AHEAD_MAX || self.ahead_bytes > AHEAD_BYTES_MAX {
            let Some((_, item)) = self.ahead.pop_last() else {
                return;
            };
            self.ahead_bytes = self.ahead_bytes.saturating_sub(item.bytes);
            self.overflowed = true;
        }
    }

    /// Takes on what waits, as far as nothing is missing.
    fn drain(&mut self, steps: &mut Vec<Step<T>>) {
        while let Some(entry) = self.ahead.first_entry() {
            let number = *entry.key();
            let next = self.last.map_or(0, |last| last.number.saturating_add(1));
            if number > next {
                return;
            }
            let item = entry.remove();
            self.ahead_bytes = self.ahead_bytes.saturating_sub(item.bytes);
            if number == next {
                self.take(item, steps);
            }
        }
    }
}

#[cfg(test)]
mod tests;
