//! The picker: who wins, by the totals.

use super::policy::TIE;
use crate::rng::Rng;
use crate::spec::Picker;

/// Default temperature of `weighted_random`, as a share of the policies' weights.
const TEMPERATURE: f64 = 0.1;

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Picked {
    /// Place of the winner.
    pub(super) winner: usize,
    /// Whether it was drawn from equals.
    pub(super) tie: bool,
    /// The best of the others that were looked at.
    pub(super) runner_up: Option<usize>,
}

/// Picks one of `totals`, which are not empty and sum up to `weights`.
pub(super) fn pick(picker: Picker, totals: &[f64], weights: f64, rng: &mut Rng) -> Picked {
    match picker {
        Picker::Max => max(totals, TIE * weights, rng),
        Picker::PowerOfTwo => power_of_two(totals, TIE * weights, rng),
        Picker::WeightedRandom { temperature } => {
            weighted_random(totals, temperature.unwrap_or(TEMPERATURE * weights), rng)
        }
    }
}

/// The largest total, drawn from those within `slack` of it.
fn max(totals: &[f64], slack: f64, rng: &mut Rng) -> Picked {
    let largest = totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let equals = || (totals.iter().enumerate()).filter(move |(_, total)| **total >= largest - slack);
    let count = equals().count();
    let winner = equals().nth(rng.below(count)).map_or(0, |(place, _)| place);
    Picked {
        winner,
        tie: count > 1,
        runner_up: best_but(totals, winner),
    }
}

/// The better of two that chance names (M. Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing", 2001).
fn power_of_two(totals: &[f64], slack: f64, rng: &mut Rng) -> Picked {
    let one = rng.below(totals.len());
    if totals.len() < 2 {
        return Picked {
            winner: one,
            tie: false,
            runner_up: None,
        };
    }
    let other = rng.below(totals.len() - 1);
    let other = if other < one { other } else { other + 1 };
    let tie = (totals[one] - totals[other]).abs() <= slack;
    // The first was named by chance as well, so among equals it wins as often as the other.
    let wins = tie || totals[one] > totals[other];
    let (winner, loser) = if wins { (one, other) } else { (other, one) };
    Picked {
        winner,
        tie,
        runner_up: Some(loser),
    }
}

/// Draws in proportion to exp(total / temperature).
fn weighted_random(totals: &[f64], temperature: f64, rng: &mut Rng) -> Picked {
    let largest = totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Below the largest, so that no exponent is above 0.
    let part = |total: &f64| ((total - largest) / temperature).exp();
    let mut left = rng.share() * totals.iter().map(part).sum::<f64>();
    let drawn = totals.iter().position(|total| {
        left -= part(total);
        left < 0.0
    });
    // Rounding may leave a little after the last.
    let winner = drawn.unwrap_or(totals.len() - 1);
    Picked {
        winner,
        tie: false,
        runner_up: best_but(totals, winner),
    }
}

/// The largest total but the winner's.
fn best_but(totals: &[f64], winner: usize) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (place, total) in totals.iter().enumerate() {
        if place != winner && best.is_none_or(|(_, most)| *total > most) {
            best = Some((place, *total));
        }
    }
    best.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    const RANDOM: Picker = Picker::WeightedRandom { temperature: None };

    /// How often each of `totals` wins in `draws`.
    fn wins(picker: Picker, totals: &[f64], (draws, seed): (u32, u64)) -> Vec<f64> {
        let mut rng = Rng::new(seed);
        let mut wins = vec![0.0; totals.len()];
        for _ in 0..draws {
            let weights = totals.iter().sum();
            wins[pick(picker, totals, weights, &mut rng).winner] += 1.0;
        }
        wins
    }

    /// Whether the counts lie within seven standard deviations of `shares`, which no run of the tests exceeds by chance.
    fn check(wins: &[f64], shares: &[f64]) {
        let draws: f64 = wins.iter().sum();
        for (won, share) in wins.iter().zip(shares) {
            let deviation = (draws * share * (1.0 - share)).sqrt();
            assert!(
                (won - draws * share).abs() <= 7.0 * deviation + 1e-9,
                "{wins:?} for {shares:?}"
            );
        }
    }

    #[test]
    fn the_best_of_two_draws() {
        // Of three, a pair holds the best in 2 of 3 draws, the second wins one pair, the last none.
        check(
            &wins(Picker::PowerOfTwo, &[0.2, 0.5, 0.3], (30_000, 1)),
            &[0.0, 2.0 / 3.0, 1.0 / 3.0],
        );
        check(&wins(Picker::PowerOfTwo, &[0.25; 4], (30_000, 2)), &[0.25; 4]);
        check(&wins(Picker::PowerOfTwo, &[1.0], (10, 3)), &[1.0]);
    }

    #[test]
    fn two_draws_never_take_the_worst_of_many() {
        let picked = pick(Picker::PowerOfTwo, &[0.1, 0.9], 1.0, &mut Rng::new(5));
        assert_eq!(
            picked,
            Picked {
                winner: 1,
                tie: false,
                runner_up: Some(0)
            },
            "both are drawn"
        );
    }

    #[test]
    fn the_temperature_of_the_default_is_a_tenth_of_the_weights() {
        // exp(0.1 / 0.1) : exp(0) = e : 1.
        let e = std::f64::consts::E;
        let totals = [0.55, 0.45];
        check(
            &wins(RANDOM, &totals, (30_000, 1)),
            &[e / (1.0 + e), 1.0 / (1.0 + e)],
        );
        let scaled = [5.5, 4.5];
        check(
            &wins(RANDOM, &scaled, (30_000, 2)),
            &[e / (1.0 + e), 1.0 / (1.0 + e)],
        );
    }

    #[test]
    fn a_cold_draw_is_the_largest_and_a_hot_one_is_even() {
        let of = |temperature| Picker::WeightedRandom {
            temperature: Some(temperature),
        };
        let totals = [0.3, 0.5, 0.2];
        check(&wins(of(1e-6), &totals, (1000, 1)), &[0.0, 1.0, 0.0]);
        check(&wins(of(1e6), &totals, (30_000, 1)), &[1.0 / 3.0; 3]);
    }

    proptest! {
        /// What is drawn is there, the runner-up is another, and the same seed draws the same.
        #[test]
        fn every_pick_is_a_place(
            totals in prop::collection::vec(0.0f64..3.0, 1..40),
            seed in any::<u64>(),
            temperature in prop_oneof![Just(None), (1e-9f64..1e3).prop_map(Some)],
        ) {
            for picker in [Picker::Max, Picker::PowerOfTwo, Picker::WeightedRandom { temperature }] {
                let weights = totals.iter().sum();
                let draw = || pick(picker, &totals, weights, &mut Rng::new(seed));
                let picked = draw();
                prop_assert!(picked.winner < totals.len());
                prop_assert_eq!(picked.runner_up.is_some(), totals.len() > 1);
                prop_assert_ne!(picked.runner_up, Some(picked.winner));
                prop_assert_eq!(picked, draw());
                if picker != (Picker::WeightedRandom { temperature }) {
                    let other = picked.runner_up.map_or(0.0, |place| totals[place]);
                    prop_assert!(totals[picked.winner] >= other - 1e-11);
                }
            }
        }

        /// Shares are those of the softmax, whatever the totals.
        #[test]
        fn shares_are_those_of_the_softmax(totals in prop::collection::vec(0.0f64..1.0, 2..6), seed in any::<u64>()) {
            let temperature = 0.3;
            let parts: Vec<f64> = totals.iter().map(|total| (total / temperature).exp()).collect();
            let sum: f64 = parts.iter().sum();
            let shares: Vec<f64> = parts.iter().map(|part| part / sum).collect();
            let picker = Picker::WeightedRandom { temperature: Some(temperature) };
            check(&wins(picker, &totals, (5000, seed)), &shares);
        }
    }
}
