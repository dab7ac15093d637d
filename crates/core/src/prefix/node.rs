//! A run: up to 64 blocks that follow each other, and who holds which of them.
//!
//! A run is a line that names up to eight lines of hashes and its first holder; further holders are in lines of two, which
//! are listed in a line of their own once there is more than one. What a holder has of a run is one bit a block.
//!
//! | halves | in the line of a run |
//! |---|---|
//! | 0–7 | lines of hashes |
//! | 8–13 | first holder |
//! | 14 | line of the second and third holder; with more holders the first of the lists of such lines |
//! | 15 | 7 bits length, 1 bit kind, 24 bits number of holders |

use super::line::{NONE, Pool};

/// Most blocks of a run.
pub(super) const RUN: usize = 64;
/// Hashes of a line.
const HASHES: usize = 8;
/// Lines that a list names, after the next list.
const LISTED: usize = 15;

const MORE: usize = 14;
const SIZES: usize = 15;

/// Where what a holder has of a run is noted: a line, and a word in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    line: u32,
    word: usize,
}

/// What a holder has of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// One bit for each block.
    pub(super) mask: u64,
    pub(super) holder: u32,
    /// When it was last used, in ticks.
    pub(super) stamp: u32,
    /// The holder's next run in order of use.
    pub(super) newer: u32,
    pub(super) older: u32,
}

/// The bits of the first `count` blocks.
pub(super) const fn first(count: usize) -> u64 {
    if count >= RUN { u64::MAX } else { (1 << count) - 1 }
}

/// The place of block `at` of a run.
#[allow(clippy::cast_possible_truncation, reason = "less than 64")]
pub(super) const fn place(node: u32, at: usize) -> u32 {
    node << 6 | at as u32
}

pub(super) const fn run_of(place: u32) -> (u32, usize) {
    (place >> 6, place as usize & (RUN - 1))
}

/// The hash of the block at a place.
pub(super) fn hash_at(pool: &Pool, place: u32) -> u64 {
    let (node, at) = run_of(place);
    hash(pool, node, at)
}

#[inline]
pub(super) fn hash(pool: &Pool, node: u32, at: usize) -> u64 {
    pool[pool[node].half(at / HASHES)].word(at % HASHES)
}

#[inline]
pub(super) fn len(pool: &Pool, node: u32) -> usize {
    pool[node].half(SIZES) as usize & 0x7f
}

/// Whether it is told by events rather than learned.
#[inline]
pub(super) fn exact(pool: &Pool, node: u32) -> bool {
    pool[node].half(SIZES) & 0x80 != 0
}

pub(super) fn holders(pool: &Pool, node: u32) -> usize {
    pool[node].half(SIZES) as usize >> 8
}

fn set_sizes(pool: &mut Pool, node: u32, (len, exact, holders): (usize, bool, usize)) {
    let sizes = len | usize::from(exact) << 7 | holders << 8;
    pool[node].set_half(SIZES, u32::try_from(sizes).unwrap_or(u32::MAX));
}

/// A run without blocks and holders.
pub(super) fn new(pool: &mut Pool, exact: bool) -> u32 {
    let node = pool.take();
    set_sizes(pool, node, (0, exact, 0));
    node
}

/// Adds a block at the end, where there is room.
pub(super) fn push(pool: &mut Pool, node: u32, hash: u64) {
    let at = len(pool, node);
    debug_assert!(at < RUN, "a run has an end");
    if at.is_multiple_of(HASHES) {
        let line = pool.take();
        pool[node].set_half(at / HASHES, line);
    }
    let line = pool[node].half(at / HASHES);
    pool[line].set_word(at % HASHES, hash);
    let sizes = pool[node].half(SIZES);
    pool[node].set_half(SIZES, sizes + 1);
}

/// Forgets the blocks from `to` on.
pub(super) fn truncate(pool: &mut Pool, node: u32, to: usize) {
    for line in to.div_ceil(HASHES)..len(pool, node).div_ceil(HASHES) {
        let given = pool[node].half(line);
        pool[node].set_half(line, NONE);
        pool.give_back(given);
    }
    let sizes = (to, exact(pool, node), holders(pool, node));
    set_sizes(pool, node, sizes);
}

/// Gives back a run that nobody holds.
pub(super) fn discard(pool: &mut Pool, node: u32) {
    debug_assert_eq!(holders(pool, node), 0, "nobody holds it");
    truncate(pool, node, 0);
    pool.give_back(node);
}

/// How many blocks, from `at` on, are the first of `chain`, whose first is known to be.
#[inline]
pub(super) fn matched(pool: &Pool, (node, at): (u32, usize), chain: &[super::BlockHash]) -> usize {
    let most = (len(pool, node) - at).min(chain.len());
    // A block's hash covers those before it: if the last is the same, all are.
    if hash(pool, node, at + most - 1) == chain[most - 1].0 {
        return most;
    }
    let (mut same, mut other) = (1, most);
    while same < other {
        let middle = same.midpoint(other);
        if hash(pool, node, at + middle) == chain[middle].0 {
            same = middle + 1;
        } else {
            other = middle;
        }
    }
    same
}

#[inline]
pub(super) fn entry(pool: &Pool, slot: Slot) -> Entry {
    let line = &pool[slot.line];
    let half = 2 * slot.word;
    Entry {
        mask: line.word(slot.word),
        holder: line.half(half + 2),
        stamp: line.half(half + 3),
        newer: line.half(half + 4),
        older: line.half(half + 5),
    }
}

pub(super) fn set_entry(pool: &mut Pool, slot: Slot, entry: Entry) {
    let line = &mut pool[slot.line];
    let half = 2 * slot.word;
    line.set_word(slot.word, entry.mask);
    line.set_half(half + 2, entry.holder);
    line.set_half(half + 3, entry.stamp);
    line.set_half(half + 4, entry.newer);
    line.set_half(half + 5, entry.older);
}

/// Mask and holder of a slot.
#[inline]
pub(super) fn held(pool: &Pool, slot: Slot) -> (u64, u32) {
    let line = &pool[slot.line];
    (line.word(slot.word), line.half(2 * slot.word + 2))
}

/// The slots of a run's holders.
#[inline]
pub(super) fn slots(pool: &Pool, node: u32) -> Slots<'_> {
    Slots {
        pool,
        node,
        count: holders(pool, node),
        at: 0,
        list: pool[node].half(MORE),
        line: NONE,
    }
}

/// See [`slots`].
#[derive(Debug)]
pub(super) struct Slots<'a> {
    pool: &'a Pool,
    node: u32,
    count: usize,
    at: usize,
    list: u32,
    line: u32,
}

impl Iterator for Slots<'_> {
    type Item = Slot;

    #[inline]
    fn next(&mut self) -> Option<Slot> {
        if self.at == self.count {
            return None;
        }
        self.at += 1;
        if self.at == 1 {
            return Some(Slot {
                line: self.node,
                word: 4,
            });
        }
        let further = self.at - 2;
        if further.is_multiple_of(2) {
            self.line = if self.count <= 3 {
                self.list
            } else {
                let listed = further / 2 % LISTED;
                if listed == 0 && further > 0 {
                    self.list = self.pool[self.list].half(0);
                }
                self.pool[self.list].half(1 + listed)
            };
        }
        Some(Slot {
            line: self.line,
            word: 3 * (further % 2),
        })
    }
}

pub(super) fn find(pool: &Pool, node: u32, holder: u32) -> Option<Slot> {
    slots(pool, node).find(|slot| held(pool, *slot).1 == holder)
}

/// The blocks that anyone holds.
pub(super) fn union(pool: &Pool, node: u32) -> u64 {
    slots(pool, node).fold(0, |all, slot| all | held(pool, slot).0)
}

/// The list that names the line of slot number `at` (from 1), and where in it.
fn listed(pool: &Pool, node: u32, at: usize) -> (u32, usize) {
    let line = (at - 1) / 2;
    let mut list = pool[node].half(MORE);
    for _ in 0..line / LISTED {
        list = pool[list].half(0);
    }
    (list, 1 + line % LISTED)
}

/// Slot number `at`, when there are `count`.
fn slot(pool: &Pool, node: u32, (at, count): (usize, usize)) -> Slot {
    if at == 0 {
        return Slot { line: node, word: 4 };
    }
    let line = if count <= 3 {
        pool[node].half(MORE)
    } else {
        let (list, at) = listed(pool, node, at);
        pool[list].half(at)
    };
    Slot {
        line,
        word: 3 * ((at - 1) % 2),
    }
}

/// Adds a holder that is not there.
pub(super) fn add(pool: &mut Pool, node: u32, entry: Entry) -> Slot {
    let count = holders(pool, node);
    match count {
        0 | 2 => {}
        1 => {
            let line = pool.take();
            pool[node].set_half(MORE, line);
        }
        _ => list_more(pool, node, count),
    }
    let sizes = pool[node].half(SIZES);
    pool[node].set_half(SIZES, sizes + 0x100);
    let slot = slot(pool, node, (count, count + 1));
    set_entry(pool, slot, entry);
    slot
}

/// Makes room for holder number `count`, at least the fourth.
fn list_more(pool: &mut Pool, node: u32, count: usize) {
    if count == 3 {
        let list = pool.take();
        let line = pool[node].half(MORE);
        pool[list].set_half(1, line);
        pool[node].set_half(MORE, list);
    }
    if count.is_multiple_of(2) {
        return;
    }
    let lines = (count - 1) / 2;
    if lines.is_multiple_of(LISTED) {
        let more = pool.take();
        let (last, _) = listed(pool, node, count - 1);
        pool[last].set_half(0, more);
    }
    let line = pool.take();
    let (list, at) = listed(pool, node, count);
    pool[list].set_half(at, line);
}

/// Takes a holder out; the last takes its place.
pub(super) fn remove(pool: &mut Pool, node: u32, gone: Slot) {
    let count = holders(pool, node);
    let last = slot(pool, node, (count - 1, count));
    let moved = entry(pool, last);
    set_entry(pool, gone, moved);
    match count {
        1 | 3 => {}
        2 => {
            let line = pool[node].half(MORE);
            pool.give_back(line);
            pool[node].set_half(MORE, NONE);
        }
        _ => list_fewer(pool, node, count),
    }
    let sizes = pool[node].half(SIZES);
    pool[node].set_half(SIZES, sizes - 0x100);
}

/// Gives back what the last of `count` holders, at least the fourth, took alone.
fn list_fewer(pool: &mut Pool, node: u32, count: usize) {
    if count.is_multiple_of(2) {
        let (list, at) = listed(pool, node, count - 1);
        let line = pool[list].half(at);
        pool.give_back(line);
        if at == 1 {
            // The list names no other line; the one before it, which exists as four holders have two lines, is the last now.
            let (before, _) = listed(pool, node, count - 2);
            pool[before].set_half(0, NONE);
            pool.give_back(list);
        }
    }
    if count == 4 {
        let list = pool[node].half(MORE);
        let line = pool[list].half(1);
        pool.give_back(list);
        pool[node].set_half(MORE, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pool: &Pool, node: u32, expected: &[u32]) {
        let mut found: Vec<u32> = slots(pool, node).map(|slot| held(pool, slot).1).collect();
        found.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn holders_come_and_go_without_a_trace() {
        let mut pool = Pool::default();
        let keep = pool.take();
        let node = new(&mut pool, false);
        let free = pool.spare(0);
        for most in [1, 2, 3, 4, 5, 31, 32, 33, 61, 62, 200] {
            for holder in 0..most {
                let entry = Entry {
                    mask: 1 << (holder % 64),
                    holder,
                    stamp: 7,
                    newer: holder + 1,
                    older: holder + 2,
                };
                let slot = add(&mut pool, node, entry);
                assert_eq!(find(&pool, node, holder), Some(slot));
            }
            let mut left: Vec<u32> = (0..most).collect();
            while !left.is_empty() {
                check(&pool, node, &left);
                let gone = left.remove(left.len() / 3);
                let slot = find(&pool, node, gone).unwrap();
                assert_eq!(entry(&pool, slot).older, gone + 2);
                remove(&mut pool, node, slot);
            }
            assert_eq!(pool.spare(0), free, "{most}");
        }
        discard(&mut pool, node);
        pool.give_back(keep);
        assert_eq!(pool.bytes(), 0);
    }

    #[test]
    fn the_matched_part_is_found_at_every_length() {
        let mut pool = Pool::default();
        let node = new(&mut pool, false);
        for hash in 100..150 {
            push(&mut pool, node, hash);
        }
        for same in 1..50 {
            for more in [0, 1, 40] {
                let chain: Vec<_> = (100..100 + same)
                    .chain(1000..1000 + more)
                    .map(super::super::BlockHash)
                    .collect();
                let expected = usize::try_from(same).unwrap();
                assert_eq!(matched(&pool, (node, 0), &chain), expected);
                if same > 3 {
                    assert_eq!(matched(&pool, (node, 3), &chain[3..]), expected - 3);
                }
            }
        }
        truncate(&mut pool, node, 17);
        assert_eq!((len(&pool, node), hash(&pool, node, 16)), (17, 116));
    }
}
