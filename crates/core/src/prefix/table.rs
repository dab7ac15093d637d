//! Where a block is: a hash table whose buckets are lines.
//!
//! Linear hashing (Litwin 1980): it grows and shrinks by one bucket at a time, so no call ever pays for a rehash of all and
//! no second table is held beside the first. A bucket has twelve places and a byte of each hash; what does not fit goes
//! to further lines. The hashes themselves are not kept here but read where the place points to.

use super::line::{Line, NONE, Pool};
use super::node;
use smallvec::SmallVec;

const SLOTS: usize = 12;
/// Mean entries of a bucket above which one more is made, and below which one is given up.
const FULL: usize = 9;
const EMPTY: usize = 6;
/// Half of a bucket's line that names the next.
const NEXT: usize = 15;

#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    buckets: Vec<u32>,
    entries: usize,
}

const fn tag_of(hash: u64) -> u8 {
    let tag = (hash >> 56) as u8;
    if tag == 0 { 1 } else { tag }
}

const fn tag(line: &Line, slot: usize) -> u8 {
    (line.word(6 + slot / 8) >> (8 * (slot % 8))) as u8
}

fn set(line: &mut Line, slot: usize, (place, tag): (u32, u8)) {
    line.set_half(slot, place);
    let (word, shift) = (6 + slot / 8, 8 * (slot % 8));
    line.set_word(word, line.word(word) & !(0xff << shift) | u64::from(tag) << shift);
}

/// Marks the bytes of `word` that are `tag`; a byte above a marked one may be marked wrongly.
const fn equal_bytes(word: u64, tag: u8) -> u64 {
    let x = word ^ (tag as u64 * 0x0101_0101_0101_0101);
    x.wrapping_sub(0x0101_0101_0101_0101) & !x & 0x8080_8080_8080_8080
}

/// The slots of a line that may hold `tag`, one bit each.
fn candidates(line: &Line, tag: u8) -> impl Iterator<Item = usize> {
    let mut low = equal_bytes(line.word(6), tag);
    let mut high = equal_bytes(line.word(7) & 0xffff_ffff, tag) & 0xffff_ffff;
    std::iter::from_fn(move || {
        let (bits, base) = if low == 0 { (&mut high, 8) } else { (&mut low, 0) };
        if *bits == 0 {
            return None;
        }
        let slot = base + bits.trailing_zeros() as usize / 8;
        *bits &= *bits - 1;
        Some(slot)
    })
}

/// The first slot without an entry.
const fn empty_slot(line: &Line) -> Option<usize> {
    // The lowest mark is never wrong.
    let low = equal_bytes(line.word(6), 0);
    if low != 0 {
        return Some(low.trailing_zeros() as usize / 8);
    }
    let high = equal_bytes(line.word(7), 0) & 0xffff_ffff;
    if high != 0 {
        return Some(8 + high.trailing_zeros() as usize / 8);
    }
    None
}

impl Table {
    #[allow(clippy::cast_possible_truncation, reason = "only low bits count")]
    fn bucket(&self, hash: u64) -> usize {
        let count = self.buckets.len();
        let round = count.next_power_of_two();
        let bucket = hash as usize & (round - 1);
        if bucket < count {
            bucket
        } else {
            bucket - round / 2
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<u32>()
    }

    /// The place of `hash` for which `same` is true.
    #[inline]
    pub(super) fn find(&self, pool: &Pool, hash: u64, same: impl Fn(u32) -> bool) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.buckets[self.bucket(hash)];
        while at != NONE {
            let line = &pool[at];
            for slot in candidates(line, tag_of(hash)) {
                let place = line.half(slot);
                if place != NONE && same(place) {
                    return Some(place);
                }
            }
            at = line.half(NEXT);
        }
        None
    }

    /// The first place that may be that of `hash`.
    #[inline]
    pub(super) fn guess(&self, pool: &Pool, hash: u64) -> Option<u32> {
        self.find(pool, hash, |_| true)
    }

    /// Adds the place of a hash that is not there.
    pub(super) fn insert(&mut self, pool: &mut Pool, hash: u64, place: u32) {
        if self.buckets.is_empty() {
            self.buckets.push(pool.take());
        }
        put(pool, self.buckets[self.bucket(hash)], (place, tag_of(hash)));
        self.entries += 1;
        if self.entries > self.buckets.len() * FULL {
            self.split(pool);
        }
    }

    /// Changes the place of a hash.
    pub(super) fn replace(&mut self, pool: &mut Pool, hash: u64, (old, new): (u32, u32)) {
        let mut at = self.buckets[self.bucket(hash)];
        while at != NONE {
            if let Some(slot) = slot_of(&pool[at], old) {
                pool[at].set_half(slot, new);
                return;
            }
            at = pool[at].half(NEXT);
        }
        debug_assert!(false, "it is there");
    }

    /// Takes a hash out.
    pub(super) fn remove(&mut self, pool: &mut Pool, hash: u64, place: u32) {
        let mut at = self.buckets[self.bucket(hash)];
        let slot = loop {
            if at == NONE {
                debug_assert!(false, "it is there");
                return;
            }
            match slot_of(&pool[at], place) {
                Some(slot) => break slot,
                None => at = pool[at].half(NEXT),
            }
        };
        // The hole is filled from the bucket's last line, so that lines before it are full.
        let (mut before, mut last) = (NONE, at);
        while pool[last].half(NEXT) != NONE {
            (before, last) = (last, pool[last].half(NEXT));
        }
        let from = (0..SLOTS)
            .rev()
            .find(|slot| tag(&pool[last], *slot) != 0)
            .unwrap_or(slot);
        let moved = (pool[last].half(from), tag(&pool[last], from));
        set(&mut pool[at], slot, moved);
        set(&mut pool[last], from, (NONE, 0));
        if from == 0 && before != NONE {
            pool[before].set_half(NEXT, NONE);
            pool.give_back(last);
        }
        self.entries -= 1;
        let count = self.buckets.len();
        if self.entries == 0 || count > 1 && self.entries < count * EMPTY {
            self.contract(pool);
        }
    }

    /// Makes one bucket more, and moves to it what belongs there from the one that stood for both.
    fn split(&mut self, pool: &mut Pool) {
        let count = self.buckets.len();
        let bit = 1_usize << count.ilog2();
        let old = self.buckets[count - bit];
        let entries = drain(pool, old);
        let new = pool.take();
        if count == self.buckets.capacity() {
            self.buckets.reserve_exact(count / 8 + 16);
        }
        self.buckets.push(new);
        // All hashes are read before any entry is written, so that the reads do not wait for each other.
        let moves: SmallVec<[bool; 4 * SLOTS]> = (entries.iter())
            .map(|(place, _)| node::hash_at(pool, *place) & bit as u64 != 0)
            .collect();
        for (entry, moves) in entries.into_iter().zip(moves) {
            put(pool, if moves { new } else { old }, entry);
        }
    }

    /// Gives up the last bucket.
    fn contract(&mut self, pool: &mut Pool) {
        let Some(last) = self.buckets.pop() else {
            return;
        };
        if self.buckets.capacity() > 2 * self.buckets.len() + 64 {
            let most = self.buckets.len() + self.buckets.len() / 4;
            self.buckets.shrink_to(most);
        }
        let entries = drain(pool, last);
        pool.give_back(last);
        let count = self.buckets.len();
        if count == 0 {
            debug_assert!(entries.is_empty(), "the table is empty");
            return;
        }
        let other = self.buckets[count - (1 << count.ilog2())];
        for entry in entries {
            put(pool, other, entry);
        }
    }
}

fn slot_of(line: &Line, place: u32) -> Option<usize> {
    (0..SLOTS).find(|slot| line.half(*slot) == place)
}

/// Puts an entry into the bucket that begins with line `at`.
fn put(pool: &mut Pool, mut at: u32, entry: (u32, u8)) {
    loop {
        let line = &mut pool[at];
        if let Some(slot) = empty_slot(line) {
            set(line, slot, entry);
            return;
        }
        at = match line.half(NEXT) {
            NONE => {
                let more = pool.take();
                pool[at].set_half(NEXT, more);
                more
            }
            next => next,
        };
    }
}

/// Empties a bucket down to its first line.
fn drain(pool: &mut Pool, first: u32) -> SmallVec<[(u32, u8); 4 * SLOTS]> {
    let mut entries = SmallVec::new();
    let mut at = first;
    while at != NONE {
        let line = pool[at];
        let taken = (0..SLOTS).map(|slot| (line.half(slot), tag(&line, slot)));
        entries.extend(taken.filter(|(_, tag)| *tag != 0));
        if at == first {
            pool[at] = Line::default();
        } else {
            pool.give_back(at);
        }
        at = line.half(NEXT);
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_wherever_they_are() {
        let mut line = Line::default();
        for slot in 0..SLOTS {
            set(
                &mut line,
                slot,
                (u32::try_from(slot).unwrap() + 1, [7, 9, 200][slot % 3]),
            );
        }
        line.set_half(NEXT, u32::from_be_bytes([9; 4]));
        let found: Vec<usize> = candidates(&line, 9)
            .filter(|slot| tag(&line, *slot) == 9)
            .collect();
        assert_eq!(found, [1, 4, 7, 10]);
        assert_eq!(
            candidates(&line, 8).filter(|slot| tag(&line, *slot) == 8).count(),
            0
        );
    }
}
