//! Prefers endpoints with fewer requests in flight: 1 / (1 + in flight + ramp penalty).

/// When it is right and when it is wrong, for the reference of policies.
pub const GUIDE: &str = "\
Looks at the requests that this gateway has under way at an endpoint, whatever route they came by. Needs nothing from the
engine, so it works with every provider and when metrics fail.

**Right** where requests cost about the same, and as the steady part of any mix: it never sends more to an endpoint that does
not answer. **Wrong** alone where requests differ a hundredfold (a long prompt counts like a greeting; see `least_work`), and
where several replicas of the gateway share engines and each sees its own requests only (see `queue_depth`).

Example: endpoints with 0, 3 and 1 in flight score 1, 1/4 and 1/2, of which the shares are 4/7, 1/7 and 2/7.
";

super::weight_only! {
    /// Settings of `least_inflight`.
    "least_inflight", crate::work::Needs::NONE, LeastInflight
}

struct LeastInflight;

impl super::Scorer for LeastInflight {
    fn score(
        &self,
        _request: &super::Request<'_>,
        candidates: &super::Candidates<'_>,
        scores: &mut [f64],
    ) -> Result<Option<super::Home>, crate::explain::Abstained> {
        for (place, score) in scores.iter_mut().enumerate() {
            let candidate = candidates.get(place);
            *score = 1.0 / (1.0 + f64::from(candidate.inflight) + candidate.penalty);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::ScorerConfig;
    use crate::policies::stage::Stage;

    #[test]
    fn one_over_one_plus_load() {
        let mut stage = Stage::new(3, |policies| policies.least_inflight = Some(Config::default()));
        stage.busy(1, 3);
        stage.busy(2, 1);
        assert_eq!(stage.scores("least_inflight"), [1.0, 0.25, 0.5]);
    }

    #[test]
    fn refuses_weights_that_mean_nothing() {
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Config { weight }.check().is_err(), "{weight}");
        }
        assert_eq!(Config { weight: 0.5 }.check(), Ok(()));
    }
}
