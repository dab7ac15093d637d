//! Rendezvous (highest random weight) hashing: who a key belongs to follows from the key and the candidates alone, so all
//! replicas of the gateway agree and nothing is stored.
//!
//! D. Thaler and C. Ravishankar, IEEE/ACM Transactions on Networking 6(1), 1998. A candidate that leaves moves only the keys
//! that it owned.

use crate::prefix::BlockHash;
use serde::{Deserialize, Serialize};

/// FNV-1a-64 state after `LE64(len S) ‖ S` of a session key S: what scoring goes on from, and all that is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionKey(pub u64);

/// How strongly a prompt with this head belongs to the candidate with this key (target name, a NUL byte, endpoint name):
/// the candidate with the largest owns it, the first of several equal ones. See [`crate::work::Work::head`].
#[must_use]
pub fn rank(head: BlockHash, candidate: &[u8]) -> u64 {
    SessionKey::of_head(head).hash(candidate)
}

/// Place of the candidate that a prompt with this head belongs to, whatever the load, among those with these keys; none where
/// there is none. `session_affinity` has the same one first where the head is its key.
pub fn owner<'a>(head: BlockHash, candidates: impl Iterator<Item = &'a [u8]>) -> Option<usize> {
    let session = SessionKey::of_head(head);
    let ranks = candidates.map(|key| session.hash(key)).enumerate();
    // The first of several equal ones, which `max_by_key` alone would not give.
    let best = ranks.max_by_key(|(place, rank)| (*rank, std::cmp::Reverse(*place)));
    best.map(|(place, _)| place)
}

/// FNV-1a-64 of `bytes`, going on from `state`.
pub(crate) fn fnv(state: u64, bytes: &[u8]) -> u64 {
    let step = |state: u64, byte: &u8| (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    // Eight at a time: half of the work of a loop over bytes is the loop.
    let (eights, rest) = bytes.as_chunks::<8>();
    let state = eights
        .iter()
        .fold(state, |state, eight| eight.iter().fold(state, step));
    rest.iter().fold(state, step)
}

/// The finaliser of MurmurHash3 (A. Appleby).
pub(crate) const fn fmix64(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

impl SessionKey {
    /// Starts the hash with the session key `session`: FNV-1a-64 over its length (64-bit little endian) and bytes.
    #[must_use]
    pub fn new(session: &[u8]) -> Self {
        let state = fnv(0xcbf2_9ce4_8422_2325, &(session.len() as u64).to_le_bytes());
        Self(fnv(state, session))
    }

    /// The session of all prompts with this head, where clients name none.
    #[must_use]
    pub fn of_head(head: BlockHash) -> Self {
        Self::new(&head.0.to_le_bytes())
    }

    /// h of the candidate with this key (target name, a NUL byte, endpoint name).
    #[must_use]
    pub fn hash(self, candidate: &[u8]) -> u64 {
        fmix64(fnv(self.0, candidate))
    }

    /// r = (h >> 11) / 2^53, in [0, 1): the candidate with the largest owns the session.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn rank_value(self, candidate: &[u8]) -> f64 {
        (self.hash(candidate) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::session_affinity::Config;
    use crate::policies::stage::Stage;

    #[test]
    fn the_owner_has_the_largest_rank_and_all_own_as_much() {
        let keys: Vec<Vec<u8>> = (0..4).map(|place| format!("t\0e{place}").into_bytes()).collect();
        let mut stage = Stage::new(4, |policies| policies.session_affinity = Some(Config::default()));
        let mut owned = [0; 4];
        for head in (0..400).map(BlockHash) {
            let place = owner(head, keys.iter().map(Vec::as_slice)).unwrap();
            assert!(keys.iter().all(|key| rank(head, key) <= rank(head, &keys[place])));
            stage.session = Some(SessionKey::of_head(head));
            assert_eq!(stage.winner(), place, "as session affinity has it");
            owned[place] += 1;
        }
        // 100 each, and four standard deviations of chance.
        assert!(owned.iter().all(|many| (65..=135).contains(many)), "{owned:?}");
        assert_eq!(owner(BlockHash(1), std::iter::empty()), None);
        assert_eq!(
            owner(BlockHash(1), [&b"a"[..], b"a"].into_iter()),
            Some(0),
            "equal ones"
        );
    }
}
