//! A run: up to 64 blocks that follow each other, and who holds which of them.
//!
//! A run is a line that names up to eight lines of hashes and its first holder. Further holders are in lines of five, each
//! with a second line for the order of their use, which look-ups do not read; several such lines are listed in a line.
//! What a holder has of a run is one bit a block.
//!
//! | in the line of | halves | |
//! |---|---|---|
//! | a run | 0–7 | lines of hashes |
//! | | 8–13 | first holder: blocks, number, time of use, next in order, one before |
//! | | 14 | line of further holders, or the first list of such lines |
//! | | 15 | 7 bits length, 1 bit kind, 24 bits number of holders |
//! | holders | 0–9 | blocks of each |
//! | | 10–14 | number of each |
//! | | 15 | line of their order |
//! | order | 0–14 | of each: time of use, next in order, one before |
//! | a list | 0 | next list |
//! | | 1–15 | lines of holders |

use super::line::{NONE, Pool};

/// Most blocks of a run.
pub(super) const RUN: usize = 64;
/// Hashes of a line.
const HASHES: usize = 8;
/// Lines that a list names, after the next list.
const LISTED: usize = 15;
/// Further holders of a line.
const PER_LINE: usize = 5;

const FIRST_WORD: usize = 4;
const FIRST_HALF: usize = 10;
const MORE: usize = 14;
const SIZES: usize = 15;
const HOLDERS: usize = 10;
const ORDER: usize = 15;

/// Where what a holder has of a run is noted: a line, the word of its blocks and the half of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    line: u32,
    word: usize,
    half: usize,
}

impl Slot {
    const fn of_first(node: u32) -> Self {
        Self {
            line: node,
            word: FIRST_WORD,
            half: FIRST_HALF,
        }
    }

    const fn of(line: u32, at: usize) -> Self {
        Self {
            line,
            word: at,
            half: HOLDERS + at,
        }
    }

    /// Whether it is the first, in the line of the run.
    const fn first(self) -> bool {
        self.word + HOLDERS != self.half
    }
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

/// The line of the hash of the block at a place, if the place is one.
#[inline]
pub(super) fn line_of(pool: &Pool, place: u32) -> Option<u32> {
    let (node, at) = run_of(place);
    let line = pool[node].half(at / HASHES);
    (line != NONE).then_some(line)
}

/// The hash of block `at` of a run, of whose line it is.
#[inline]
pub(super) fn hash_in(pool: &Pool, line: u32, at: usize) -> u64 {
    pool[line].word(at % HASHES)
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
    let (mask, holder) = held(pool, slot);
    let (order, half) = order(pool, slot);
    let line = &pool[order];
    Entry {
        mask,
        holder,
        stamp: line.half(half),
        newer: line.half(half + 1),
        older: line.half(half + 2),
    }
}

pub(super) fn set_entry(pool: &mut Pool, slot: Slot, entry: Entry) {
    let line = &mut pool[slot.line];
    line.set_word(slot.word, entry.mask);
    line.set_half(slot.half, entry.holder);
    let (order, half) = order(pool, slot);
    let line = &mut pool[order];
    line.set_half(half, entry.stamp);
    line.set_half(half + 1, entry.newer);
    line.set_half(half + 2, entry.older);
}

/// Where the time and order of use of a slot are: a line and a half in it.
fn order(pool: &Pool, slot: Slot) -> (u32, usize) {
    if slot.first() {
        (slot.line, FIRST_HALF + 1)
    } else {
        (pool[slot.line].half(ORDER), 3 * slot.word)
    }
}

/// Mask and holder of a slot.
#[inline]
pub(super) fn held(pool: &Pool, slot: Slot) -> (u64, u32) {
    let line = &pool[slot.line];
    (line.word(slot.word), line.half(slot.half))
}

/// The slots of a run's holders.
pub(super) fn slots(pool: &Pool, node: u32) -> impl Iterator<Item = Slot> {
    let first = (holders(pool, node) > 0).then(|| Slot::of_first(node));
    let further = lines(pool, node).flat_map(|(line, count)| (0..count).map(move |at| Slot::of(line, at)));
    first.into_iter().chain(further)
}

/// Calls `f` with the mask and number of each holder.
#[inline]
pub(super) fn each_held(pool: &Pool, node: u32, mut f: impl FnMut(u64, u32)) {
    if holders(pool, node) == 0 {
        return;
    }
    let line = &pool[node];
    f(line.word(FIRST_WORD), line.half(FIRST_HALF));
    for (line, count) in lines(pool, node) {
        let line = &pool[line];
        for at in 0..count {
            f(line.word(at), line.half(HOLDERS + at));
        }
    }
}

/// The lines of a run's further holders, each with how many it has.
fn lines(pool: &Pool, node: u32) -> Lines<'_> {
    let further = holders(pool, node).saturating_sub(1);
    Lines {
        pool,
        left: further,
        listed: further > PER_LINE,
        at: 0,
        list: pool[node].half(MORE),
    }
}

/// See [`lines`].
struct Lines<'a> {
    pool: &'a Pool,
    left: usize,
    listed: bool,
    /// Place in the list.
    at: usize,
    list: u32,
}

impl Iterator for Lines<'_> {
    type Item = (u32, usize);

    #[inline]
    fn next(&mut self) -> Option<(u32, usize)> {
        if self.left == 0 {
            return None;
        }
        let count = self.left.min(PER_LINE);
        self.left -= count;
        if !self.listed {
            return Some((self.list, count));
        }
        if self.at == LISTED {
            self.list = self.pool[self.list].half(0);
            self.at = 0;
        }
        self.at += 1;
        Some((self.pool[self.list].half(self.at), count))
    }
}

pub(super) fn find(pool: &Pool, node: u32, holder: u32) -> Option<Slot> {
    if holders(pool, node) == 0 {
        return None;
    }
    if pool[node].half(FIRST_HALF) == holder {
        return Some(Slot::of_first(node));
    }
    lines(pool, node).find_map(|(number, count)| {
        let line = &pool[number];
        let at = (0..count).find(|at| line.half(HOLDERS + at) == holder)?;
        Some(Slot::of(number, at))
    })
}

/// The blocks that anyone holds.
pub(super) fn union(pool: &Pool, node: u32) -> u64 {
    let mut all = 0;
    each_held(pool, node, |mask, _| all |= mask);
    all
}

/// The blocks that anyone but one holder holds.
pub(super) fn union_but(pool: &Pool, node: u32, but: u32) -> u64 {
    let mut all = 0;
    each_held(pool, node, |mask, holder| {
        if holder != but {
            all |= mask;
        }
    });
    all
}

/// The list that names the line of holder number `at` (from 1), and where in it.
fn listed(pool: &Pool, node: u32, at: usize) -> (u32, usize) {
    let line = (at - 1) / PER_LINE;
    let mut list = pool[node].half(MORE);
    for _ in 0..line / LISTED {
        list = pool[list].half(0);
    }
    (list, 1 + line % LISTED)
}

/// Slot of holder number `at`, when there are `count`.
fn slot(pool: &Pool, node: u32, (at, count): (usize, usize)) -> Slot {
    if at == 0 {
        return Slot::of_first(node);
    }
    let line = if count <= 1 + PER_LINE {
        pool[node].half(MORE)
    } else {
        let (list, at) = listed(pool, node, at);
        pool[list].half(at)
    };
    Slot::of(line, (at - 1) % PER_LINE)
}

/// Adds a holder that is not there.
pub(super) fn add(pool: &mut Pool, node: u32, entry: Entry) {
    let count = holders(pool, node);
    if count > 0 && (count - 1).is_multiple_of(PER_LINE) {
        add_line(pool, node, count);
    }
    let sizes = pool[node].half(SIZES);
    pool[node].set_half(SIZES, sizes + 0x100);
    let slot = slot(pool, node, (count, count + 1));
    set_entry(pool, slot, entry);
}

/// A line for holders from number `count` on.
fn add_line(pool: &mut Pool, node: u32, count: usize) {
    let line = pool.take();
    let order = pool.take();
    pool[line].set_half(ORDER, order);
    let lines = (count - 1) / PER_LINE;
    if lines == 0 {
        pool[node].set_half(MORE, line);
        return;
    }
    if lines == 1 {
        let list = pool.take();
        let before = pool[node].half(MORE);
        pool[list].set_half(1, before);
        pool[node].set_half(MORE, list);
    } else if lines.is_multiple_of(LISTED) {
        let more = pool.take();
        let (last, _) = listed(pool, node, count - 1);
        pool[last].set_half(0, more);
    }
    let (list, at) = listed(pool, node, count);
    pool[list].set_half(at, line);
}

/// Takes a holder out; the last takes its place.
pub(super) fn remove(pool: &mut Pool, node: u32, gone: Slot) {
    let count = holders(pool, node);
    let last = slot(pool, node, (count - 1, count));
    let moved = entry(pool, last);
    set_entry(pool, gone, moved);
    if count > 1 && (count - 2).is_multiple_of(PER_LINE) {
        remove_line(pool, node, (last.line, count - 1));
    }
    let sizes = pool[node].half(SIZES);
    pool[node].set_half(SIZES, sizes - 0x100);
}

/// Gives back the last line, whose only holder is number `at`.
fn remove_line(pool: &mut Pool, node: u32, (line, at): (u32, usize)) {
    let lines = (at - 1) / PER_LINE;
    if lines > 0 && lines.is_multiple_of(LISTED) {
        // Its list names no other; the one before it is the last now.
        let (list, _) = listed(pool, node, at);
        let (before, _) = listed(pool, node, at - 1);
        pool[before].set_half(0, NONE);
        pool.give_back(list);
    } else if lines == 1 {
        let list = pool[node].half(MORE);
        let first = pool[list].half(1);
        pool[node].set_half(MORE, first);
        pool.give_back(list);
    } else if lines == 0 {
        pool[node].set_half(MORE, NONE);
    }
    let order = pool[line].half(ORDER);
    pool.give_back(order);
    pool.give_back(line);
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
        for most in [1, 2, 5, 6, 7, 8, 11, 12, 75, 76, 77, 81, 82, 200, 400] {
            for holder in 0..most {
                let entry = Entry {
                    mask: 1 << (holder % 64),
                    holder,
                    stamp: 7,
                    newer: holder + 1,
                    older: holder + 2,
                };
                add(&mut pool, node, entry);
                assert_eq!(
                    held(&pool, find(&pool, node, holder).unwrap()),
                    (entry.mask, holder)
                );
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
