//! Homes of responses in memory: bounded, shared out fairly among their owners, and gone with the process.

use crate::{Home, Homes, Owner};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most responses that are remembered, a few hundred bytes each.
const RESPONSES_MAX: usize = 32 * 1024;
/// How long one is remembered, seconds.
const KEPT_SECONDS: i64 = 24 * 3600;
/// Longest id that is remembered, bytes. Ids come from engines.
const ID_MAX: usize = 256;

/// Homes in memory. Where they are full, the owner with the most loses its oldest, so that nobody can push out what
/// belongs to others who hold less than an equal share.
#[derive(Default)]
pub struct MemoryHomes {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    owners: HashMap<Option<Owner>, Owned>,
    /// Every owner with the number of its responses, so that the greatest is found without a search.
    by_count: BTreeSet<(usize, Option<Owner>)>,
    /// Of all responses.
    count: usize,
    /// Number of the next response.
    next: u64,
}

/// The responses of one owner; never empty.
#[derive(Default)]
struct Owned {
    by_id: HashMap<Arc<str>, Noted>,
    /// By their numbers, the oldest first.
    order: BTreeMap<u64, Arc<str>>,
}

struct Noted {
    home: Home,
    number: u64,
    until: i64,
}

impl MemoryHomes {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn put(&mut self, id: &str, home: Home, until: i64) {
        let owner = home.owner.clone();
        self.change(owner, |owned, number| {
            owned.remove(id);
            let id: Arc<str> = id.into();
            owned.order.insert(number, id.clone());
            owned.by_id.insert(id, Noted { home, number, until });
        });
        while self.count > RESPONSES_MAX {
            let Some((_, greatest)) = self.by_count.last().cloned() else {
                return;
            };
            self.change(greatest, |owned, _| {
                if let Some((_, id)) = owned.order.pop_first() {
                    owned.by_id.remove(&id);
                }
            });
        }
    }

    /// Changes what `owner` has, with a number for what is new, and keeps the counts.
    fn change(&mut self, owner: Option<Owner>, with: impl FnOnce(&mut Owned, u64)) {
        let number = self.next;
        self.next += 1;
        let owned = self.owners.entry(owner.clone()).or_default();
        let before = owned.by_id.len();
        with(owned, number);
        let after = owned.by_id.len();
        if after == 0 {
            self.owners.remove(&owner);
        }
        self.count = self.count + after - before;
        let mut counted = (before, owner);
        if before != after {
            self.by_count.remove(&counted);
            counted.0 = after;
            if after > 0 {
                self.by_count.insert(counted);
            }
        }
    }
}

impl Owned {
    fn remove(&mut self, id: &str) {
        if let Some(noted) = self.by_id.remove(id) {
            self.order.remove(&noted.number);
        }
    }
}

impl Homes for MemoryHomes {
    fn put(&self, id: &str, home: Home, unix_seconds: i64) {
        if id.len() <= ID_MAX {
            let until = unix_seconds.saturating_add(KEPT_SECONDS);
            self.lock().put(id, home, until);
        }
    }

    fn find(&self, id: &str, owner: Option<&Owner>, unix_seconds: i64) -> Option<Home> {
        let inner = self.lock();
        let noted = inner.owners.get(&owner.cloned())?.by_id.get(id)?;
        (unix_seconds < noted.until).then(|| noted.home.clone())
    }

    fn forget(&self, id: &str, owner: Option<&Owner>) {
        self.lock().change(owner.cloned(), |owned, _| owned.remove(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> Home {
        Home {
            route: "r".into(),
            pool: "p".into(),
            endpoint: "e".into(),
            upstream_key: 0,
            owner: None,
        }
    }

    #[test]
    fn memory_homes_keep_the_contract() {
        crate::contract::homes(&MemoryHomes::default(), 1000);
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let store = MemoryHomes::default();
        let home = home();
        for number in 0..RESPONSES_MAX + 10 {
            store.put(&format!("r{number}"), home.clone(), 0);
            store.put("the same", home.clone(), 0);
        }
        let inner = store.lock();
        assert_eq!(inner.count, RESPONSES_MAX);
        let owned = &inner.owners[&None];
        assert_eq!((owned.by_id.len(), owned.order.len()), (inner.count, inner.count));
        drop(inner);
        assert!(store.find("r9", None, 0).is_none());
        assert!(store.find(&format!("r{}", RESPONSES_MAX + 9), None, 0).is_some());
        assert!(store.find("the same", None, 0).is_some());
    }

    #[test]
    fn nobody_pushes_out_who_holds_less() {
        crate::contract::fair_homes(&MemoryHomes::default(), RESPONSES_MAX);
    }

    #[test]
    fn what_is_forgotten_takes_no_room() {
        let store = MemoryHomes::default();
        crate::contract::homes(&store, 10);
        for number in 0..10 {
            store.forget(&format!("resp_x{number}"), Some(&Owner::Tenant("one".into())));
        }
        store.forget("resp_1", Some(&Owner::Tenant("two".into())));
        store.forget("resp_1", None);
        let inner = store.lock();
        assert_eq!((inner.count, inner.owners.len(), inner.by_count.len()), (0, 0, 0));
    }

    #[test]
    fn they_expire() {
        let store = MemoryHomes::default();
        let home = home();
        store.put("r", home, 100);
        assert!(store.find("r", None, 99 + KEPT_SECONDS).is_some());
        assert!(store.find("r", None, 100 + KEPT_SECONDS).is_none());
    }
}
