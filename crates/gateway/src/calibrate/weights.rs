//! From rates to weights.

use super::Calibration;
use crate::rounded::whole;

/// Largest weight of the slowest endpoint where weights are whole numbers.
const SLOWEST_MAX: u32 = 20;
/// How far a whole number may be from what was measured, as a share: a few seconds measure no better.
const CLOSE: f64 = 0.01;

/// Fills in the weights that follow from the rates, where at least two are known. Where all are, they are small whole
/// numbers if any fit (200 and 150 tokens/s are 4 and 3). Where an endpoint was not measured it keeps its weight, so the
/// others share what they had among them.
pub(super) fn propose(calibration: &mut Calibration) {
    let all = calibration.endpoints.len();
    let mut measured: Vec<_> = (calibration.endpoints.iter_mut())
        .filter_map(|endpoint| {
            let rate = endpoint.tokens_per_second?;
            (rate.is_finite() && rate > 0.0).then_some((rate, endpoint))
        })
        .collect();
    if measured.len() < 2 {
        return;
    }
    let rates: Vec<f64> = measured.iter().map(|(rate, _)| *rate).collect();
    let whole = (measured.len() == all).then(|| whole_numbers(&rates)).flatten();
    let weights = whole.unwrap_or_else(|| {
        let had: f64 = measured.iter().map(|(_, endpoint)| endpoint.weight).sum();
        let total: f64 = rates.iter().sum();
        rates.iter().map(|rate| rate / total * had).collect()
    });
    for ((_, endpoint), weight) in measured.iter_mut().zip(weights) {
        endpoint.proposed = Some(f64_of(millionths(weight)));
    }
}

/// The smallest whole numbers in these proportions.
fn whole_numbers(rates: &[f64]) -> Option<Vec<f64>> {
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    (1..=SLOWEST_MAX).find_map(|of_slowest| {
        let exact = rates.iter().map(|rate| rate / slowest * f64::from(of_slowest));
        let close = |exact: f64| {
            let whole = exact.round();
            ((whole - exact).abs() <= CLOSE * exact).then_some(whole)
        };
        exact.map(close).collect()
    })
}

/// A weight in millionths: above 0, and at most the largest there is.
pub(super) fn millionths(weight: f64) -> u64 {
    whole(weight * 1e6).clamp(1, 1_000_000_000_000_000)
}

#[expect(clippy::cast_precision_loss, reason = "at most 1e15, below 2^53")]
fn f64_of(millionths: u64) -> f64 {
    millionths as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::{Measured, Stage};
    use super::*;

    fn check(endpoints: &[(Option<f64>, f64)], expect: &[Option<f64>]) {
        let endpoint = |(tokens_per_second, weight): &(Option<f64>, f64)| Measured {
            name: String::new(),
            state: Stage::Measured,
            reason: None,
            tokens: 0,
            seconds: 0.0,
            tokens_per_second: *tokens_per_second,
            weight: *weight,
            weight_overridden: false,
            proposed: None,
        };
        let mut calibration = Calibration {
            pool: String::new(),
            running: true,
            scheduled: false,
            started: String::new(),
            ended: None,
            applied: false,
            endpoints: endpoints.iter().map(endpoint).collect(),
        };
        propose(&mut calibration);
        let proposed = calibration.endpoints.iter().map(|endpoint| endpoint.proposed);
        assert_eq!(proposed.collect::<Vec<_>>(), expect, "{endpoints:?}");
    }

    #[test]
    fn two_hundred_and_a_hundred_and_fifty_are_four_to_three() {
        check(&[(Some(200.0), 1.0), (Some(150.0), 1.0)], &[Some(4.0), Some(3.0)]);
        check(&[(Some(201.0), 1.0), (Some(150.0), 1.0)], &[Some(4.0), Some(3.0)]);
        check(&[(Some(99.6), 7.0), (Some(100.0), 1.0)], &[Some(1.0), Some(1.0)]);
        check(
            &[(Some(300.0), 1.0), (Some(75.0), 1.0), (Some(112.5), 1.0)],
            &[Some(8.0), Some(2.0), Some(3.0)],
        );
    }

    #[test]
    fn odd_ratios_have_six_decimals_and_keep_the_sum() {
        // 1.024 is further than a hundredth from every fraction of twentieths and below.
        check(
            &[(Some(102.4), 1.0), (Some(100.0), 1.0)],
            &[Some(1.011_858), Some(0.988_142)],
        );
        check(
            &[(Some(2.0), 1.0), (Some(1.0), 1.0), (None, 1.0)],
            &[Some(1.333_333), Some(0.666_667), None],
        );
    }

    #[test]
    fn what_was_not_measured_keeps_its_place() {
        check(
            &[(Some(200.0), 2.0), (None, 5.0), (Some(150.0), 5.0)],
            &[Some(4.0), None, Some(3.0)],
        );
        check(&[(Some(200.0), 1.0), (None, 1.0)], &[None, None]);
        check(&[(Some(0.0), 1.0), (Some(f64::NAN), 1.0)], &[None, None]);
        check(&[], &[]);
    }
}
