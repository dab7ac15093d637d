//! Choices that a seed repeats.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Mcg128Xsl64;
use std::cell::RefCell;
use std::time::Duration;

/// One sequence of choices.
pub(crate) struct Dice {
    seed: u64,
    sequence: u64,
    state: RefCell<Mcg128Xsl64>,
}

impl Dice {
    /// Sequence number `sequence` of `seed`; others of the same seed are unlike it.
    pub(crate) fn new(seed: u64, sequence: u64) -> Dice {
        let mixed = seed ^ sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Dice {
            seed,
            sequence,
            state: RefCell::new(Mcg128Xsl64::seed_from_u64(mixed)),
        }
    }

    /// Dice for one of several threads.
    pub(crate) fn split(&self, index: usize) -> Dice {
        Dice::new(self.seed, self.sequence * 1_000 + 1_000 + index as u64)
    }

    /// A number from 0 up to `end`.
    pub(crate) fn below(&self, end: usize) -> usize {
        usize::try_from(self.state.borrow_mut().next_u64() % end as u64).expect("smaller than a usize")
    }

    /// True in `percent` of 100 cases.
    pub(crate) fn chance(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`.
    pub(crate) fn one<'a, T>(&self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// A time from `least` to `most` milliseconds.
    pub(crate) fn millis(&self, least: usize, most: usize) -> Duration {
        Duration::from_millis((least + self.below(most - least + 1)) as u64)
    }
}
