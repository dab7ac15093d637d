//! Prefers models that are good at what the request is about.

use super::{Candidates, Home, Request, Scorer};
use crate::explain::Abstained;
use crate::work::Needs;

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
A target scores 1 if the request's class (`x-request-type`) is one of the `strengths` of its pool, 0 if its pool has others, and
1/2 if it names none. A request without a class, or of one that no pool is good at, makes the policy abstain (`no_facts`).

**Right** where models differ and clients say what they want: code to the code model, small talk to the small one. **Wrong** as a
guarantee: with a policy that sees load beside it, a busy specialist loses to an idle generalist. A filter on `labels`
guarantees.

Example: strengths [code], [chat] and none. A request of class `code` scores 1, 0 and 1/2, one of class `poems` none.
";

super::weight_only! {
    /// Settings of `capability`.
    "capability", Needs::CLASS, Capability
}

struct Capability;

/// Score of a model of which nothing is said.
const GENERALIST: f64 = 0.5;

impl Scorer for Capability {
    fn score(
        &self,
        request: &Request<'_>,
        candidates: &Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<Home>, Abstained> {
        let class = request.work.and_then(|work| work.class.as_deref());
        let class = class.ok_or(Abstained::NoFacts)?;
        let mut suits = false;
        for (score, candidate) in scores.iter_mut().zip(candidates.iter()) {
            let strengths = &candidate.pool.strengths;
            let fits = strengths.iter().any(|word| **word == *class);
            suits |= fits;
            *score = match (fits, strengths.is_empty()) {
                (true, _) => 1.0,
                (false, true) => GENERALIST,
                (false, false) => 0.0,
            };
        }
        if suits { Ok(None) } else { Err(Abstained::NoFacts) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::stage::Stage;
    use crate::spec::{EndpointSpec, PoolSpec};
    use crate::work::Work;
    use std::sync::Arc;

    fn stage(class: Option<&str>) -> Stage {
        let pools = [&["code"][..], &["chat", "facts"], &[]].into_iter().enumerate();
        let pools = pools.map(|(place, strengths)| PoolSpec {
            strengths: strengths.iter().map(|word| (*word).into()).collect(),
            ..PoolSpec::new(
                format!("p{place}"),
                vec![EndpointSpec::new("e", format!("{place}"))],
            )
        });
        let mut stage = Stage::over(pools.collect(), |route| {
            route.policies.capability = Some(Config::default());
        });
        stage.work = Some(Arc::new(Work {
            class: class.map(Into::into),
            ..Work::default()
        }));
        stage
    }

    #[test]
    fn strengths_others_and_none() {
        assert_eq!(stage(Some("code")).scores("capability"), [1.0, 0.0, 0.5]);
        assert_eq!(stage(Some("code")).winner(), 0);
        assert_eq!(stage(Some("facts")).winner(), 1);
    }

    #[test]
    fn what_nobody_is_good_at_decides_nothing() {
        assert_eq!(
            stage(Some("poems")).abstained("capability"),
            Some(Abstained::NoFacts)
        );
        assert_eq!(stage(None).abstained("capability"), Some(Abstained::NoFacts));
    }
}
