//! What holders forgot for want of room, and how much of that was asked for again: what room in their caches is worth.
//!
//! A *ghost* remembers a block after it is gone, as the ghost lists of adaptive caches do (N. Megiddo, D. Modha, "ARC", USENIX
//! FAST 2003). Only a sample of blocks is followed, by their hashes, as in SHARDS (C. Waldspurger et al., USENIX FAST 2015).

use super::BlockHash;
use crate::rng::mixed;

/// One block of so many is followed.
const SAMPLE: u64 = 2;
/// Most ghosts, a power of two; a newer one takes the place of an older one.
const GHOSTS_MAX: usize = 1 << 16;
/// Part of the memory of an index that they may take.
const PART: usize = 64;
/// Blocks of a cache, at least, that what counts is measured by.
const WINDOW_MIN: f64 = 2048.0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost {
    /// By hash; none until something is forgotten.
    ghosts: Vec<Ghost>,
    /// How many there may be.
    most: usize,
    holders: Vec<Account>,
}

/// A block that its last holder forgot.
#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    /// The upper half of its hash.
    tag: u32,
    /// Its holder + 1; 0: none.
    holder: u32,
}

/// Blocks of one holder, in the sample.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    forgotten: f64,
    wanted: f64,
}

impl Lost {
    /// Of an index of so many bytes at most.
    pub(super) fn within(bytes_max: usize) -> Self {
        let most = (bytes_max / PART / size_of::<Ghost>()).max(1);
        Self {
            most: (1 << most.ilog2()).min(GHOSTS_MAX),
            ..Self::default()
        }
    }

    /// The index has so many bytes at most from here on; where that is another number of ghosts, they begin anew.
    pub(super) fn limit(&mut self, bytes_max: usize) {
        let most = Self::within(bytes_max).most;
        if most != self.most {
            self.most = most;
            self.ghosts = Vec::new();
        }
    }

    /// A holder of `held` blocks forgets one; `last`: nobody else has it.
    pub(super) fn forgotten(&mut self, (holder, held): (u32, u32), hash: u64, last: bool) {
        // Hashes of a trace may be plain numbers.
        let hash = mixed(hash);
        if !hash.is_multiple_of(SAMPLE) {
            return;
        }
        if holder as usize >= self.holders.len() {
            self.holders.resize(holder as usize + 1, Account::default());
        }
        let account = &mut self.holders[holder as usize];
        account.forgotten += 1.0;
        // What counts is what was forgotten while the cache was filled once or twice.
        #[expect(clippy::cast_precision_loss, reason = "SAMPLE is small")]
        let window = f64::from(held).max(WINDOW_MIN) / SAMPLE as f64;
        if account.forgotten > 2.0 * window {
            account.forgotten /= 2.0;
            account.wanted /= 2.0;
        }
        if last {
            if self.ghosts.is_empty() {
                self.ghosts = vec![Ghost::default(); self.most];
            }
            let place = self.place(hash);
            self.ghosts[place] = Ghost {
                tag: tag(hash),
                holder: holder + 1,
            };
        }
    }

    /// Blocks are asked for that nobody has.
    pub(super) fn asked_for(&mut self, blocks: &[BlockHash]) {
        if self.ghosts.is_empty() {
            return;
        }
        let sample = blocks.iter().map(|BlockHash(hash)| mixed(*hash));
        for hash in sample.filter(|hash| hash.is_multiple_of(SAMPLE)) {
            let place = self.place(hash);
            let ghost = &mut self.ghosts[place];
            if ghost.holder == 0 || ghost.tag != tag(hash) {
                continue;
            }
            if let Some(account) = self.holders.get_mut(ghost.holder as usize - 1) {
                account.wanted += 1.0;
            }
            *ghost = Ghost::default();
        }
    }

    /// Share of what a holder forgot for want of room that was asked for again when nobody had it, 0 to 1.
    pub(super) fn regret(&self, holder: u32) -> f64 {
        match self.holders.get(holder as usize) {
            Some(account) if account.forgotten >= 1.0 => (account.wanted / account.forgotten).min(1.0),
            _ => 0.0,
        }
    }

    /// A holder begins anew: what is asked for that it forgot before is no regret of whoever it is now.
    pub(super) fn cleared(&mut self, holder: u32) {
        let Some(account) = self.holders.get_mut(holder as usize) else {
            return;
        };
        // Who forgot nothing has no ghosts, as one that refuses connection after connection.
        if account.forgotten == 0.0 {
            return;
        }
        *account = Account::default();
        let ghosts = self.ghosts.iter_mut();
        for ghost in ghosts.filter(|ghost| ghost.holder == holder + 1) {
            *ghost = Ghost::default();
        }
    }

    const fn place(&self, hash: u64) -> usize {
        (hash / SAMPLE) as usize & (self.most - 1)
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.ghosts.capacity() * size_of::<Ghost>() + self.holders.capacity() * size_of::<Account>()
    }

    /// The same with what the ghosts will take once there are any: kept free, since they come when memory is full.
    pub(super) fn bytes_max(&self) -> usize {
        self.most * size_of::<Ghost>() + self.holders.capacity() * size_of::<Account>()
    }
}

const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty thousand blocks of a name.
    fn blocks(name: u64) -> Vec<BlockHash> {
        (0..20_000).map(|at| BlockHash(name << 32 | at)).collect()
    }

    fn forget(lost: &mut Lost, holder: u32, blocks: &[BlockHash]) {
        for block in blocks {
            lost.forgotten((holder, 20_000), block.0, true);
        }
    }

    #[test]
    fn regret_is_the_share_that_is_asked_for_again() {
        let mut lost = Lost::within(256 << 20);
        assert_eq!(lost.regret(1), 0.0, "it forgot nothing");
        let (kept, gone) = (blocks(1), blocks(2));
        forget(&mut lost, 1, &gone);
        lost.asked_for(&kept);
        assert_eq!(lost.regret(1), 0.0, "what was not forgotten is no regret");
        lost.asked_for(&gone[..5000]);
        // Some ghosts have been displaced by others.
        let quarter = 0.2..=0.26;
        assert!(quarter.contains(&lost.regret(1)), "{}", lost.regret(1));
        lost.asked_for(&gone[..5000]);
        assert!(quarter.contains(&lost.regret(1)), "each counts once");
        assert_eq!(
            (lost.regret(0), lost.regret(7)),
            (0.0, 0.0),
            "others forgot nothing"
        );
        lost.cleared(1);
        assert_eq!(lost.regret(1), 0.0);
    }

    #[test]
    fn what_others_still_have_was_forgotten_without_regret() {
        let mut lost = Lost::within(256 << 20);
        for block in blocks(1) {
            lost.forgotten((0, 20_000), block.0, false);
        }
        lost.asked_for(&blocks(1));
        assert_eq!(lost.regret(0), 0.0);
    }

    #[test]
    fn what_it_forgot_long_ago_counts_no_longer() {
        let mut lost = Lost::within(256 << 20);
        for round in 0..4 {
            forget(&mut lost, 0, &blocks(round));
            lost.asked_for(&blocks(round));
        }
        assert!(lost.regret(0) > 0.95, "{}", lost.regret(0));
        (4..12).for_each(|round| forget(&mut lost, 0, &blocks(round)));
        assert!(lost.regret(0) < 0.1, "{}", lost.regret(0));
    }

    #[test]
    fn a_small_index_has_few_ghosts_and_the_newest_stay() {
        let mut lost = Lost::within(512 << 10);
        forget(&mut lost, 0, &blocks(1));
        assert!(lost.bytes() < 9 << 10, "{}", lost.bytes());
        lost.asked_for(&blocks(1)[19_900..]);
        assert!(lost.regret(0) > 0.0);
    }
}
