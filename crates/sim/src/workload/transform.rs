//! Changes to a workload: faster, a part of it, more or less of it, and times spread over the steps they were rounded to.

mod scale;

pub use scale::{Copies, ScaleError, to_rate, to_requests};

use super::random::Stream;
use super::{Request, Workload};
use std::ops::Range;
use std::time::Duration;

/// Everything comes `factor` times as fast, the time to think too. A factor that is not a number above 0 changes nothing.
pub fn speed_up(workload: &mut Workload, factor: f64) {
    if !(factor > 0.0 && factor.is_finite()) {
        return;
    }
    for request in &mut workload.requests {
        let seconds = request.at.as_secs_f64() / factor;
        request.at = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    }
}

/// Keeps what begins within `times`, which then counts from 0. A conversation stays whole or goes whole, by its first turn.
pub fn slice(workload: &mut Workload, times: Range<Duration>) {
    let mut kept: Vec<bool> = Vec::with_capacity(workload.requests.len());
    for request in &workload.requests {
        kept.push(match request.after {
            Some(before) => kept.get(before as usize).copied().unwrap_or(false),
            None => times.contains(&request.at),
        });
    }
    for request in &mut workload.requests {
        if request.after.is_none() {
            request.at = request.at.saturating_sub(times.start);
        }
    }
    keep(workload, &kept);
}

/// Keeps the first `requests`. A conversation that is under way then is cut.
pub fn first(workload: &mut Workload, requests: usize) {
    workload.requests.truncate(requests);
}

/// Drops requests that are not `kept`, where none that is kept follows one that is not.
fn keep(workload: &mut Workload, kept: &[bool]) {
    let mut places = Vec::with_capacity(kept.len());
    let mut place = 0_u32;
    for keep in kept {
        places.push(place);
        place += u32::from(*keep);
    }
    let mut of = kept.iter();
    workload.requests.retain(|_| of.next().copied().unwrap_or(false));
    for request in &mut workload.requests {
        request.after = request.after.map(|before| places[before as usize]);
    }
}

/// Spreads requests that have one time evenly over the time until the next, for traces whose clock went in steps
/// (Mooncake's are about 3 s long). They stay in order, so what extends an earlier prompt still comes after it. The last
/// step is as long as the one before it.
pub fn jitter(workload: &mut Workload, seed: u64) {
    let mut chance = Stream::new(seed, "jitter");
    let free: Vec<usize> = (0..workload.requests.len())
        .filter(|place| workload.requests[*place].after.is_none())
        .collect();
    let times: Vec<Duration> = free.iter().map(|place| workload.requests[*place].at).collect();
    let mut step = Duration::ZERO;
    let mut from = 0;
    while from < times.len() {
        let count = times[from..].iter().take_while(|at| **at == times[from]).count();
        if let Some(next) = times.get(from + count) {
            step = *next - times[from];
        }
        let mut shares: Vec<f64> = (0..count).map(|_| chance.unit()).collect();
        shares.sort_by(f64::total_cmp);
        for (place, share) in free[from..].iter().zip(shares) {
            workload.requests[*place].at += step.mul_f64(share);
        }
        from += count;
    }
}

/// From the start to when the last request is due, if answers take no time, and a mean gap after it.
fn span(requests: &[Request]) -> Duration {
    let last = super::order::nominal(requests)
        .into_iter()
        .max()
        .unwrap_or_default();
    let gaps = u32::try_from(requests.len().saturating_sub(1)).unwrap_or(u32::MAX);
    last.saturating_add(last.checked_div(gaps).unwrap_or_default())
}

#[cfg(test)]
mod tests;
