//! Runs of iterations in which sequences only decode, taken in one leap by a quiet engine.
//!
//! While nothing is admitted, preempted, finished or cancelled, an iteration differs from the one before by one token
//! of context per sequence. Its duration follows from sums over the batch, and the blocks that sequences take and fill
//! are known beforehand: each takes one every `block_size` iterations. So a run costs a few nanoseconds for each
//! iteration and one move for each block, whatever the number of sequences; these are brought up to date at its end.

use super::blocks::BlockPool;
use super::sequence::Sequence;
use super::{Settings, Time};
use crate::coefficients::Batch;
use std::time::Duration;

/// Iterations in one run at most, so that planning one stays cheap when arrivals cut each short.
const LONGEST: u32 = 2048;

/// A run: the iteration in flight and those after it.
#[derive(Clone)]
pub(super) struct Run {
    /// Iterations begun since the one in which the run was planned.
    begun: u32,
    /// Iterations after that one.
    length: u32,
    /// End of the last.
    ends: Time,
    /// The iteration in flight.
    batch: Batch,
    moves: Vec<Move>,
    /// The next move: its place, and how often all were made.
    place: usize,
    turn: u32,
}

/// Something that a sequence does to the cache, once in `block_size` iterations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Move {
    /// In which iteration after the planning one, the first time.
    at: u32,
    /// Whose.
    sequence: u32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Takes a block for the token of this iteration.
    Take,
    /// The token of this iteration fills a block.
    Fill,
}

/// How far a run may go.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// A sequence finishes.
    Finish,
    /// Or the first iteration that ends at this time or later: work has arrived by then.
    Arrival(Time),
    /// Or the last iteration before one in which the cache changes.
    Move,
}

/// What a run works on.
pub(super) struct Cast<'a> {
    pub(super) running: &'a mut [Sequence],
    pub(super) pool: &'a mut BlockPool,
    pub(super) speed: Speed<'a>,
}

/// Speed of an engine.
#[derive(Clone, Copy)]
pub(super) struct Speed<'a> {
    pub(super) settings: &'a Settings,
    pub(super) slowdown: f64,
}

impl Speed<'_> {
    #[inline]
    fn iteration_ns(self, batch: &Batch) -> u64 {
        self.settings.coefficients.iteration_ns(batch, self.slowdown)
    }
}

impl Run {
    /// Plans a run from the iteration in flight, which ends at `ends` and in which all of `running` decode. None when
    /// the iteration stands alone.
    pub(super) fn plan(ends: Time, until: Until, cast: &Cast<'_>) -> Option<Self> {
        let (running, block_size) = (&*cast.running, cast.speed.settings.block_size);
        let rest = |s: &Sequence| s.work.output_tokens - s.generated;
        let length = running.iter().map(rest).min()?.min(LONGEST) - 1;
        if length == 0 || matches!(until, Until::Arrival(at) if at <= ends) {
            return None;
        }
        let count = running.len() as u64;
        let mut run = Self {
            begun: 0,
            length,
            ends,
            batch: Batch {
                tokens: count,
                sequences: count,
                context_tokens: running.iter().map(|s| u64::from(s.known_tokens())).sum(),
                ..Batch::default()
            },
            moves: moves(running, length, block_size),
            place: 0,
            turn: 0,
        };
        run.shorten(cast.pool.free(), until, block_size);
        run.time(until, cast.speed);
        (run.length > 0).then_some(run)
    }

    /// When the last iteration ends.
    pub(super) fn ends(&self) -> Time {
        self.ends
    }

    /// Ends the run before the iteration that finds no block, or that moves one if that matters.
    fn shorten(&mut self, free: u32, until: Until, block_size: u32) {
        if matches!(until, Until::Move) {
            self.length = self
                .moves
                .first()
                .map_or(self.length, |first| self.length.min(first.at - 1));
            return;
        }
        let most = u64::from(self.length / block_size + 1) * self.batch.tokens;
        if most <= u64::from(free) {
            return;
        }
        let mut left = free;
        while let Some(at) = self.next_move(block_size) {
            if self.moves[self.place].kind == Kind::Take {
                if left == 0 {
                    self.length = at - 1;
                    break;
                }
                left -= 1;
            }
            self.pass_move();
        }
        (self.place, self.turn) = (0, 0);
    }

    /// Begins the iterations that start at `now` or before, after the one that ends at `ends`. Returns when the one in
    /// flight then ends.
    pub(super) fn catch_up(&mut self, now: Time, mut ends: Time, cast: &mut Cast<'_>) -> Time {
        while ends <= now && self.begun < self.length {
            self.begun += 1;
            self.batch.context_tokens += self.batch.tokens;
            ends = ends.saturating_add(Duration::from_nanos(cast.speed.iteration_ns(&self.batch)));
            self.make_moves(self.begun, cast);
        }
        ends
    }

    /// Begins all iterations of the run.
    pub(super) fn finish(&mut self, cast: &mut Cast<'_>) -> Time {
        self.begun = self.length;
        self.make_moves(self.length, cast);
        self.ends
    }

    /// Iterations begun so far, and tokens of each: what the sequences do not know yet.
    pub(super) fn progress(&self) -> (u32, u64) {
        (self.begun, self.batch.tokens)
    }

    /// Finds when the run ends, and ends it at an arrival.
    fn time(&mut self, until: Until, speed: Speed<'_>) {
        let limit = match until {
            Until::Arrival(at) => at
                .saturating_sub(self.ends)
                .as_nanos()
                .try_into()
                .unwrap_or(u64::MAX),
            Until::Finish | Until::Move => u64::MAX,
        };
        let mut batch = self.batch;
        let (mut passed, mut iterations) = (0, 0);
        while iterations < self.length && passed < limit {
            batch.context_tokens += batch.tokens;
            passed += speed.iteration_ns(&batch);
            iterations += 1;
        }
        self.length = iterations;
        self.ends = self.ends.saturating_add(Duration::from_nanos(passed));
    }

    /// The iteration of the next move, if it is in the run.
    fn next_move(&self, block_size: u32) -> Option<u32> {
        let at = self.moves.get(self.place)?.at + self.turn * block_size;
        (at <= self.length).then_some(at)
    }

    fn pass_move(&mut self) {
        self.place += 1;
        if self.place == self.moves.len() {
            (self.place, self.turn) = (0, self.turn + 1);
        }
    }

    /// Makes the moves of all iterations up to number `last`.
    fn make_moves(&mut self, last: u32, cast: &mut Cast<'_>) {
        let block_size = cast.speed.settings.block_size;
        while let Some(at) = self.next_move(block_size).filter(|at| *at <= last) {
            let Move { sequence, kind, .. } = self.moves[self.place];
            let sequence = &mut cast.running[sequence as usize];
            match kind {
                Kind::Take => sequence.held.extend(cast.pool.take()),
                Kind::Fill => {
                    let block = ((sequence.computed + at) / block_size) as usize;
                    sequence.fill(block, cast.pool);
                }
            }
            self.pass_move();
        }
    }
}

/// What happens to the cache in the first `length` iterations, in its order.
fn moves(running: &[Sequence], length: u32, block_size: u32) -> Vec<Move> {
    let mut moves = Vec::new();
    for (index, sequence) in running.iter().enumerate() {
        let mut add = |tokens_before: u32, kind| {
            // The first iteration in which this many tokens make whole blocks.
            let at = block_size - tokens_before % block_size;
            if at <= length {
                moves.push(Move {
                    at,
                    sequence: index as u32,
                    kind,
                });
            }
        };
        add(sequence.computed, Kind::Take);
        if sequence.work.blocks.len() > (sequence.computed / block_size) as usize {
            add(sequence.computed + 1, Kind::Fill);
        }
    }
    moves.sort_unstable();
    moves
}
