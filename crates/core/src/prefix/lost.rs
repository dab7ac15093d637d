//! What holders forgot for want of room, and how much of that was asked for again: what room in their caches is worth.
//!
//! A *ghost* remembers a block after it is gone, as the ghost lists of adaptive caches do (N. Megiddo, D. Modha, "ARC", USENIX
//! FAST 2003). Only a sample of blocks is followed, by their hashes, as in SHARDS (C. Waldspurger et al., USENIX FAST 2015).

use super::BlockHash;

/// One block of so many is followed.
const SAMPLE: u64 = 2;
/// Ghosts; a newer one takes the place of an older one.
const GHOSTS: usize = 1 << 16;
/// Blocks of a cache, at least, that what counts is measured by.
const WINDOW_MIN: f64 = 2048.0;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost {
    /// By hash; none until something is forgotten.
    ghosts: Vec<Ghost>,
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
    /// A holder of `held` blocks forgets one; `last`: nobody else has it.
    pub(super) fn forgotten(&mut self, (holder, held): (u32, u32), hash: u64, last: bool) {
        let hash = mixed(hash);
        if hash % SAMPLE != 0 {
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
            self.ghosts.resize(GHOSTS, Ghost::default());
            self.ghosts[place(hash)] = Ghost {
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
        for hash in sample.filter(|hash| hash % SAMPLE == 0) {
            let ghost = &mut self.ghosts[place(hash)];
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

    /// A holder begins anew.
    pub(super) fn cleared(&mut self, holder: u32) {
        if let Some(account) = self.holders.get_mut(holder as usize) {
            *account = Account::default();
        }
    }

    /// Memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.ghosts.capacity() * size_of::<Ghost>() + self.holders.capacity() * size_of::<Account>()
    }
}

/// The finaliser of SplitMix64 (G. Steele et al., OOPSLA 2014): hashes of a trace may be plain numbers.
const fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the lower bits are what is wanted"
)]
const fn place(hash: u64) -> usize {
    (hash / SAMPLE) as usize % GHOSTS
}

#[expect(clippy::cast_possible_truncation, reason = "32 bits are left")]
const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32
}
