//! The memory of the index: lines of 64 bytes, all alike.
//!
//! Hashes, runs, lists of holders and buckets of the table are made of the same lines, so what one of them gives back
//! any other can take: the pool never fragments, and a limit of lines is a limit of memory.

/// No line: the first is never handed out, so that an empty line links to nothing.
pub(super) const NONE: u32 = 0;

const SEGMENT: usize = 1024;

/// Eight words or sixteen halves of words, as its user sees it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(super) struct Line([u64; 8]);

impl Line {
    pub(super) const BYTES: usize = size_of::<Self>();

    #[inline]
    pub(super) const fn word(&self, at: usize) -> u64 {
        self.0[at & 7]
    }

    #[inline]
    pub(super) const fn set_word(&mut self, at: usize, value: u64) {
        self.0[at & 7] = value;
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "half of a word")]
    pub(super) const fn half(&self, at: usize) -> u32 {
        (self.0[(at >> 1) & 7] >> (32 * (at & 1))) as u32
    }

    #[inline]
    pub(super) const fn set_half(&mut self, at: usize, value: u32) {
        let shift = 32 * (at & 1);
        let word = &mut self.0[(at >> 1) & 7];
        *word = *word & !(0xffff_ffff << shift) | (value as u64) << shift;
    }
}

/// Lines by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    segments: Vec<Box<[Line]>>,
    /// First of the list of lines given back.
    free: u32,
    /// Lines that are in use.
    used: usize,
    /// Lines that were ever in use.
    touched: usize,
}

impl Pool {
    /// An empty line. Whoever takes many asks [`Self::spare`] first; this one never fails.
    pub(super) fn take(&mut self) -> u32 {
        self.used += 1;
        if self.free != NONE {
            let line = self.free;
            self.free = self[line].half(0);
            self[line] = Line::default();
            return line;
        }
        // The first line of all stays unused.
        let next = self.touched.max(1);
        if next >= self.segments.len() * SEGMENT {
            self.segments
                .push(vec![Line::default(); SEGMENT].into_boxed_slice());
        }
        self.touched = next + 1;
        u32::try_from(next).unwrap_or(NONE)
    }

    pub(super) fn give_back(&mut self, line: u32) {
        debug_assert!(line != NONE && self.used > 0, "it was taken");
        self.used -= 1;
        if self.used == 0 {
            // The only moment at which memory goes back.
            *self = Self::default();
            return;
        }
        let next = self.free;
        self[line].set_half(0, next);
        self.free = line;
    }

    /// Lines that can be taken within `bytes_max`.
    pub(super) fn spare(&self, bytes_max: usize) -> usize {
        let allowed = (bytes_max / (SEGMENT * Line::BYTES) * SEGMENT).max(self.segments.len() * SEGMENT);
        allowed.saturating_sub(self.used + 1)
    }

    /// Whether more memory is in use than `bytes_max`.
    pub(super) fn bytes(&self) -> usize {
        self.segments.len() * SEGMENT * Line::BYTES + self.segments.capacity() * size_of::<Box<[Line]>>()
    }
}

impl std::ops::Index<u32> for Pool {
    type Output = Line;
    #[inline]
    fn index(&self, line: u32) -> &Line {
        &self.segments[line as usize / SEGMENT][line as usize % SEGMENT]
    }
}

impl std::ops::IndexMut<u32> for Pool {
    #[inline]
    fn index_mut(&mut self, line: u32) -> &mut Line {
        &mut self.segments[line as usize / SEGMENT][line as usize % SEGMENT]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_lie_beside_each_other() {
        let mut line = Line::default();
        for at in 0..16 {
            line.set_half(at, 7 * u32::try_from(at).unwrap() + 1);
        }
        line.set_half(3, u32::MAX);
        line.set_half(3, 5);
        assert_eq!((line.half(2), line.half(3), line.half(4)), (15, 5, 29));
        assert_eq!(line.word(1), 5 << 32 | 15);
    }

    #[test]
    fn lines_given_back_are_taken_again_empty() {
        let mut pool = Pool::default();
        let (a, b) = (pool.take(), pool.take());
        assert!(a != NONE && b != NONE && a != b);
        pool[a].set_word(7, 9);
        pool.give_back(a);
        assert_eq!(pool.take(), a);
        assert_eq!(pool[a].word(7), 0);
        let bytes = pool.bytes();
        assert_eq!(pool.spare(bytes), SEGMENT - 3);
        assert_eq!(pool.spare(bytes + SEGMENT * 64), 2 * SEGMENT - 3);
        pool.give_back(a);
        pool.give_back(b);
        assert_eq!(pool.bytes(), 0);
    }
}
