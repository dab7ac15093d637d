//! Who sends the requests, and when: open by time, turn by turn, or at most so many at once.

use crate::workload::Workload;
use std::collections::VecDeque;
use std::time::Duration;

pub(super) struct Clients<'a> {
    workload: &'a Workload,
    /// Requests that wait for nobody, in order of time; those before `next` have been due.
    open: Vec<u32>,
    next: usize,
    /// Request and the one it waits for, by the latter.
    turns: Vec<(u32, u32)>,
    /// Due, but as many as allowed are under way.
    waiting: VecDeque<u32>,
    under_way: u32,
}

impl<'a> Clients<'a> {
    pub(super) fn new(workload: &'a Workload) -> Self {
        let numbered = || (0_u32..).zip(&workload.requests);
        let mut open: Vec<u32> = numbered()
            .filter(|(_, request)| request.after.is_none())
            .map(|(index, _)| index)
            .collect();
        open.sort_by_key(|index| workload.requests[*index as usize].at);
        let mut turns: Vec<(u32, u32)> = numbered()
            .filter_map(|(index, request)| request.after.map(|before| (before, index)))
            .collect();
        turns.sort_unstable();
        Self {
            workload,
            open,
            next: 0,
            turns,
            waiting: VecDeque::new(),
            under_way: 0,
        }
    }

    /// When the next of those that wait for nobody is due.
    pub(super) fn next_due(&self) -> Option<Duration> {
        let index = *self.open.get(self.next)?;
        Some(self.workload.requests[index as usize].at)
    }

    /// The next of those that wait for nobody.
    pub(super) fn take_due(&mut self) -> Option<u32> {
        let index = *self.open.get(self.next)?;
        self.next += 1;
        Some(index)
    }

    /// A request is due: true if it is sent now, else it waits its turn.
    pub(super) fn due(&mut self, index: u32) -> bool {
        let most = self.workload.max_concurrency.unwrap_or(u32::MAX);
        let sends = self.under_way < most;
        if sends {
            self.under_way += 1;
        } else {
            self.waiting.push_back(index);
        }
        sends
    }

    /// A request has ended: gives the one that may be sent in its place.
    pub(super) fn ended(&mut self) -> Option<u32> {
        self.under_way = self.under_way.saturating_sub(1);
        let next = self.waiting.pop_front();
        self.under_way += u32::from(next.is_some());
        next
    }

    /// The requests that waited for the end of `index`, each with its time to think.
    pub(super) fn turns_after(&self, index: u32) -> impl Iterator<Item = (u32, Duration)> + '_ {
        let start = self.turns.partition_point(|(before, _)| *before < index);
        self.turns[start..]
            .iter()
            .take_while(move |(before, _)| *before == index)
            .map(|(_, turn)| (*turn, self.workload.requests[*turn as usize].at))
    }

    /// Requests that were sent and have not ended.
    pub(super) fn under_way(&self) -> u32 {
        self.under_way
    }
}
