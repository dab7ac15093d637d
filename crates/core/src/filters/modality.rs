//! Drops models that cannot take what the request holds.

use super::{Filter, FilterConfig, says};
use crate::explain::Dropped;
use crate::policies::{Candidates, Request};
use crate::work::Needs;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference.
pub const GUIDE: &str = "\
Compares what the request holds (images, audio, files, tools, a JSON schema) with `abilities` of the pools. It is on where a
pool of the route has them, and `modality: false` switches it off. A request that no target of the route can take is refused
with 400, which names what is missing; where one could and is not in service, with 503.

**Right** where one route serves models of which only some see images or call tools. **Wrong** where engines take more than
their `abilities` say: a pool that leaves the key out takes everything.

Example: pool `small` has `abilities: []`, pool `vision` has `[image]`. A request with an image goes to `vision`, however busy
it is; one with an image and tools is refused: no target of the route takes tools.
";

/// Settings of `modality`: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl FilterConfig for Config {
    fn name(&self) -> &'static str {
        "modality"
    }

    fn needs(&self) -> Needs {
        Needs::ABILITIES
    }

    fn build(&self) -> Box<dyn Filter> {
        Box::new(Modality)
    }
}

struct Modality;

impl Filter for Modality {
    fn filter(&self, request: &Request<'_>, candidates: &Candidates<'_>, dropped: &mut [Option<Dropped>]) {
        let wants = request.work.map(|work| work.wants).unwrap_or_default();
        for (reason, candidate) in dropped.iter_mut().zip(candidates.iter()) {
            if says(*reason) && !candidate.pool.abilities.covers(wants) {
                *reason = Some(Dropped::Modality);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Unfit, Verdict};
    use crate::event::Control;
    use crate::policies::stage::Stage;
    use crate::spec::{EndpointSpec, PoolSpec};
    use crate::work::{Abilities, Work};
    use std::sync::Arc;

    fn pool(name: &str, abilities: Abilities) -> PoolSpec {
        PoolSpec {
            abilities,
            ..PoolSpec::new(name, vec![EndpointSpec::new("e", format!("http://{name}"))])
        }
    }

    fn stage(abilities: &[Abilities]) -> Stage {
        let pools = ["a", "b"].iter().zip(abilities);
        let pools = pools.map(|(name, abilities)| pool(name, *abilities));
        Stage::over(pools.collect(), |route| route.filters.modality = Some(Config {}))
    }

    fn wants(stage: &mut Stage, wants: Abilities) {
        stage.work = Some(Arc::new(Work {
            wants,
            ..Work::default()
        }));
    }

    #[test]
    fn an_image_goes_to_the_model_that_sees_however_busy_it_is() {
        let mut stage = stage(&[Abilities::NONE, Abilities::IMAGE]);
        stage.busy(1, 5);
        assert_eq!(stage.dropped(), [None, None], "text");
        wants(&mut stage, Abilities::IMAGE);
        assert_eq!(stage.dropped(), [Some(Dropped::Modality), None]);
        assert_eq!(stage.winner(), 1);
    }

    #[test]
    fn what_no_target_takes_is_named() {
        let mut stage = stage(&[Abilities::NONE, Abilities::IMAGE]);
        wants(&mut stage, Abilities::IMAGE.and(Abilities::TOOLS));
        let unfit = Unfit {
            abilities: Abilities::TOOLS,
            labels: false,
        };
        assert_eq!(stage.refusal(), Verdict::Unfit(unfit));
    }

    #[test]
    fn where_each_takes_a_part_all_of_it_is_named() {
        let mut stage = stage(&[Abilities::TOOLS, Abilities::IMAGE]);
        let both = Abilities::IMAGE.and(Abilities::TOOLS);
        wants(&mut stage, both);
        let unfit = Unfit {
            abilities: both,
            labels: false,
        };
        assert_eq!(stage.refusal(), Verdict::Unfit(unfit));
    }

    #[test]
    fn what_one_could_take_that_is_not_in_service_is_unavailable() {
        let mut stage = stage(&[Abilities::NONE, Abilities::IMAGE]);
        wants(&mut stage, Abilities::IMAGE);
        let endpoint = stage.ids[1];
        stage.step(crate::Event::Control {
            endpoint,
            command: Control::Drain,
        });
        assert!(matches!(stage.refusal(), Verdict::Unavailable { .. }));
    }

    #[test]
    fn a_pool_without_endpoints_may_have_one_soon() {
        let pools = vec![pool("a", Abilities::NONE), PoolSpec::new("b", Vec::new())];
        let mut stage = Stage::over(pools, |route| route.filters.modality = Some(Config {}));
        wants(&mut stage, Abilities::IMAGE);
        assert!(matches!(stage.refusal(), Verdict::Unavailable { .. }));
    }

    #[test]
    fn a_later_order_serves_what_the_first_cannot() {
        let pools = vec![pool("a", Abilities::NONE), pool("b", Abilities::IMAGE)];
        let mut stage = Stage::over(pools, |route| {
            route.filters.modality = Some(Config {});
            route.targets[1].order = 2;
        });
        assert_eq!(stage.dropped(), [None, Some(Dropped::LaterOrder)]);
        wants(&mut stage, Abilities::IMAGE);
        assert_eq!(stage.dropped(), [Some(Dropped::Modality), None]);
    }
}
