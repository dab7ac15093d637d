//! Drops models whose context is too small for the prompt and its answer.

use super::{Filter, FilterConfig, says};
use crate::explain::Dropped;
use crate::policies::{Candidates, Request};
use crate::view::StateKind;
use crate::work::Needs;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference.
pub const GUIDE: &str = "\
Compares prompt tokens + `max_tokens` of the request with `context_length` of the pools. It is on where a pool of the route has
one, and `context_length: false` switches it off. A pool that does not say takes any length.

The count may be an estimate, so it never refuses anybody: where no model of the route is large enough, the largest of them
stay, and the engine's own answer decides (and with it `fallback: {on: [context_length]}`).

**Right** where one route serves models of different contexts: an engine that refuses a prompt costs a round trip. **Wrong** as a
means to send long prompts to large engines: it drops only what cannot serve. Use `prompt_length` or a rule of `labels`.

Example: contexts of 4,096 and 32,768. A prompt of 3,000 tokens with `max_tokens: 2000` needs 5,000: only the second stays. One
of 40,000 fits neither: the second stays, and its engine answers.
";

/// Settings of `context_length`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl FilterConfig for Config {
    fn name(&self) -> &'static str {
        "context_length"
    }

    fn needs(&self) -> Needs {
        Needs::TOKENS
    }

    fn build(&self) -> Box<dyn Filter> {
        Box::new(ContextLength)
    }
}

struct ContextLength;

impl Filter for ContextLength {
    fn filter(&self, request: &Request<'_>, candidates: &Candidates<'_>, dropped: &mut [Option<Dropped>]) {
        let Some(needed) = request.work.map(crate::work::Work::most_tokens) else {
            return;
        };
        let room = |candidate: &crate::policies::Candidate<'_>| {
            candidate.pool.context_length.map_or(u64::MAX, u64::from)
        };
        // Endpoints that are being drained are about to be gone, so what they could take counts for nothing.
        let draining = Some(Dropped::State(StateKind::Draining));
        let largest = (candidates.iter().zip(&*dropped))
            .filter(|(_, reason)| says(**reason) && **reason != draining)
            .map(|(candidate, _)| room(&candidate))
            .max();
        let least = needed.min(largest.unwrap_or(0));
        for (reason, candidate) in dropped.iter_mut().zip(candidates.iter()) {
            if says(*reason) && room(&candidate) < least {
                *reason = Some(Dropped::ContextLength);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Ended, Outcome};
    use crate::policies::stage::Stage;
    use crate::spec::{EndpointSpec, PoolSpec};
    use crate::work::Work;
    use std::sync::Arc;

    /// One pool per context.
    fn stage(contexts: &[Option<u32>]) -> Stage {
        let pools = contexts.iter().enumerate().map(|(place, context)| PoolSpec {
            context_length: *context,
            ..PoolSpec::new(
                format!("p{place}"),
                vec![EndpointSpec::new("e", format!("http://{place}"))],
            )
        });
        Stage::over(pools.collect(), |route| {
            route.filters.context_length = Some(Config {});
        })
    }

    fn asks(stage: &mut Stage, prompt_tokens: u32, max_tokens: Option<u32>) {
        stage.work = Some(Arc::new(Work {
            prompt_tokens,
            max_tokens,
            ..Work::default()
        }));
    }

    #[test]
    fn prompt_and_answer_must_fit() {
        let mut stage = stage(&[Some(4096), Some(32_768)]);
        let small = Some(Dropped::ContextLength);
        asks(&mut stage, 3000, Some(1096));
        assert_eq!(stage.dropped(), [None, None]);
        asks(&mut stage, 3000, Some(1097));
        assert_eq!(stage.dropped(), [small, None]);
        asks(&mut stage, 3000, None);
        assert_eq!(stage.dropped(), [None, None]);
    }

    #[test]
    fn where_none_is_large_enough_the_largest_stay() {
        let mut stage = stage(&[Some(4096), Some(32_768), Some(32_768)]);
        asks(&mut stage, 40_000, None);
        assert_eq!(stage.dropped(), [Some(Dropped::ContextLength), None, None]);
    }

    #[test]
    fn a_pool_that_does_not_say_takes_any_length() {
        let mut stage = stage(&[Some(4096), None]);
        asks(&mut stage, 1_000_000, None);
        assert_eq!(stage.dropped(), [Some(Dropped::ContextLength), None]);
    }

    #[test]
    fn what_the_large_one_has_failed_is_not_sent_to_the_small_one() {
        let mut stage = stage(&[Some(4096), Some(32_768)]);
        asks(&mut stage, 5000, None);
        let (request, place) = stage.send();
        assert_eq!(place, 1);
        let actions = stage.step(crate::Event::Ended(Ended::new(request, 1, Outcome::Refused)));
        let sent = actions
            .iter()
            .any(|action| matches!(action, crate::Action::Dispatch(_)));
        assert!(!sent, "{actions:?}");
    }
}
