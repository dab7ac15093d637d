//! From requests in any order to a [`Workload`](super::Workload)'s list.

use super::Request;
use std::time::Duration;

/// A request before it has its place.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// When it is due if answers take no time: decides the order alone. Not before that of the request it follows.
    pub(super) nominal: Duration,
    /// Its `after` is a place in the list of drafts, before its own.
    pub(super) request: Request,
}

/// Sorts by nominal time, those of one time as they come, and points `after` at the new places.
pub(super) fn ordered(drafts: Vec<Draft>) -> Vec<Request> {
    let mut order: Vec<u32> = (0..u32::try_from(drafts.len()).unwrap_or(u32::MAX)).collect();
    order.sort_by_key(|place| drafts[*place as usize].nominal);
    let mut places = vec![0; drafts.len()];
    for (place, draft) in (0..).zip(&order) {
        places[*draft as usize] = place;
    }
    let mut requests: Vec<Option<Request>> = drafts.into_iter().map(|draft| Some(draft.request)).collect();
    order
        .iter()
        .filter_map(|draft| requests[*draft as usize].take())
        .map(|mut request| {
            request.after = request.after.map(|before| places[before as usize]);
            request
        })
        .collect()
}

/// Each request's nominal time: when it is due if answers take no time.
pub(super) fn nominal(requests: &[Request]) -> Vec<Duration> {
    let mut times: Vec<Duration> = Vec::with_capacity(requests.len());
    for request in requests {
        let before = request
            .after
            .and_then(|before| times.get(before as usize).copied());
        times.push(before.unwrap_or_default().saturating_add(request.at));
    }
    times
}
