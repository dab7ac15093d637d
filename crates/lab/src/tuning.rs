//! Which settings of a yardstick count as tuned: those that did best on the slice that is tuned on.
//!
//! What is best depends on what is asked for, so that each family is tuned several times over, and all of what comes of it is
//! held against the product.

use crate::contest::Entry;
use crate::trial::Outcome;
use serde::{Deserialize, Serialize};

/// What an entry is the best of its family at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picked {
    /// The 90th percentile of the time to the first token.
    pub p90: bool,
    /// Its mean.
    pub mean: bool,
    /// Goodput.
    pub goodput: bool,
    /// The 90th percentile over goodput.
    pub both: bool,
    /// Any of them, among those of its family that need no events.
    #[serde(default)]
    pub untold: bool,
}

impl Picked {
    /// Whether it is the best at anything.
    #[must_use]
    pub fn any(self) -> bool {
        self.p90 || self.mean || self.goodput || self.both || self.untold
    }
}

/// The less, the better; goodput is above 0 wherever anything is answered in time.
#[must_use]
pub fn both(outcome: &Outcome) -> f64 {
    outcome.ttft_p90 / outcome.goodput.max(1e-9)
}

/// A figure of an outcome, of which less is better, and the mark of the one that has the least.
type Aim = (fn(&Outcome) -> f64, fn(&mut Picked));

const AIMS: [Aim; 4] = [
    (|outcome| outcome.ttft_p90, |picked| picked.p90 = true),
    (|outcome| outcome.ttft_mean, |picked| picked.mean = true),
    (|outcome| -outcome.goodput, |picked| picked.goodput = true),
    (both, |picked| picked.both = true),
];

/// Marks the best of each family; of those that are equal the first, which is the one that ships.
pub fn pick(entries: &mut [Entry]) {
    for at in 0..entries.len() {
        let Some(family) = entries[at].family.clone() else {
            continue;
        };
        let first = entries[..at]
            .iter()
            .all(|entry| entry.family.as_ref() != Some(&family));
        if !first {
            continue;
        }
        for (figure, mark) in AIMS {
            if let Some(place) = best(entries, &family, |_| true, figure) {
                mark(&mut entries[place].picked);
            }
            if let Some(place) = best(entries, &family, |entry| !entry.told, figure) {
                entries[place].picked.untold = true;
            }
        }
    }
}

/// Place of the best of a family among those that are wanted, on the slice that is tuned on.
fn best(
    entries: &[Entry],
    family: &str,
    wanted: fn(&Entry) -> bool,
    figure: fn(&Outcome) -> f64,
) -> Option<usize> {
    let of = entries.iter().enumerate();
    let of = of.filter(|(_, entry)| entry.family.as_deref() == Some(family) && wanted(entry));
    // `min_by` gives the first of equals.
    let best = of.min_by(|(_, one), (_, other)| figure(&one.tuned).total_cmp(&figure(&other.tuned)));
    best.map(|(place, _)| place)
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;
    use crate::contest::Contest;

    /// A case of shared prefixes with these entries, of which no bound is known.
    pub(crate) fn contest(case: &str, entries: Vec<Entry>) -> Contest {
        Contest {
            case: case.to_owned(),
            shared: true,
            replicas: 1,
            floors: None,
            clairvoyant: None,
            entries,
        }
    }

    /// A yardstick's entry, or with an empty family the product's; figures: p90, mean, goodput, on both slices.
    pub(crate) fn entry((family, rule): (&str, &str), [p90, mean, goodput]: [f64; 3]) -> Entry {
        let tuned = Outcome {
            ttft_p90: p90,
            ttft_mean: mean,
            ttft_p50: mean,
            goodput,
            ..Outcome::default()
        };
        Entry {
            rule: rule.to_owned(),
            family: (!family.is_empty()).then(|| family.to_owned()),
            settings: rule.to_owned(),
            shipped: false,
            told: false,
            picked: Picked::default(),
            tuned,
            held: Some(tuned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::entry;
    use super::*;

    #[test]
    fn the_best_of_each_family_is_marked_by_what_it_is_best_at() {
        let mut entries = [
            entry(("", "auto"), [0.1, 0.1, 1.0]),
            entry(("a", "fast"), [1.0, 0.9, 0.5]),
            entry(("a", "in time"), [2.0, 0.8, 0.9]),
            entry(("a", "neither"), [1.5, 1.0, 0.7]),
            entry(("b", "alone"), [9.0, 9.0, 0.1]),
        ];
        pick(&mut entries);
        let marks = |rule: &str| {
            let picked = entries.iter().find(|entry| entry.rule == rule).unwrap().picked;
            [picked.p90, picked.mean, picked.goodput, picked.both]
        };
        assert_eq!(marks("auto"), [false; 4], "the product is not tuned");
        // 1 / 0.5 = 2; 2 / 0.9 = 2.2; 1.5 / 0.7 = 2.1.
        assert_eq!(marks("fast"), [true, false, false, true]);
        assert_eq!(marks("in time"), [false, true, true, false]);
        assert_eq!(marks("neither"), [false; 4]);
        assert_eq!(marks("alone"), [true; 4], "each family has its own");
    }

    #[test]
    fn of_equals_the_first_is_taken() {
        let mut entries = [
            entry(("a", "ships"), [1.0, 1.0, 0.5]),
            entry(("a", "other"), [1.0, 1.0, 0.5]),
        ];
        pick(&mut entries);
        assert!(entries[0].picked.any());
        assert!(!entries[1].picked.any());
    }

    #[test]
    fn who_answers_nothing_in_time_is_not_the_best() {
        let mut entries = [
            entry(("a", "nothing"), [0.5, 1.0, 0.0]),
            entry(("a", "something"), [1.0, 1.0, 0.5]),
        ];
        pick(&mut entries);
        assert!(!entries[0].picked.both);
        assert!(entries[1].picked.both);
    }
}
