//! Prefers endpoints in the zone that the gateway is in.

use super::unknown::fill_in;
use super::{Candidates, Home, Request, Scorer, ScorerConfig};
use crate::explain::Abstained;
use crate::filters::labels::value_of;
use crate::work::Needs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
An endpoint whose label `zone` is the gateway's own (`server.zone`) scores 1, one of another zone `cross_zone`. One without the label takes
the mean of the others. Without a zone of its own the gateway does not know what is near, and the policy abstains (`no_facts`).

**Right** where traffic between zones costs money or milliseconds, with a policy that sees load beside it, so that a full zone spills
into others. **Wrong** where models answer in seconds and the zones are near: a millisecond is not worth a queue.

Example: gateway in az1, `cross_zone: 0.5`, endpoints in az1, az2 and nowhere score 1, 0.5 and 0.75. With `least_inflight` beside it
and two endpoints, the one at home wins up to one request more than the other has.
";

/// Settings of `zone`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, above 0 and at most 1000000.
    pub weight: f64,
    /// Score of another zone, from 0 to 1.
    pub cross_zone: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            cross_zone: 0.5,
        }
    }
}

impl ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "zone"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        super::check_weight(self.weight)?;
        super::check_share("cross_zone", self.cross_zone)
    }

    fn needs(&self) -> Needs {
        Needs::NONE
    }

    fn build(&self) -> Box<dyn Scorer> {
        Box::new(Zone {
            cross_zone: self.cross_zone,
        })
    }
}

struct Zone {
    cross_zone: f64,
}

impl Scorer for Zone {
    fn score(
        &self,
        _request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let own = candidates.zone().ok_or(Abstained::NoFacts)?;
        for (score, candidate) in scores.iter_mut().zip(candidates.iter()) {
            *score = match value_of(candidate.labels, "zone") {
                Some(zone) if zone == own => 1.0,
                Some(_) => self.cross_zone,
                None => f64::NAN,
            };
        }
        fill_in(scores, Abstained::NoFacts)?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::least_inflight;
    use crate::policies::stage::Stage;
    use crate::spec::{EndpointSpec, FleetSpec, PoolSpec, RouteSpec, TargetSpec};

    fn stage(own: Option<&str>, zones: &[Option<&str>]) -> Stage {
        let endpoints = zones.iter().enumerate().map(|(place, zone)| EndpointSpec {
            labels: zone.iter().map(|zone| ("zone".into(), (*zone).into())).collect(),
            ..EndpointSpec::new(format!("e{place}"), format!("{place}"))
        });
        let mut route = RouteSpec::new("r", vec![TargetSpec::new("t", 0)]);
        route.policies.zone = Some(Config::default());
        route.policies.least_inflight = Some(least_inflight::Config::default());
        Stage::of(FleetSpec {
            pools: vec![PoolSpec::new("p", endpoints.collect())],
            routes: vec![route],
            zone: own.map(Into::into),
            ..FleetSpec::default()
        })
    }

    #[test]
    fn the_own_zone_and_others() {
        let stage = stage(Some("az1"), &[Some("az2"), Some("az1"), None]);
        assert_eq!(stage.scores("zone"), [0.5, 1.0, 0.75]);
        assert_eq!(stage.winner(), 1);
    }

    #[test]
    fn a_full_zone_spills_into_another() {
        let mut stage = stage(Some("az1"), &[Some("az1"), Some("az2")]);
        // Shares 2/3 and 1/3 by zone; by load 1/2 : 1 with one at home, which is 1/3 : 2/3.
        stage.busy(0, 1);
        assert!(stage.explain().decision.tie, "both come to 1");
        stage.busy(0, 1);
        assert_eq!(stage.winner(), 1);
    }

    #[test]
    fn where_no_zone_is_known_it_abstains() {
        assert_eq!(
            stage(None, &[Some("az1")]).abstained("zone"),
            Some(Abstained::NoFacts)
        );
        assert_eq!(
            stage(Some("az1"), &[None, None]).abstained("zone"),
            Some(Abstained::NoFacts)
        );
    }
}
