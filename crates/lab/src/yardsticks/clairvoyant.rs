//! A rule that knows all of the present, to tell what better knowledge could bring to `auto`. It is nobody's router and none of the
//! yardsticks.
//!
//! For each engine it lets a copy run on, with the request, to the request's first token, and takes the engine where that comes
//! soonest; the time in which the engine computes the prompt counts twice, once more for those who come behind. So it knows what
//! no gateway does: what is in the caches, how far each iteration is, how long answers under way become, how slow an engine is.
//! It knows nothing of what comes, so a rule that guesses better what will be asked for again may be ahead of it: it is no bound as
//! the [`floor`](crate::floor) is, but unlike that it waits in queues and computes what caches have lost.

use super::Yardstick;
use super::choose::{Chance, least};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Seen};
use weighbridge_sim::engine::{EventKind, Work, WorkId};
use weighbridge_sim::workload::Request;

/// The rule.
pub struct Clairvoyant {
    /// Tokens of a block of the workload.
    block: u32,
    chance: Chance,
}

/// As a rule of the lab.
#[must_use]
pub fn yardstick() -> Yardstick {
    Yardstick {
        family: "clairvoyant",
        settings: String::new(),
        shipped: true,
        told: true,
        make: Arc::new(|block, seed| Box::new(Clairvoyant::new(block, seed))),
    }
}

/// A request at a time.
#[derive(Clone, Copy)]
struct Asked<'a> {
    now: Duration,
    request: &'a Request,
}

impl Clairvoyant {
    /// For a workload in blocks of so many tokens.
    pub fn new(block: u32, seed: u64) -> Self {
        Self {
            block,
            chance: Chance::new(seed),
        }
    }

    /// Places in the order in which they are likely to be the best, so that most need not be looked at to their end.
    fn order(&self, request: &Request, candidates: &[Seen<'_>]) -> Vec<usize> {
        let tokens = |place: &usize| {
            let engine = candidates[*place].engine;
            let cached = u64::from(engine.cached(&request.blocks)) * u64::from(self.block);
            let uncached = u64::from(request.prompt_tokens).saturating_sub(cached);
            // Those that wait are taken to be as long.
            uncached + engine.stats().waiting * u64::from(request.prompt_tokens)
        };
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.sort_by_cached_key(tokens);
        order
    }
}

/// Seconds from now to the first token at an engine, and those in which the prompt is computed; infinite if the first alone are more
/// than `most`, or the engine cannot hold it.
fn cost(asked: Asked<'_>, seen: &Seen<'_>, most: f64) -> f64 {
    let Asked { now, request } = asked;
    let (mut engine, mut events) = (seen.engine.fork(), Vec::new());
    engine.advance(now, &mut events);
    let id = WorkId(u64::MAX);
    let work = Work {
        id,
        blocks: Arc::clone(&request.blocks),
        prompt_tokens: request.prompt_tokens,
        output_tokens: request.output_tokens,
    };
    if engine.submit(now, work).is_err() {
        return f64::INFINITY;
    }
    while let Some(next) = engine.next_event_time() {
        if next.saturating_sub(now).as_secs_f64() > most {
            break;
        }
        events.clear();
        engine.advance(next, &mut events);
        for event in events.iter().filter(|event| event.id == id) {
            if let EventKind::FirstToken { scheduled, .. } = event.kind {
                let since = |then: Duration| event.at.saturating_sub(then).as_secs_f64();
                return since(now) + since(scheduled);
            }
        }
    }
    f64::INFINITY
}

impl Baseline for Clairvoyant {
    fn choose(&mut self, now: Duration, (_, request): (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        let mut costs = vec![f64::INFINITY; candidates.len()];
        let mut best = f64::INFINITY;
        for place in self.order(request, candidates) {
            costs[place] = cost(Asked { now, request }, &candidates[place], best);
            best = best.min(costs[place]);
        }
        let mut costs = costs.into_iter();
        let all = least(candidates, |_| costs.next().unwrap_or(f64::INFINITY));
        self.chance.one_of(&all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yardsticks::stage::{Stage, chain, prompt};

    fn choose(stage: &Stage, request: &Request, inflight: &[u32]) -> Vec<usize> {
        let choose =
            |seed| Clairvoyant::new(16, seed).choose(stage.now(), (0, request), &stage.seen(inflight));
        let mut chosen: Vec<usize> = (0..20).map(choose).collect();
        chosen.sort_unstable();
        chosen.dedup();
        chosen
    }

    #[test]
    fn it_goes_where_the_first_token_comes_soonest() {
        let mut stage = Stage::new(3);
        assert_eq!(
            choose(&stage, &prompt(&chain(1, 10), 0), &[0; 3]),
            [0, 1, 2],
            "all alike"
        );
        stage.holds(1, &chain(1, 100));
        assert_eq!(choose(&stage, &prompt(&chain(1, 110), 0), &[0; 3]), [1]);
        // What runs there makes it wait longer than computing anew elsewhere, whatever a router counts.
        stage.computes(1, &chain(2, 900));
        assert_eq!(choose(&stage, &prompt(&chain(1, 110), 0), &[0; 3]), [0, 2]);
        stage.computes(0, &chain(3, 900));
        stage.computes(2, &chain(4, 900));
        assert_eq!(choose(&stage, &prompt(&chain(1, 110), 0), &[0; 3]), [1]);
    }

    #[test]
    fn what_is_too_long_for_all_goes_anywhere() {
        let stage = Stage::new(2);
        assert_eq!(choose(&stage, &prompt(&chain(1, 5000), 0), &[0; 2]), [0, 1]);
    }

    #[test]
    fn looking_changes_nothing() {
        let mut stage = Stage::new(2);
        stage.computes(0, &chain(1, 100));
        let seen = |stage: &Stage| {
            stage
                .seen(&[1, 0])
                .iter()
                .map(|seen| seen.engine.stats())
                .collect::<Vec<_>>()
        };
        let before = seen(&stage);
        choose(&stage, &prompt(&chain(1, 100), 0), &[1, 0]);
        assert_eq!(seen(&stage), before);
    }
}
