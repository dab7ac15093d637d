//! When to look at which endpoint next.

use crate::time::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A queue of (time, slot). An entry may be stale: the endpoint's own `wake` says which counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines(BinaryHeap<Reverse<(Time, u32)>>);

impl Deadlines {
    pub(crate) fn push(&mut self, at: Time, slot: u32) {
        self.0.push(Reverse((at, slot)));
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the earliest entry that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<(Time, u32)> {
        let Reverse((at, _)) = self.0.peek()?;
        if *at > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn earliest_first_and_only_when_due() {
        let at = |seconds| Time::from_origin(Duration::from_secs(seconds));
        let mut deadlines = Deadlines::default();
        deadlines.push(at(3), 1);
        deadlines.push(at(2), 2);
        assert_eq!(deadlines.next(), Some(at(2)));
        assert_eq!(deadlines.pop(at(1)), None);
        assert_eq!(deadlines.pop(at(9)), Some((at(2), 2)));
        assert_eq!(deadlines.pop(at(9)), Some((at(3), 1)));
        assert_eq!(deadlines.next(), None);
    }
}
