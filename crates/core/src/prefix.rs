//! The prefix index: which endpoint holds how many leading blocks of a prompt.
//!
//! A prompt is cut into blocks, and each block's hash covers all text up to its end. So equal hashes mean equal
//! beginnings, and of two chains that share a hash everything before it is shared as well.
//!
//! Two kinds of knowledge are kept, apart from each other since engines hash tokens and the gateway hashes text:
//!
//! - *learned* from the gateway's own routing ([`PrefixIndex::store`]): where a prompt was sent, its blocks are now. Each
//!   holder forgets as its engine would: above its capacity the blocks that were used least recently, tails before heads;
//!   and what was not used for long ([`Limits::idle_max`]).
//! - *exact* from the engine's events ([`PrefixIndex::stored`], [`removed`](PrefixIndex::removed)): blocks come and go one by
//!   one, in any order.
//!
//! # How
//! Blocks that follow each other are kept as runs of up to 64 (a radix tree with compressed paths, but without pointers from
//! parents to children: the hash of a run's first block names its place in the tree, since it covers all before it). A
//! look-up goes from run to run; within a run one comparison of the last hash shows whether all are the same. What a holder
//! has of a run is a bit mask. Holders that have nothing of a run are not in it and cost nothing.
//!
//! All memory but a little is lines of 64 bytes from one pool, so that the limit holds whatever comes and goes.
//!
//! # When it is wrong
//! Learned knowledge is a guess: an engine may have evicted, restarted, or never have cached. The newest blocks may not be
//! computed yet. Several gateways each know their own part.

mod common;
mod line;
mod lost;
mod matches;
mod node;
mod runs;
mod table;
#[cfg(test)]
mod tests;

use crate::time::Time;
pub(crate) use common::Common;
use lost::Lost;
pub use matches::Matches;
use runs::{Kind, Runs, fits};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Holders are numbered below this; those above are not known to anyone, and calls that name them do nothing.
pub const HOLDERS_MAX: u32 = 1 << 20;

/// Events of more blocks are taken in parts.
const EVENT_BLOCKS: usize = 256;
/// Less memory than this is not worth limiting.
const BYTES_MIN: usize = 512 << 10;
/// A place has 32 bits.
const BYTES_MAX: usize = 4 << 30;

/// Chain hash of a block: covers the block and all before it. Well mixed in all of its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockHash(pub u64);

/// How much an index keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory, in bytes; above it the least recently used are forgotten, whoever holds them. From 512 KiB to 4 GiB: what lies
    /// outside counts as the nearer end. What is kept of each holder, some 100 bytes, is in it as long as they are a few
    /// hundred per MiB.
    pub bytes_max: usize,
    /// How long learned blocks are believed to be there without being used; to within 0.07 s. Events have no age.
    pub idle_max: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes_max: 256 << 20,
            idle_max: None,
        }
    }
}

/// See the module. Holders are small numbers, such as slots of endpoints; memory grows with the largest.
#[derive(Clone, Debug)]
pub struct PrefixIndex {
    limits: Limits,
    runs: Runs,
    /// Most learned blocks of each holder; `u32::MAX`: no limit.
    capacities: Vec<u32>,
    /// The latest tick.
    now: u32,
    /// Runs that a chain goes through, and which of their blocks.
    path: Vec<(u32, u64)>,
    /// What was forgotten for want of room in an engine's cache.
    lost: Lost,
}

impl PrefixIndex {
    /// An empty index.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Limits {
                bytes_max: limits.bytes_max.clamp(BYTES_MIN, BYTES_MAX),
                ..limits
            },
            runs: Runs::default(),
            capacities: Vec::new(),
            now: 0,
            path: Vec::new(),
            lost: Lost::within(limits.bytes_max),
        }
    }

    /// Changes the limits; what is above them is forgotten.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = Self::new(limits).limits;
        self.lost.limit(self.limits.bytes_max);
        self.make_room(0);
    }

    /// Notes that a prompt went to `holder`, which has the blocks of `chain` now: as its most recently used, the first the
    /// newest. What is then above the holder's capacity is forgotten from the oldest on. Of a chain that would fill more
    /// than half of the memory the end is left out.
    pub fn store(&mut self, holder: u32, chain: &[BlockHash], now: Time) {
        if !fits(holder) {
            return;
        }
        self.expire(now);
        let capacity = self.most_of(holder);
        let most = (capacity as usize).min(self.limits.bytes_max / 64);
        let chain = &chain[..chain.len().min(most)];
        self.make_room(chain.len());
        self.walk(holder, chain);
        for at in (0..self.path.len()).rev() {
            let (node, mask) = self.path[at];
            self.runs.hold(Kind::Learned, (node, holder), (mask, self.now));
        }
        self.shrink(holder, capacity);
        self.make_room(0);
    }

    /// Finds the runs of a chain and makes those that do not exist.
    fn walk(&mut self, holder: u32, chain: &[BlockHash]) {
        self.path.clear();
        let mut before = 0;
        while before < chain.len() {
            let rest = &chain[before..];
            let Some((node, _)) = self.runs.find(Kind::Learned, rest[0]) else {
                let laid = self.lay(holder, rest);
                self.lost.asked_for(&rest[..laid]);
                before += laid;
                continue;
            };
            let matched = node::matched(&self.runs.pool, (node, 0), rest);
            let slot = node::find(&self.runs.pool, node, holder);
            let mask = slot.map_or(0, |slot| node::held(&self.runs.pool, slot).0);
            if mask & !node::first(matched) != 0 {
                // What it has beyond is not used now, and becomes older than the rest.
                self.runs.cut(node, matched);
            }
            self.path.push((node, node::first(matched)));
            before += matched;
        }
    }

    /// Lays down blocks that no run has: at the end of the last one if that is this holder's alone, else as a run.
    fn lay(&mut self, holder: u32, chain: &[BlockHash]) -> usize {
        if let Some((node, mask)) = self.path.last_mut() {
            let pool = &self.runs.pool;
            let alone = match node::holders(pool, *node) {
                0 => true,
                1 => node::find(pool, *node, holder).is_some(),
                _ => false,
            };
            let len = node::len(pool, *node);
            if alone && len < node::RUN && *mask == node::first(len) {
                let more = self.runs.append(Kind::Learned, *node, chain);
                *mask = node::first(len + more);
                return more;
            }
        }
        let node = node::new(&mut self.runs.pool, false);
        let more = self.runs.append(Kind::Learned, node, chain);
        self.path.push((node, node::first(more)));
        more
    }

    /// Most learned blocks that this holder has room for, which is what its engine's cache holds; without it only the memory of the index limits
    /// it. Does not concern what comes from events. Stays until it is changed.
    pub fn set_capacity(&mut self, holder: u32, blocks: Option<u32>) {
        if !fits(holder) || self.most_of(holder) == blocks.unwrap_or(u32::MAX) {
            return;
        }
        if holder as usize >= self.capacities.len() {
            self.capacities.resize(holder as usize + 1, u32::MAX);
        }
        let capacity = blocks.unwrap_or(u32::MAX);
        self.capacities[holder as usize] = capacity;
        self.shrink(holder, capacity);
    }

    /// What [`Self::set_capacity`] set.
    #[must_use]
    pub fn capacity(&self, holder: u32) -> Option<u32> {
        Some(self.most_of(holder)).filter(|blocks| *blocks != u32::MAX)
    }

    fn most_of(&self, holder: u32) -> u32 {
        self.capacities.get(holder as usize).copied().unwrap_or(u32::MAX)
    }

    fn shrink(&mut self, holder: u32, capacity: u32) {
        loop {
            let held = self.runs.held(Kind::Learned, holder).blocks;
            let above = held.saturating_sub(capacity);
            let Some((node, gone)) = self.runs.oldest_held(Kind::Learned, holder, above) else {
                return;
            };
            self.note_lost((holder, held), (node, gone));
            self.runs.release(Kind::Learned, (node, holder), gone);
        }
    }

    /// A holder that has `held` blocks loses these of a run for want of room.
    fn note_lost(&mut self, (holder, held): (u32, u32), (node, mut gone): (u32, u64)) {
        let pool = &self.runs.pool;
        let others = node::union_but(pool, node, holder);
        while gone != 0 {
            let at = gone.trailing_zeros();
            let last = others >> at & 1 == 0;
            let hash = node::hash(pool, node, at as usize);
            self.lost.forgotten((holder, held), hash, last);
            gone &= gone - 1;
        }
    }

    /// Forgets learned blocks that were not used for [`Limits::idle_max`]. [`Self::store`] does so too.
    pub fn expire(&mut self, now: Time) {
        self.now = self.now.max(ticks(now.nanos()));
        if let Some(idle) = self.limits.idle_max {
            let idle = ticks(u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX));
            let oldest = self.now.saturating_sub(idle);
            while self.runs.release_oldest_of_all(Kind::Learned, oldest) {}
        }
    }

    /// Finds for each holder how many leading blocks of `chain` it has. Replaces what `found` had.
    pub fn matches(&self, chain: &[BlockHash], found: &mut Matches) {
        found.clear();
        let [learned, exact] = self.runs.blocks;
        if learned > 0 {
            self.runs.matches(Kind::Learned, chain, found.hits());
        }
        if exact > 0 {
            self.runs.matches(Kind::Exact, chain, &mut found.exact);
            found.merge();
        }
    }

    /// An event of the engine behind `holder`: it has `blocks` now, each after the one before, the first after `parent`.
    ///
    /// A parent that is not known does no harm: the blocks are found as soon as all before them are known. Blocks that it
    /// had already stay. Where memory is short, what was stored first is forgotten first.
    pub fn stored(&mut self, holder: u32, mut parent: Option<BlockHash>, blocks: &[BlockHash]) {
        if !fits(holder) {
            return;
        }
        for part in blocks.chunks(EVENT_BLOCKS) {
            self.make_room(4 * part.len());
            self.walk_exact(parent, part);
            for at in (0..self.path.len()).rev() {
                let (node, mask) = self.path[at];
                self.runs.hold(Kind::Exact, (node, holder), (mask, self.now));
            }
            parent = part.last().copied();
        }
        self.make_room(0);
    }

    /// Finds the runs that blocks are in and makes those that do not exist.
    fn walk_exact(&mut self, parent: Option<BlockHash>, blocks: &[BlockHash]) {
        self.path.clear();
        let mut last = parent.and_then(|parent| self.runs.find(Kind::Exact, parent));
        let mut at = 0;
        while at < blocks.len() {
            let rest = &blocks[at..];
            let (node, from, count) = match self.runs.find(Kind::Exact, rest[0]) {
                Some(place) => self.match_exact(place, rest),
                None => self.lay_exact(last, rest),
            };
            self.path.push((node, node::first(count) << from));
            last = Some((node, from + count - 1));
            at += count;
        }
    }

    /// Blocks of a run that are stored again. Where nobody had them any more, the run has a hole there.
    fn match_exact(&mut self, (node, from): (u32, usize), blocks: &[BlockHash]) -> (u32, usize, usize) {
        let pool = &self.runs.pool;
        let count = node::matched(pool, (node, from), blocks);
        let mut holes = !(node::union(pool, node) >> from) & node::first(count);
        while holes != 0 {
            let at = holes.trailing_zeros() as usize;
            self.lost.asked_for(&blocks[at..=at]);
            holes &= holes - 1;
        }
        (node, from, count)
    }

    /// Lays down the blocks that are not known, up to the first that is: after `last` where that ends its run.
    fn lay_exact(&mut self, last: Option<(u32, usize)>, blocks: &[BlockHash]) -> (u32, usize, usize) {
        let known = |hash: &BlockHash| self.runs.find(Kind::Exact, *hash).is_some();
        let most = blocks.len().min(node::RUN);
        let count = 1 + blocks[1..most].iter().take_while(|hash| !known(hash)).count();
        let pool = &self.runs.pool;
        let (node, from) = match last {
            Some((node, at)) if at + 1 == node::len(pool, node) && at + 1 < node::RUN => (node, at + 1),
            _ => (node::new(&mut self.runs.pool, true), 0),
        };
        self.lost.asked_for(&blocks[..count]);
        (node, from, self.runs.append(Kind::Exact, node, &blocks[..count]))
    }

    /// An event of the engine behind `holder`: it has these blocks no longer. What follows them stays, and is found again once
    /// they are back. Blocks that it did not have are passed over.
    pub fn removed(&mut self, holder: u32, blocks: &[BlockHash]) {
        for hash in blocks {
            if let Some((node, at)) = self.runs.find(Kind::Exact, *hash) {
                let held = self.runs.held(Kind::Exact, holder).blocks;
                let slot = node::find(&self.runs.pool, node, holder);
                if slot.is_some_and(|slot| node::held(&self.runs.pool, slot).0 & (1 << at) != 0) {
                    self.note_lost((holder, held), (node, 1 << at));
                }
                self.runs.release(Kind::Exact, (node, holder), 1 << at);
            }
        }
    }

    /// Forgets all that `holder` has, of both kinds: its engine says so, restarted or is gone. Its capacity stays.
    pub fn cleared(&mut self, holder: u32) {
        self.runs.release_all(Kind::Learned, holder);
        self.runs.release_all(Kind::Exact, holder);
        self.lost.cleared(holder);
    }

    /// Forgets until there is memory for `blocks` more.
    fn make_room(&mut self, blocks: usize) {
        // A block takes up to a line of its own with its run and its part of the table; runs that are cut or shared copy
        // their holders.
        let copies = self.runs.holders().min(self.limits.bytes_max / 512);
        let lines = blocks / 2 + 64 + copies;
        let most = self.limits.bytes_max.saturating_sub(self.lost.bytes_max());
        while self.runs.spare(most) < lines {
            let [learned, exact] = [Kind::Learned, Kind::Exact].map(|kind| self.runs.oldest(kind));
            let kind = match (learned, exact) {
                (Some(learned), Some(exact)) if learned > exact => Kind::Exact,
                (None, Some(_)) => Kind::Exact,
                _ => Kind::Learned,
            };
            if !self.runs.release_oldest_of_all(kind, u32::MAX) {
                return;
            }
        }
    }

    /// Blocks held: one for each holder of a block.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.runs.blocks.iter().sum()
    }

    /// Memory in use, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.runs.bytes()
            + self.capacities.capacity() * size_of::<u32>()
            + self.path.capacity() * size_of::<(u32, u64)>()
            + self.lost.bytes()
    }

    /// Share of what `holder` forgot for want of room that was asked for again when nobody had it, 0 to 1.
    #[must_use]
    pub fn regret(&self, holder: u32) -> f64 {
        self.lost.regret(holder)
    }

    /// Blocks that `holder` has, of both kinds.
    #[must_use]
    pub fn held_by(&self, holder: u32) -> u32 {
        self.runs.held(Kind::Learned, holder).blocks + self.runs.held(Kind::Exact, holder).blocks
    }
}

/// Time as runs remember it: in steps of 2^26 ns, 0.07 s.
fn ticks(nanos: u64) -> u32 {
    u32::try_from(nanos >> 26).unwrap_or(u32::MAX)
}
