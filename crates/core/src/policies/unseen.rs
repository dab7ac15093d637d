//! What a gateway does about traffic that it does not see: other replicas of it send to the same engines.
//!
//! What it learned of caches is then only its own part of what is in them. But where a prompt belongs follows from its head
//! alone, on all replicas alike ([`crate::rendezvous`]). So a choice by caches counts for the share of the load that the
//! gateway sees, and the owner of the prompt's head gets the rest. Whoever sees all, or is told nothing by its engines, chooses by what
//! it learned.

use super::{Candidates, Request};
use crate::rendezvous;

/// Shares up to this one may be chance: an engine tells its counts at another time than the gateway has its own. So it counts
/// as none, and what is above it as so much of the rest.
const CHANCE: f64 = 0.25;
/// Requests by which the owner's queue may be longer than the mean.
const AHEAD: f64 = 1.0;

/// Load at the candidates that others send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others {
    /// Share of all, by what engines told of late beside the gateway's own requests at those moments, less what may be chance.
    pub(super) share: f64,
    /// The same as far as nobody tells what it leaves in caches: 0 where all engines tell what they cache, whoever sent it.
    pub(super) unseen: f64,
}

/// How much of the load others send.
pub(super) fn others(candidates: &Candidates<'_>) -> Others {
    let now = candidates.now();
    let (mut own, mut all, mut told) = (0.0, 0.0, true);
    for endpoint in candidates.endpoints() {
        told &= endpoint.cache_told;
        // Means stay what they were, and whose engines have stopped to tell may be alone by now.
        if endpoint.engine.fresh(now).is_some() {
            let means = &candidates.pools[endpoint.pool_at].means;
            own += means.own.mean().unwrap_or(0.0);
            all += means.told.mean().unwrap_or(0.0);
        }
    }
    // Half a request more on both sides, so that one alone says little.
    let share = 1.0 - (own + 0.5) / (all + 0.5);
    let share = ((share - CHANCE) / (1.0 - CHANCE)).max(0.0);
    Others {
        share,
        unseen: if told { 0.0 } else { share },
    }
}

/// Place of the candidate that the request belongs to by the head of its prompt, where others send this share of the load; none:
/// nobody else does, or it has no prompt.
pub(super) fn owner(request: &Request<'_>, candidates: &Candidates<'_>, share: f64) -> Option<usize> {
    if share <= 0.0 {
        return None;
    }
    let pool = candidates.endpoints().next()?.pool_at;
    let bytes = candidates.pools[pool].head_bytes();
    let head = request.work?.head(bytes)?;
    rendezvous::owner(head, candidates.keys())
}

/// The same for who does not look at queues otherwise; none, too, where the one there is too long.
pub(super) fn home(request: &Request<'_>, candidates: &Candidates<'_>, unseen: f64) -> Option<usize> {
    let place = owner(request, candidates, unseen)?;
    let now = candidates.now();
    let waiting = candidates
        .endpoints()
        .map(|endpoint| endpoint.engine.waiting(now));
    #[expect(clippy::cast_precision_loss, reason = "candidates are few")]
    let mean = waiting.sum::<f64>() / candidates.len() as f64;
    (candidates.get(place).engine.waiting(now) <= mean + AHEAD).then_some(place)
}

/// Mixes `scores`, whose sum is `sum`, with all for the candidate at `home`, by the share `unseen`. Where they say nothing
/// (a sum of 0) all count alike.
pub(super) fn mix(scores: &mut [f64], sum: f64, (home, unseen): (usize, f64)) {
    #[expect(clippy::cast_precision_loss, reason = "candidates are few")]
    let even = 1.0 / scores.len() as f64;
    for (place, score) in scores.iter_mut().enumerate() {
        let own = if sum > 0.0 { *score / sum } else { even };
        *score = (1.0 - unseen) * own + if place == home { unseen } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use crate::explain::Abstained;
    use crate::policies::prefix_cache::Config;
    use crate::policies::stage::{Stage, near, prompt};
    use crate::prefix::BlockHash;
    use crate::rendezvous;
    use crate::signals::Reading;
    use std::sync::Arc;

    /// Four endpoints, of which these have so many requests running and waiting, by their engines.
    fn stage(told: [(u32, u32); 4]) -> Stage {
        let mut stage = Stage::new(4, |policies| policies.prefix_cache = Some(Config::default()));
        for (place, (running, waiting)) in told.into_iter().enumerate() {
            let reading = Reading {
                running: Some(running),
                waiting: Some(waiting),
                ..Reading::default()
            };
            stage.read(place, reading);
        }
        stage.work = Some(prompt(10, 100));
        stage
    }

    fn owner() -> usize {
        let keys: Vec<Vec<u8>> = (0..4).map(|place| format!("t\0e{place}").into_bytes()).collect();
        rendezvous::owner(BlockHash(10), keys.iter().map(Vec::as_slice)).unwrap()
    }

    /// (1 − 0.5 / 16.5 − 0.25) / 0.75
    const UNSEEN: f64 = 0.959_595_959_595_959_6;

    #[test]
    fn what_nobody_is_known_to_have_goes_home_where_others_send_too() {
        let all = stage([(4, 0); 4]);
        let mut expected = [(1.0 - UNSEEN) / 4.0; 4];
        expected[owner()] += UNSEEN;
        assert!(near(&all.scores("prefix_cache"), &expected));
        assert_eq!(all.winner(), owner());
    }

    #[test]
    fn whoever_sends_all_or_nearly_all_or_is_told_nothing_goes_by_what_it_knows() {
        let mut alone = stage([(0, 0); 4]);
        let running: Vec<_> = (0..4).map(|place| alone.busy(place, 4)).collect();
        assert_eq!(running.concat().len(), 16);
        alone.work = Some(Arc::new(crate::work::Work {
            blocks: (100..110).map(BlockHash).collect(),
            ..(*prompt(10, 100)).clone()
        }));
        assert_eq!(
            alone.abstained("prefix_cache"),
            Some(Abstained::Miss),
            "its own are all there are"
        );
        // Own ones, and a quarter as many of others at one of four: below a quarter of all.
        for (place, waiting) in [(0, 1), (1, 0), (2, 0), (3, 0)] {
            let said = Reading {
                running: Some(4),
                waiting: Some(waiting),
                ..Reading::default()
            };
            alone.read(place, said);
        }
        assert_eq!(
            alone.abstained("prefix_cache"),
            Some(Abstained::Miss),
            "may be chance"
        );
        let mut untold = Stage::new(4, |policies| policies.prefix_cache = Some(Config::default()));
        untold.work = Some(prompt(10, 100));
        assert_eq!(untold.abstained("prefix_cache"), Some(Abstained::Miss));
        let mut empty = stage([(4, 0); 4]);
        empty.work = None;
        assert_eq!(
            empty.abstained("prefix_cache"),
            Some(Abstained::Miss),
            "no prompt has no home"
        );
    }

    #[test]
    fn a_home_with_a_queue_is_none() {
        let mut told = [(4, 0); 4];
        told[owner()].1 = 1;
        assert_eq!(stage(told).winner(), owner(), "1 is not above 1/4 + 1");
        told[owner()].1 = 2;
        assert_eq!(stage(told).abstained("prefix_cache"), Some(Abstained::Miss));
    }

    #[test]
    fn what_is_known_counts_for_the_share_that_is_seen() {
        let mut stage = stage([(4, 0); 4]);
        let other = (owner() + 1) % 4;
        stage.holds(other, &prompt(10, 100));
        let mut expected = [0.0; 4];
        expected[owner()] = UNSEEN;
        expected[other] = 1.0 - UNSEEN;
        assert!(near(&stage.scores("prefix_cache"), &expected));
    }
}
