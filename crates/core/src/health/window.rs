//! Two counters over a sliding span of time: a ring of 32 buckets, so the span is kept to within 1/32.

use crate::time::Time;
use std::time::Duration;

const BUCKETS: usize = 32;

/// Counts of two kinds of event within the last `span`.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    span: Duration,
    /// Nanoseconds per bucket, ≥ 1.
    width: u64,
    /// Number of the newest bucket: time divided by width.
    newest: u64,
    buckets: Box<[[u32; 2]; BUCKETS]>,
    sums: [u64; 2],
}

impl Window {
    pub(crate) fn new(span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self {
            span,
            width: nanos.div_ceil(BUCKETS as u64).max(1),
            newest: 0,
            buckets: Box::new([[0; 2]; BUCKETS]),
            sums: [0; 2],
        }
    }

    /// The span it was made for.
    pub(crate) const fn span(&self) -> Duration {
        self.span
    }

    /// Counts one event of `kind` (0 or 1) and returns both sums.
    pub(crate) fn add(&mut self, now: Time, kind: usize) -> [u64; 2] {
        self.advance(now);
        let bucket = &mut self.buckets[place(self.newest)][kind];
        if *bucket < u32::MAX {
            *bucket += 1;
            self.sums[kind] += 1;
        }
        self.sums
    }

    /// Both sums at `now`, without moving the ring.
    pub(crate) fn sums(&self, now: Time) -> [u64; 2] {
        let number = (now.nanos() / self.width).max(self.newest);
        let gone = usize::try_from(number - self.newest)
            .unwrap_or(BUCKETS)
            .min(BUCKETS);
        let mut sums = self.sums;
        for step in 1..=gone as u64 {
            let bucket = self.buckets[place(self.newest.wrapping_add(step))];
            sums[0] -= u64::from(bucket[0]);
            sums[1] -= u64::from(bucket[1]);
        }
        sums
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self.buckets = [[0; 2]; BUCKETS];
        self.sums = [0; 2];
    }

    fn advance(&mut self, now: Time) {
        let number = now.nanos() / self.width;
        if number <= self.newest {
            return;
        }
        if number - self.newest >= BUCKETS as u64 {
            self.clear();
        } else {
            for gone in self.newest + 1..=number {
                let bucket = std::mem::take(&mut self.buckets[place(gone)]);
                self.sums[0] -= u64::from(bucket[0]);
                self.sums[1] -= u64::from(bucket[1]);
            }
        }
        self.newest = number;
    }
}

const fn place(number: u64) -> usize {
    (number % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn forgets_what_is_older_than_the_span() {
        let mut window = Window::new(Duration::from_millis(3200));
        assert_eq!(window.add(at(1000), 1), [0, 1]);
        assert_eq!(window.add(at(1050), 0), [1, 1]);
        assert_eq!(window.sums(at(4199)), [1, 1]);
        assert_eq!(window.sums(at(4200)), [0, 0]);
        assert_eq!(window.add(at(4200), 0), [1, 0]);
        assert_eq!(window.add(at(1_000_000), 1), [0, 1]);
    }

    #[test]
    fn reading_ahead_changes_nothing() {
        let mut window = Window::new(Duration::from_secs(32));
        for second in 0..40 {
            window.add(at(second * 1000), 0);
        }
        assert_eq!(window.sums(at(39_000)), [32, 0]);
        assert_eq!(window.sums(at(49_000)), [22, 0]);
        assert_eq!(window.sums(at(39_000)), [32, 0]);
        window.clear();
        assert_eq!(window.sums(at(39_000)), [0, 0]);
    }

    #[test]
    fn survives_an_empty_span() {
        let mut window = Window::new(Duration::ZERO);
        assert_eq!(window.add(at(1), 0), [1, 0]);
        assert_eq!(window.add(at(2), 0), [1, 0]);
    }
}
