//! The runs of all holders, how they are found, and in which order a holder forgets them.
//!
//! Each holder's runs form a list by their last use. What is used has its head put after its tail into that list, so the
//! oldest is always the tail of something; inside a run the last block is the oldest.

use super::line::{NONE, Pool};
use super::matches::Hits;
use super::node::{self, Entry, Slot};
use super::table::Table;
use super::{BlockHash, HOLDERS_MAX};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Runs that a look-up asks for at once.
const AHEAD: usize = 4;

/// Where knowledge comes from. A holder's places in the lists of [`Runs`] are kept apart by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// From what was sent there.
    Learned = 0,
    /// From its own events.
    Exact = 1,
}

/// What a holder holds of one kind, by the order of its last use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    pub(super) blocks: u32,
    newest: u32,
    oldest: u32,
    /// Whether the queue of the oldest knows of it.
    queued: bool,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    pub(super) pool: Pool,
    pub(super) table: Table,
    holders: [Vec<Held>; 2],
    /// Blocks held, by kind.
    pub(super) blocks: [usize; 2],
    /// Holders by a tick that is not after that of their oldest run.
    queues: [BinaryHeap<Reverse<(u32, u32)>>; 2],
}

impl Runs {
    pub(super) fn bytes(&self) -> usize {
        let holders: usize = self.holders.iter().map(Vec::capacity).sum();
        let queues: usize = self.queues.iter().map(BinaryHeap::capacity).sum();
        self.pool.bytes()
            + self.table.bytes()
            + holders * size_of::<Held>()
            + queues * size_of::<Reverse<(u32, u32)>>()
    }

    /// Lines that can be taken before more than `bytes_max` is in use. A part is kept for the list of the table's buckets, of
    /// which each has a line and goes with another of hashes, and for what is kept of each holder.
    pub(super) fn spare(&self, bytes_max: usize) -> usize {
        self.pool.spare(bytes_max - bytes_max / 24)
    }

    /// What `holder` holds.
    pub(super) fn held(&self, kind: Kind, holder: u32) -> Held {
        let all = &self.holders[kind as usize];
        all.get(holder as usize).copied().unwrap_or_default()
    }

    pub(super) fn held_mut(&mut self, kind: Kind, holder: u32) -> &mut Held {
        let all = &mut self.holders[kind as usize];
        if holder as usize >= all.len() {
            all.resize(holder as usize + 1, Held::default());
        }
        &mut all[holder as usize]
    }

    /// Highest number of a holder so far, plus one.
    pub(super) fn holders(&self) -> usize {
        self.holders.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The run that has this block, and which of its blocks it is. Of learned runs only the first blocks are found.
    #[inline]
    pub(super) fn find(&self, kind: Kind, hash: BlockHash) -> Option<(u32, usize)> {
        let pool = &self.pool;
        let same = |place: u32| {
            let (node, at) = node::run_of(place);
            node::exact(pool, node) == (kind == Kind::Exact) && node::hash(pool, node, at) == hash.0
        };
        self.table.find(pool, hash.0, same).map(node::run_of)
    }

    /// The places of the blocks at which the next runs of `chain` begin if they are full, asked for all at once so that the
    /// reads of memory do not wait for each other.
    #[inline]
    fn look_ahead(&self, kind: Kind, chain: &[BlockHash]) -> [Option<(u32, usize)>; AHEAD] {
        let pool = &self.pool;
        let hash = |ahead: usize| chain.get(ahead * node::RUN);
        let guess = |ahead| hash(ahead).and_then(|hash| self.table.guess(pool, hash.0));
        let guesses: [Option<u32>; AHEAD] = std::array::from_fn(guess);
        let lines = guesses.map(|place| place.map(|place| node::line_of(pool, place)));
        std::array::from_fn(|ahead| {
            let (hash, place, line) = (hash(ahead)?, guesses[ahead]?, lines[ahead]?);
            let (node, at) = node::run_of(place);
            let same = line.is_some_and(|line| node::hash_in(pool, line, at) == hash.0)
                && node::exact(pool, node) == (kind == Kind::Exact);
            if same {
                Some((node, at))
            } else {
                self.find(kind, *hash)
            }
        })
    }

    /// The leading blocks of `chain` that each holder has.
    pub(super) fn matches(&self, kind: Kind, chain: &[BlockHash], hits: &mut Hits) {
        let mut before = 0;
        while before < chain.len() {
            let from = before;
            for (ahead, found) in self.look_ahead(kind, &chain[from..]).into_iter().enumerate() {
                if before != from + ahead * node::RUN || before >= chain.len() {
                    break;
                }
                let Some(place) = found else {
                    return;
                };
                let matched = node::matched(&self.pool, place, &chain[before..]);
                if !self.count_hits(place, (before, matched), hits) {
                    return;
                }
                before += matched;
            }
        }
    }

    /// Counts `matched` blocks of a run after `before` blocks of others. Whether any holder has all of them.
    #[inline]
    fn count_hits(
        &self,
        (node, at): (u32, usize),
        (before, matched): (usize, usize),
        hits: &mut Hits,
    ) -> bool {
        let (before, whole) = (blocks(before), blocks(matched));
        let mut all_of_it = false;
        node::each_held(&self.pool, node, |mask, holder| {
            let more = (!(mask >> at)).trailing_zeros().min(whole);
            all_of_it |= hits.extend(holder, (before, more)) && more == whole;
        });
        all_of_it
    }

    /// Appends blocks to a run, as far as it has room; how many.
    pub(super) fn append(&mut self, kind: Kind, node: u32, chain: &[BlockHash]) -> usize {
        let len = node::len(&self.pool, node);
        let count = (node::RUN - len).min(chain.len());
        for (at, hash) in (len..).zip(&chain[..count]) {
            node::push(&mut self.pool, node, hash.0);
            if at == 0 || kind == Kind::Exact {
                self.table.insert(&mut self.pool, hash.0, node::place(node, at));
            }
        }
        count
    }

    /// Notes that `holder` has the blocks of `mask`, as its most recently used.
    pub(super) fn hold(&mut self, kind: Kind, (node, holder): (u32, u32), (mask, stamp): (u64, u32)) {
        if let Some(slot) = node::find(&self.pool, node, holder) {
            let mut entry = node::entry(&self.pool, slot);
            let more = (mask & !entry.mask).count_ones();
            entry.mask |= mask;
            entry.stamp = stamp;
            node::set_entry(&mut self.pool, slot, entry);
            self.count(kind, holder, i64::from(more));
            if entry.newer != NONE {
                self.unlink(kind, entry);
                self.link_newest(kind, (node, slot), holder);
            }
            return;
        }
        let entry = Entry {
            mask,
            holder,
            stamp,
            newer: NONE,
            older: NONE,
        };
        node::add(&mut self.pool, node, entry);
        self.count(kind, holder, i64::from(mask.count_ones()));
        if let Some(slot) = node::find(&self.pool, node, holder) {
            self.link_newest(kind, (node, slot), holder);
        }
        if !self.held(kind, holder).queued {
            self.held_mut(kind, holder).queued = true;
            self.queues[kind as usize].push(Reverse((stamp, holder)));
        }
    }

    fn count(&mut self, kind: Kind, holder: u32, change: i64) {
        let held = &mut self.held_mut(kind, holder).blocks;
        *held = held.saturating_add_signed(i32::try_from(change).unwrap_or(0));
        let all = &mut self.blocks[kind as usize];
        *all = all.saturating_add_signed(isize::try_from(change).unwrap_or(0));
    }

    fn link_newest(&mut self, kind: Kind, (node, slot): (u32, Slot), holder: u32) {
        let newest = self.held(kind, holder).newest;
        let mut entry = node::entry(&self.pool, slot);
        (entry.newer, entry.older) = (NONE, newest);
        node::set_entry(&mut self.pool, slot, entry);
        self.relink(newest, holder, |before| before.newer = node);
        let held = self.held_mut(kind, holder);
        held.newest = node;
        if held.oldest == NONE {
            held.oldest = node;
        }
    }

    /// Takes an entry out of its holder's order.
    fn unlink(&mut self, kind: Kind, entry: Entry) {
        let Entry { newer, older, .. } = entry;
        self.relink(newer, entry.holder, |next| next.older = older);
        self.relink(older, entry.holder, |next| next.newer = newer);
        let held = self.held_mut(kind, entry.holder);
        if newer == NONE {
            held.newest = older;
        }
        if older == NONE {
            held.oldest = newer;
        }
    }

    fn relink(&mut self, node: u32, holder: u32, change: impl FnOnce(&mut Entry)) {
        if node == NONE {
            return;
        }
        if let Some(slot) = node::find(&self.pool, node, holder) {
            let mut entry = node::entry(&self.pool, slot);
            change(&mut entry);
            node::set_entry(&mut self.pool, slot, entry);
        } else {
            debug_assert!(false, "lists name what is held");
        }
    }

    /// Takes blocks of a run from a holder. Frees what nobody holds.
    pub(super) fn release(&mut self, kind: Kind, (node, holder): (u32, u32), mask: u64) {
        let Some(slot) = node::find(&self.pool, node, holder) else {
            return;
        };
        let mut entry = node::entry(&self.pool, slot);
        let gone = entry.mask & mask;
        if gone == 0 {
            return;
        }
        entry.mask &= !mask;
        self.count(kind, holder, -i64::from(gone.count_ones()));
        if entry.mask == 0 {
            self.unlink(kind, entry);
            node::remove(&mut self.pool, node, slot);
        } else {
            node::set_entry(&mut self.pool, slot, entry);
        }
        self.trim(node);
    }

    /// Takes everything from a holder.
    pub(super) fn release_all(&mut self, kind: Kind, holder: u32) {
        while self.release_oldest(kind, holder, u32::MAX) > 0 {}
    }

    /// Takes at most `most` blocks of its oldest run from a holder, the last first; how many.
    pub(super) fn release_oldest(&mut self, kind: Kind, holder: u32, most: u32) -> u32 {
        let Some((node, gone)) = self.oldest_held(kind, holder, most) else {
            return 0;
        };
        self.release(kind, (node, holder), gone);
        gone.count_ones()
    }

    /// The oldest run of a holder, and at most `most` of its blocks there, the last first; none: it has none, or none is wanted.
    pub(super) fn oldest_held(&self, kind: Kind, holder: u32, most: u32) -> Option<(u32, u64)> {
        let node = self.held(kind, holder).oldest;
        if node == NONE || most == 0 {
            return None;
        }
        let slot = node::find(&self.pool, node, holder)?;
        let (mask, _) = node::held(&self.pool, slot);
        let count = mask.count_ones().min(most);
        let mut kept = mask;
        if count == mask.count_ones() {
            kept = 0;
        } else {
            for _ in 0..count {
                kept &= !(1 << kept.ilog2());
            }
        }
        Some((node, mask & !kept))
    }

    /// Takes from whoever has it the run that was used least recently, if that was before `before`. Whether there was one.
    pub(super) fn release_oldest_of_all(&mut self, kind: Kind, before: u32) -> bool {
        while let Some(Reverse((known, holder))) = self.queues[kind as usize].peek().copied() {
            if known >= before {
                return false;
            }
            self.queues[kind as usize].pop();
            let Some(stamp) = self.oldest_stamp(kind, holder) else {
                self.held_mut(kind, holder).queued = false;
                continue;
            };
            if stamp == known {
                self.release_oldest(kind, holder, u32::MAX);
            }
            // If that was its last run, the next look takes it out.
            self.queues[kind as usize].push(Reverse((stamp, holder)));
            if stamp == known {
                return true;
            }
        }
        false
    }

    /// A tick before which nothing of this kind was used.
    pub(super) fn oldest(&self, kind: Kind) -> Option<u32> {
        self.queues[kind as usize]
            .peek()
            .map(|Reverse((stamp, _))| *stamp)
    }

    fn oldest_stamp(&self, kind: Kind, holder: u32) -> Option<u32> {
        let node = self.held(kind, holder).oldest;
        if node == NONE {
            return None;
        }
        let slot = node::find(&self.pool, node, holder)?;
        Some(node::entry(&self.pool, slot).stamp)
    }

    /// Gives back the blocks of a run that nobody holds.
    fn trim(&mut self, node: u32) {
        let held = node::union(&self.pool, node);
        let len = node::len(&self.pool, node);
        let to = (u64::BITS - held.leading_zeros()) as usize;
        if to < len {
            let exact = node::exact(&self.pool, node);
            for at in if exact { to..len } else { to..len.min(1) } {
                let hash = node::hash(&self.pool, node, at);
                self.table.remove(&mut self.pool, hash, node::place(node, at));
            }
            node::truncate(&mut self.pool, node, to);
        }
        if held == 0 {
            node::discard(&mut self.pool, node);
        } else if held != node::first(to) && is_wasteful(held, to) {
            self.cut_out_holes(node, held);
        }
    }

    /// Makes a run of each part of a run that someone holds.
    fn cut_out_holes(&mut self, node: u32, mut held: u64) {
        loop {
            let to = u64::BITS - held.leading_zeros();
            // The last part begins after the last hole.
            let hole = !held & node::first(to as usize);
            let from = u64::BITS - hole.leading_zeros();
            if from == 0 {
                return;
            }
            self.cut(node, from as usize);
            held &= node::first(from as usize);
            if held == 0 {
                self.trim(node);
                return;
            }
            let to = (u64::BITS - held.leading_zeros()) as usize;
            for at in to..from as usize {
                let hash = node::hash(&self.pool, node, at);
                self.table.remove(&mut self.pool, hash, node::place(node, at));
            }
            node::truncate(&mut self.pool, node, to);
        }
    }

    /// Makes a run of its own of the blocks from `at` on.
    pub(super) fn cut(&mut self, node: u32, at: usize) {
        let exact = node::exact(&self.pool, node);
        let kind = if exact { Kind::Exact } else { Kind::Learned };
        let tail = node::new(&mut self.pool, exact);
        for from in at..node::len(&self.pool, node) {
            let hash = node::hash(&self.pool, node, from);
            node::push(&mut self.pool, tail, hash);
            let to = node::place(tail, from - at);
            if exact {
                let change = (node::place(node, from), to);
                self.table.replace(&mut self.pool, hash, change);
            } else if from == at {
                self.table.insert(&mut self.pool, hash, to);
            }
        }
        node::truncate(&mut self.pool, node, at);
        let holders: smallvec::SmallVec<[u32; 8]> = node::slots(&self.pool, node)
            .map(|slot| node::held(&self.pool, slot).1)
            .collect();
        for holder in holders {
            self.divide(kind, (node, tail), (holder, at));
        }
    }

    /// Gives the tail of a run that was cut the part of one holder, as just a little older than the rest.
    fn divide(&mut self, kind: Kind, (node, tail): (u32, u32), (holder, at): (u32, usize)) {
        let Some(slot) = node::find(&self.pool, node, holder) else {
            return;
        };
        let mut head = node::entry(&self.pool, slot);
        let mask = head.mask >> at;
        if mask == 0 {
            return;
        }
        let older = head.older;
        let entry = Entry {
            mask,
            newer: node,
            ..head
        };
        node::add(&mut self.pool, tail, entry);
        head.mask &= node::first(at);
        head.older = tail;
        node::set_entry(&mut self.pool, slot, head);
        self.relink(older, holder, |next| next.newer = tail);
        if older == NONE {
            self.held_mut(kind, holder).oldest = tail;
        }
        if head.mask == 0 {
            self.unlink(kind, head);
            node::remove(&mut self.pool, node, slot);
        }
    }
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "prompts have less than 2^32 blocks"
)]
const fn blocks(count: usize) -> u32 {
    count as u32
}

/// Whether runs of the parts that are held would take less than half of the memory of one run with holes: counted in lines,
/// of which a run has one, eight hashes one, and eight entries of the table about one.
const fn is_wasteful(held: u64, len: usize) -> bool {
    let parts = (held & !(held << 1)).count_ones() as usize;
    let kept = held.count_ones() as usize;
    (2 * parts + kept / 4) * 2 < 2 + len / 4
}

/// Whether a holder's number is one that the lists have room for.
pub(super) const fn fits(holder: u32) -> bool {
    holder < HOLDERS_MAX
}

#[cfg(test)]
impl Runs {
    /// Nothing is held and no line is left in use.
    pub(super) fn assert_empty(&self) {
        assert_eq!(self.blocks, [0, 0]);
        assert_eq!(self.pool.bytes() / super::line::Line::BYTES, 0, "lines are left");
    }
}
