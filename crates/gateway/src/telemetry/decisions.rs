//! The latest decisions of each route, for the API and the console.

use crate::admin_view::Behind;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use weighbridge_core::explain::{Decision, Explanation};

/// Decisions kept per route.
const KEPT: usize = 256;

/// One decision, as it was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The request's id, as the client saw it.
    pub request_id: Arc<str>,
    /// When.
    pub time: SystemTime,
    /// 1 for the first attempt; where nothing was chosen, how many there had been.
    pub attempt: u32,
    /// Name of the winner's target; none where nothing could be chosen.
    pub target: Option<Arc<str>>,
    /// Name of the winner.
    pub endpoint: Option<Arc<str>>,
    /// Why nothing was chosen: `busy`, `unavailable`, `unserved` or `unfit`.
    pub refused: Option<&'static str>,
    /// Where an explanation was asked for: what of the request counts for nothing.
    pub notes: Option<Arc<[String]>>,
    /// The preset behind the route's policies.
    pub behind: Option<Behind>,
    /// Why, in short.
    pub decision: Decision,
    /// Why, in full, where it was asked for or sampled. Shared, so that reading the ring never copies it.
    pub explanation: Option<Arc<Explanation>>,
}

/// Rings of decisions by route name.
#[derive(Default)]
pub struct Decisions {
    by_route: Mutex<HashMap<Arc<str>, VecDeque<Taken>>>,
}

impl Decisions {
    pub(crate) fn push(&self, route: &Arc<str>, taken: Taken) {
        let mut by_route = self.by_route.lock().unwrap_or_else(PoisonError::into_inner);
        if !by_route.contains_key(route) {
            by_route.insert(route.clone(), VecDeque::with_capacity(KEPT));
        }
        if let Some(ring) = by_route.get_mut(route) {
            if ring.len() == KEPT {
                ring.pop_front();
            }
            ring.push_back(taken);
        }
    }

    /// The newest first.
    #[must_use]
    pub fn latest(&self, route: &str, most: usize) -> Vec<Taken> {
        let by_route = self.by_route.lock().unwrap_or_else(PoisonError::into_inner);
        by_route
            .get(route)
            .map(|ring| ring.iter().rev().take(most).cloned().collect())
            .unwrap_or_default()
    }

    /// Forgets routes that are gone.
    pub(crate) fn retain(&self, keep: impl Fn(&str) -> bool) {
        self.by_route
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|route, _| keep(route));
    }
}
