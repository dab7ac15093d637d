//! Answers in one piece while they are held back, and the memory that they take until the client has them.

use crate::memory::{BodyMemory, Room};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;

/// Largest answer that is held back whole before its head is sent; beyond it, it is relayed as it comes.
pub(crate) const HELD_MAX: usize = 256 * 1024;
/// What an answer may take without being counted, bytes: most are no larger.
const FREE: usize = 16 * 1024;
/// Most bytes of all held answers of one HTTP/2 connection.
const CONNECTION_MAX: usize = 4 << 20;

/// The memories that a held answer counts in.
pub(crate) struct Memories<'a> {
    /// That of all bodies, and how far answers may fill it.
    pub(crate) all: (&'a Arc<BodyMemory>, usize),
    /// That of its connection, where there may be many at once.
    pub(crate) connection: Option<&'a Arc<BodyMemory>>,
}

/// What an answer's bytes take, for as long as any of them is here.
struct Taken {
    all: Room,
    connection: Option<Room>,
}

/// Bytes that know what they take.
struct Counted {
    bytes: Bytes,
    _taken: Taken,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// What has come of an answer.
#[derive(Default)]
pub(crate) struct Held {
    bytes: Bytes,
    taken: Option<Taken>,
}

impl Held {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds what came. `left` says how much is known to follow. False: no more is to be held.
    pub(crate) fn add(
        &mut self,
        data: Bytes,
        left: impl FnOnce() -> Option<u64>,
        memories: &Memories<'_>,
    ) -> bool {
        let len = self.len() + data.len();
        if len <= FREE {
            self.bytes = with_room(std::mem::take(&mut self.bytes), &data, 0);
            return true;
        }
        let follows = left().map(|left| usize::try_from(left).unwrap_or(usize::MAX));
        let size = match follows {
            Some(follows) => len.saturating_add(follows).min(HELD_MAX.max(len)),
            // A buffer that grows doubles.
            None => len.next_power_of_two(),
        };
        let fits = self.fits(size, memories);
        let more = if fits { size - len } else { 0 };
        self.bytes = with_room(std::mem::take(&mut self.bytes), &data, more);
        fits && len <= HELD_MAX
    }

    fn fits(&mut self, size: usize, memories: &Memories<'_>) -> bool {
        let (all, limit) = memories.all;
        let taken = self.taken.get_or_insert_with(|| Taken {
            all: Room::none(all),
            connection: memories.connection.map(Room::none),
        });
        let own = taken.connection.as_mut();
        own.is_none_or(|own| own.reach(size, CONNECTION_MAX)) && taken.all.reach(size, limit)
    }

    /// The bytes, which count until the last of them is dropped.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self.taken {
            None => self.bytes,
            Some(taken) => Bytes::from_owner(Counted {
                bytes: self.bytes,
                _taken: taken,
            }),
        }
    }
}

/// Two pieces as one, in a buffer that takes `more` without growing where a new one is needed; free while the first is
/// empty.
fn with_room(first: Bytes, second: &Bytes, more: usize) -> Bytes {
    if first.is_empty() {
        return second.clone();
    }
    let mut both = first.try_into_mut().unwrap_or_else(|first| {
        let mut both = BytesMut::with_capacity(first.len() + second.len() + more);
        both.extend_from_slice(&first);
        both
    });
    both.extend_from_slice(second);
    both.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 10_000;

    /// Adds pieces until no more are to be held, at most `most`.
    fn hold(most: usize, memories: &Memories<'_>, announced: bool) -> (usize, Held) {
        let mut held = Held::default();
        for i in 1..=most {
            let left = (most - i) * PIECE;
            let data = Bytes::from(vec![b'x'; PIECE]);
            if !held.add(data, || announced.then_some(left as u64), memories) {
                return (i, held);
            }
        }
        (most, held)
    }

    #[test]
    fn small_answers_are_free_and_others_count_until_their_last_byte_goes() {
        let all = Arc::new(BodyMemory::new());
        let memories = Memories {
            all: (&all, 1 << 20),
            connection: None,
        };
        let (_, small) = hold(1, &memories, true);
        assert_eq!((all.used(), small.into_bytes().len()), (0, PIECE));
        let (count, held) = hold(20, &memories, true);
        assert_eq!((count, all.used()), (20, 20 * PIECE));
        let mut bytes = held.into_bytes();
        let last = bytes.split_off(20 * PIECE - 1);
        drop(bytes);
        assert_eq!((all.used(), &*last), (20 * PIECE, &b"x"[..]));
        drop(last);
        assert_eq!(all.used(), 0);
        let (count, held) = hold(7, &memories, false);
        assert_eq!((count, all.used(), held.len()), (7, 128 << 10, 7 * PIECE));
    }

    #[test]
    fn what_does_not_fit_is_not_held() {
        let (all, connection) = (Arc::new(BodyMemory::new()), Arc::new(BodyMemory::new()));
        let memories = Memories {
            all: (&all, 100_000),
            connection: Some(&connection),
        };
        let (count, held) = hold(20, &memories, true);
        assert_eq!((count, held.into_bytes().len()), (2, 2 * PIECE));
        assert_eq!((all.used(), connection.used()), (0, 0));
        let memories = Memories {
            all: (&all, usize::MAX),
            connection: Some(&connection),
        };
        let large: Vec<_> = (0..30).map(|_| hold(25, &memories, true)).collect();
        let whole = large.iter().filter(|(count, _)| *count == 25).count();
        assert_eq!(whole, CONNECTION_MAX / (25 * PIECE));
        assert!(connection.used() <= CONNECTION_MAX);
        drop(large);
        assert_eq!((all.used(), connection.used()), (0, 0));
        assert_eq!(hold(40, &memories, true).0, HELD_MAX / PIECE + 1);
    }
}
