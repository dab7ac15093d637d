//! More of a workload, or less.

use super::{keep, span};
use crate::text::mix;
use crate::workload::order::{Draft, nominal, ordered};
use crate::workload::random::Stream;
use crate::workload::{BLOCKS_MAX, REQUESTS_MAX, Request, Workload};
use std::time::Duration;

/// What copies of a request share with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copies {
    /// Nothing: other contents and other conversations. More users of the same kind.
    #[default]
    Fresh,
    /// Their contents: copies hit the cache where the first has been.
    Shared,
}

/// Why a workload cannot be made larger or smaller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// The rate is no rate.
    #[error("the rate must be a number of requests per second above 0")]
    Rate,
    /// All requests come at once, or there is none.
    #[error("the workload has no rate to change: it needs requests at different times")]
    NoRate,
    /// It would be too many.
    #[error("that makes more than {REQUESTS_MAX} requests, or more block hashes than fit into memory")]
    TooMany,
}

/// Brings the mean rate to `rate` requests per second, without changing its length or its shape over time: drops
/// conversations by chance, or adds copies shortly after their originals.
///
/// # Errors
/// If there is no rate, or too much comes of it.
pub fn to_rate(workload: &mut Workload, rate: f64, (copies, seed): (Copies, u64)) -> Result<(), ScaleError> {
    if !(rate > 0.0 && rate.is_finite()) {
        return Err(ScaleError::Rate);
    }
    let seconds = span(&workload.requests).as_secs_f64();
    if seconds <= 0.0 {
        return Err(ScaleError::NoRate);
    }
    let wanted = rate * seconds;
    let factor = wanted / workload.requests.len() as f64;
    // Some room for chance.
    if wanted > 0.9 * REQUESTS_MAX as f64 || blocks(workload) * factor > BLOCKS_MAX as f64 {
        return Err(ScaleError::TooMany);
    }
    let whole = factor.floor();
    let mut chance = Stream::new(seed, "rate");
    let mut left_over = workload.clone();
    thin(&mut left_over, factor - whole, &mut chance);
    let gap = Duration::from_secs_f64(1.0 / rate);
    let mut drafts = Vec::new();
    for copy in 0..whole as u32 {
        copied(
            &workload.requests,
            &mut drafts,
            Copy::new(copy, copies, gap * copy),
        );
    }
    let copy = whole as u32;
    copied(
        &left_over.requests,
        &mut drafts,
        Copy::new(copy, copies, gap * copy),
    );
    workload.requests = ordered(drafts);
    Ok(())
}

/// Brings the workload to `requests`: the first of them, or all again and again, one after the other, so that it lasts
/// longer at the same rate.
///
/// # Errors
/// If there is nothing to copy, or too much comes of it.
pub fn to_requests(workload: &mut Workload, requests: usize, copies: Copies) -> Result<(), ScaleError> {
    let length = workload.requests.len();
    let factor = requests as f64 / length.max(1) as f64;
    if requests > REQUESTS_MAX || blocks(workload) * factor > BLOCKS_MAX as f64 {
        return Err(ScaleError::TooMany);
    }
    if requests > length {
        let span = span(&workload.requests);
        if length == 0 || span.is_zero() {
            return Err(ScaleError::NoRate);
        }
        let mut drafts = Vec::with_capacity(requests + length);
        for copy in 0..requests.div_ceil(length) as u32 {
            let later = span.saturating_mul(copy);
            copied(&workload.requests, &mut drafts, Copy::new(copy, copies, later));
        }
        workload.requests = ordered(drafts);
    }
    workload.requests.truncate(requests);
    Ok(())
}

fn blocks(workload: &Workload) -> f64 {
    let blocks = workload.requests.iter().map(|request| request.blocks.len());
    blocks.sum::<usize>() as f64
}

/// Keeps each conversation with this probability.
fn thin(workload: &mut Workload, share: f64, chance: &mut Stream) {
    let mut kept: Vec<bool> = Vec::with_capacity(workload.requests.len());
    for request in &workload.requests {
        kept.push(match request.after {
            Some(before) => kept[before as usize],
            None => chance.unit() < share,
        });
    }
    keep(workload, &kept);
}

struct Copy {
    /// 0: the original.
    salt: u64,
    hashes: bool,
    later: Duration,
}

impl Copy {
    fn new(number: u32, copies: Copies, later: Duration) -> Self {
        Self {
            salt: u64::from(number),
            hashes: copies == Copies::Fresh,
            later,
        }
    }

    fn of(&self, value: u64) -> u64 {
        if self.salt == 0 {
            value
        } else {
            mix(value ^ mix(self.salt))
        }
    }
}

fn copied(requests: &[Request], drafts: &mut Vec<Draft>, copy: Copy) {
    let before = u32::try_from(drafts.len()).unwrap_or(u32::MAX);
    for (request, due) in requests.iter().zip(nominal(requests)) {
        let mut request = request.clone();
        match request.after {
            Some(place) => request.after = Some(place + before),
            None => request.at = request.at.saturating_add(copy.later),
        }
        request.session = request.session.map(|session| copy.of(session));
        if copy.hashes && copy.salt > 0 {
            request.blocks = request.blocks.iter().map(|block| copy.of(*block)).collect();
        }
        drafts.push(Draft {
            nominal: due.saturating_add(copy.later),
            request,
        });
    }
}
