//! Several seeds and several policies: means, spreads and differences.

use super::Policy;
use super::figures::Figure;
use super::summary::Summary;
use serde::Serialize;

/// A figure over the seeds of one policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Mean over the seeds.
    pub mean: f64,
    /// Standard deviation of single seeds (n − 1 in the denominator); 0 of one seed.
    pub sd: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// How a policy's figure differs from the first policy's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// Difference of the means.
    pub absolute: f64,
    /// The same as a share of the first policy's mean; none where that is 0.
    pub relative: Option<f64>,
    /// Half the width of its 95 % confidence interval; none: fewer than two seeds.
    pub margin: Option<f64>,
    /// Whether it is more than chance.
    pub noise: Noise,
}

/// Whether a difference is more than what the seeds differ by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Noise {
    /// One seed tells nothing of chance.
    OneSeed,
    /// The confidence interval includes 0.
    Within,
    /// It does not.
    Beyond,
}

impl Spread {
    /// Of these values; none of nothing.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let (mean, sd) = mean_and_sd(values);
        Some(Self {
            mean,
            sd,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

impl Difference {
    /// Of values seed by seed: the same seed gives both policies the same requests, so chance that hits both drops out.
    /// The interval is Student's for paired differences.
    #[must_use]
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let count = pairs.len();
        if count == 0 {
            return None;
        }
        let first = pairs.iter().map(|(first, _)| first).sum::<f64>() / count as f64;
        let differences: Vec<f64> = pairs.iter().map(|(first, other)| other - first).collect();
        let (absolute, sd) = mean_and_sd(&differences);
        let margin = (count > 1).then(|| student_95(count - 1) * sd / (count as f64).sqrt());
        let noise = match margin {
            None => Noise::OneSeed,
            Some(margin) if absolute.abs() > margin => Noise::Beyond,
            Some(_) => Noise::Within,
        };
        let relative = (first != 0.0).then(|| absolute / first.abs());
        Some(Self {
            absolute,
            relative,
            margin,
            noise,
        })
    }
}

/// A figure of a policy over its seeds.
#[must_use]
pub fn spread(policy: &Policy, figure: &Figure) -> Option<Spread> {
    let values: Vec<f64> = policy.runs.iter().filter_map(|run| figure.of(run)).collect();
    Spread::of(&values)
}

/// A figure of a policy against the first's.
#[must_use]
pub fn difference(first: &Policy, other: &Policy, figure: &Figure) -> Option<Difference> {
    let pair = |(first, other): (&Summary, &Summary)| Some((figure.of(first)?, figure.of(other)?));
    let pairs: Vec<_> = first.runs.iter().zip(&other.runs).filter_map(pair).collect();
    Difference::of(&pairs)
}

fn mean_and_sd(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let sd = if values.len() > 1 {
        (squares / (count - 1.0)).sqrt()
    } else {
        0.0
    };
    (mean, sd)
}

/// The two-sided 95 % quantile of Student's distribution.
fn student_95(degrees: usize) -> f64 {
    const QUANTILES: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // Beyond the table by the first terms of its expansion around the normal's 1.96 (Abramowitz and Stegun 26.7.5).
    let beyond = 1.96 + 2.372 / degrees.max(1) as f64;
    degrees
        .checked_sub(1)
        .and_then(|place| QUANTILES.get(place))
        .copied()
        .unwrap_or(beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_that_of_single_seeds() {
        let spread = Spread::of(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            spread,
            Spread {
                mean: 2.0,
                sd: 1.0,
                min: 1.0,
                max: 3.0
            }
        );
        assert_eq!(Spread::of(&[5.0]).unwrap().sd, 0.0);
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn chance_that_hits_both_policies_drops_out() {
        // Seeds differ tenfold, the policies by a tenth each time.
        let paired = Difference::of(&[(1.0, 0.9), (10.0, 9.05), (5.0, 4.4), (3.0, 2.7)]).unwrap();
        assert_eq!(paired.noise, Noise::Within, "{paired:?}");
        let steady = Difference::of(&[(1.0, 0.8), (2.0, 1.79), (1.5, 1.31)]).unwrap();
        assert_eq!(steady.noise, Noise::Beyond, "{steady:?}");
        assert!((steady.absolute + 0.2).abs() < 1e-9);
        // t(2) = 4.303, sd of (−.2, −.21, −.19) = .01, over √3.
        assert!((steady.margin.unwrap() - 4.303 * 0.01 / 3.0_f64.sqrt()).abs() < 1e-9);
        let mixed = Difference::of(&[(1.0, 1.2), (2.0, 1.7), (1.5, 1.6)]).unwrap();
        assert_eq!(mixed.noise, Noise::Within);
    }

    #[test]
    fn one_seed_tells_nothing_of_chance_and_equals_are_equal() {
        assert_eq!(Difference::of(&[(1.0, 2.0)]).unwrap().noise, Noise::OneSeed);
        assert_eq!(Difference::of(&[(0.0, 2.0)]).unwrap().relative, None);
        let equal = Difference::of(&[(1.0, 1.0), (2.0, 2.0)]).unwrap();
        assert_eq!((equal.absolute, equal.noise), (0.0, Noise::Within));
        assert_eq!(Difference::of(&[]), None);
    }

    #[test]
    fn the_quantiles_go_on_beyond_the_table() {
        assert!((student_95(30) - student_95(31)).abs() < 0.01);
        assert!((student_95(1_000) - 1.962).abs() < 0.001);
    }
}
