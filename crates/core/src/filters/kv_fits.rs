//! Drops engines without room for the request in their KV cache while another has it.

use super::{Filter, FilterConfig};
use crate::explain::Dropped;
use crate::policies::{Candidate, Candidates, Request};
use crate::work::Needs;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference.
pub const GUIDE: &str = "\
An engine has room if prompt tokens + `max_tokens` of the request are at most the free part of its KV cache, by its metrics and
what was sent since. One that has none is dropped while another of the same order is known to have room; a full cache only
means waiting, so it empties no order and refuses nobody. An engine that does not tell is never dropped, and never a reason to drop
another. Set it by `kv_fits: true`.

**Right** for long prompts on small caches: an engine that admits one too many preempts answers that run, and computes them
again. **Wrong** where answers are far shorter than `max_tokens`: it sees engines as full that are not.

Example: caches of 10,000 tokens, in use 50 % and 90 %. A request of 800 + 400 tokens fits only the first. With 30 % free at the
second it fits both, and the policies decide.
";

/// Settings of `kv_fits`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl FilterConfig for Config {
    fn name(&self) -> &'static str {
        "kv_fits"
    }

    fn needs(&self) -> Needs {
        Needs::TOKENS.and(Needs::SIGNALS)
    }

    fn build(&self) -> Box<dyn Filter> {
        Box::new(KvFits)
    }
}

struct KvFits;

impl Filter for KvFits {
    fn filter(&self, request: &Request<'_>, candidates: &Candidates<'_>, dropped: &mut [Option<Dropped>]) {
        let Some(needed) = request.work.map(crate::work::Work::most_tokens) else {
            return;
        };
        // Candidates of one target stand side by side, so the orders are few runs.
        let mut roomy: smallvec::SmallVec<[u16; 4]> = smallvec::SmallVec::new();
        let has_room = |candidate: &Candidate<'_>| fits(candidate, candidates, needed);
        for (candidate, reason) in candidates.iter().zip(&*dropped) {
            let order = candidate.target.order;
            if reason.is_none() && !roomy.contains(&order) && has_room(&candidate) == Some(true) {
                roomy.push(order);
            }
        }
        for (reason, candidate) in dropped.iter_mut().zip(candidates.iter()) {
            if reason.is_none()
                && roomy.contains(&candidate.target.order)
                && has_room(&candidate) == Some(false)
            {
                *reason = Some(Dropped::KvFits);
            }
        }
    }

    fn is_soft(&self) -> bool {
        true
    }
}

/// Whether so many tokens fit into what is free of its cache; none: not known.
#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^53")]
fn fits(candidate: &Candidate<'_>, candidates: &Candidates<'_>, needed: u64) -> Option<bool> {
    let now = candidates.now();
    let tokens = candidate.engine.fresh(now)?.cache_tokens?;
    let free = (1.0 - candidate.engine.kv_usage(now)?) * tokens as f64;
    Some(needed as f64 <= free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::Stage;
    use crate::signals::Reading;
    use crate::spec::{EndpointSpec, PoolSpec};
    use crate::work::Work;
    use std::sync::Arc;

    fn used(share: f64) -> Reading {
        Reading {
            kv_usage: Some(share),
            cache_tokens: Some(10_000),
            ..Reading::default()
        }
    }

    fn stage(shares: &[f64]) -> Stage {
        let endpoints =
            (0..shares.len()).map(|place| EndpointSpec::new(format!("e{place}"), format!("{place}")));
        let pool = PoolSpec::new("p", endpoints.collect());
        let mut stage = Stage::over(vec![pool], |route| route.filters.kv_fits = Some(Config {}));
        for (place, share) in shares.iter().enumerate() {
            stage.read(place, used(*share));
        }
        stage.work = Some(Arc::new(Work {
            prompt_tokens: 800,
            max_tokens: Some(400),
            ..Work::default()
        }));
        stage
    }

    #[test]
    fn an_engine_without_room_is_dropped_while_another_has_it() {
        let full = Some(Dropped::KvFits);
        assert_eq!(stage(&[0.5, 0.9]).dropped(), [None, full]);
        assert_eq!(stage(&[0.5, 0.7]).dropped(), [None, None]);
        assert_eq!(stage(&[0.95, 0.9]).dropped(), [None, None], "nobody has room");
        // What is free is exactly what is needed.
        assert_eq!(stage(&[0.88, 0.89]).dropped(), [None, full]);
    }

    #[test]
    fn what_was_sent_since_the_reading_takes_its_room() {
        let mut stage = stage(&[0.5, 0.85, 0.1]);
        stage.busy(1, 1);
        // 0.85 + 0.08 leaves 700 tokens.
        assert_eq!(stage.dropped(), [None, Some(Dropped::KvFits), None]);
    }

    #[test]
    fn who_does_not_tell_is_neither_dropped_nor_a_reason_to_drop() {
        let mut stage = stage(&[0.95, 0.5, 0.95]);
        stage.read(1, Reading::default());
        assert_eq!(stage.dropped(), [None, None, None]);
        stage.read(2, used(0.2));
        assert_eq!(stage.dropped(), [Some(Dropped::KvFits), None, None]);
        stage.pass(3_001);
        assert_eq!(stage.dropped(), [None, None, None], "all too old");
    }

    #[test]
    fn a_later_order_is_no_reason() {
        let pool = |name: &str| PoolSpec::new(name, vec![EndpointSpec::new("e", name)]);
        let mut later = Stage::over(vec![pool("a"), pool("b")], |route| {
            route.filters.kv_fits = Some(Config {});
            route.targets[1].order = 2;
        });
        later.work = stage(&[0.1]).work;
        later.read(0, used(0.99));
        later.read(1, used(0.0));
        assert_eq!(later.winner(), 0);
    }
}
