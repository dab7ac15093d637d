//! Homes of responses in memory: bounded, and gone with the process.

use crate::{Home, Homes, Owner};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most responses that are remembered, a few hundred bytes each.
const RESPONSES_MAX: usize = 32 * 1024;
/// How long one is remembered, seconds.
const KEPT_SECONDS: i64 = 24 * 3600;
/// Longest id that is remembered, bytes. Ids come from engines.
const ID_MAX: usize = 256;

/// Homes in memory.
#[derive(Default)]
pub struct MemoryHomes {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_id: HashMap<Box<str>, Vec<Noted>>,
    /// In the order in which they came, each with its number: one that was replaced or forgotten since has another.
    order: VecDeque<(Box<str>, u64)>,
    next: u64,
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
    /// Removes what `gone` says of the responses of `id`.
    fn remove(&mut self, id: &str, gone: impl Fn(&Noted) -> bool) {
        if let Some(noted) = self.by_id.get_mut(id) {
            noted.retain(|noted| !gone(noted));
            if noted.is_empty() {
                self.by_id.remove(id);
            }
        }
    }
}

impl Homes for MemoryHomes {
    fn put(&self, id: &str, home: Home, unix_seconds: i64) {
        if id.len() > ID_MAX {
            return;
        }
        let mut inner = self.lock();
        let number = inner.next;
        inner.next += 1;
        inner.remove(id, |noted| noted.home.owner == home.owner);
        inner.by_id.entry(id.into()).or_default().push(Noted {
            home,
            number,
            until: unix_seconds.saturating_add(KEPT_SECONDS),
        });
        inner.order.push_back((id.into(), number));
        // Entries of what was replaced or forgotten leave by themselves here, in their turn.
        while inner.order.len() > RESPONSES_MAX {
            if let Some((id, oldest)) = inner.order.pop_front() {
                inner.remove(&id, |noted| noted.number == oldest);
            }
        }
    }

    fn find(&self, id: &str, owner: Option<&Owner>, unix_seconds: i64) -> Option<Home> {
        let inner = self.lock();
        let noted = inner.by_id.get(id)?;
        noted
            .iter()
            .find(|noted| noted.home.owner.as_ref() == owner && unix_seconds < noted.until)
            .map(|noted| noted.home.clone())
    }

    fn forget(&self, id: &str, owner: Option<&Owner>) {
        self.lock().remove(id, |noted| noted.home.owner.as_ref() == owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_homes_keep_the_contract() {
        crate::contract::homes(&MemoryHomes::default(), 1000);
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let store = MemoryHomes::default();
        let home = Home {
            route: "r".into(),
            pool: "p".into(),
            endpoint: "e".into(),
            upstream_key: 0,
            owner: None,
        };
        for number in 0..RESPONSES_MAX + 10 {
            store.put(&format!("r{number}"), home.clone(), 0);
            store.put("the same", home.clone(), 0);
        }
        let inner = store.lock();
        assert!(inner.order.len() <= RESPONSES_MAX && inner.by_id.len() <= RESPONSES_MAX);
        drop(inner);
        assert!(store.find("r9", None, 0).is_none());
        assert!(store.find(&format!("r{}", RESPONSES_MAX + 9), None, 0).is_some());
        assert!(store.find("the same", None, 0).is_some());
    }

    #[test]
    fn they_expire() {
        let store = MemoryHomes::default();
        let home = Home {
            route: "r".into(),
            pool: "p".into(),
            endpoint: "e".into(),
            upstream_key: 0,
            owner: None,
        };
        store.put("r", home, 100);
        assert!(store.find("r", None, 99 + KEPT_SECONDS).is_some());
        assert!(store.find("r", None, 100 + KEPT_SECONDS).is_none());
    }
}
