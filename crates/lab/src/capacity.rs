//! How much `auto` bears, and what it is like at 80 % of that.

use crate::contest::{Scope, outcomes};
use crate::rules::{self, ROUND_ROBIN};
use crate::trial::{Outcome, Rule, Stage, TrialError};
use crate::workloads::{Case, Slice};
use crate::yardsticks;
use serde::{Deserialize, Serialize};
use weighbridge_core::presets::Preset;

/// Cases whose prompts are little else than shared beginnings.
pub const CASES: [&str; 2] = ["system prompts", "llm-d 37"];
/// Goodput that makes a load one that is borne.
const GOODPUT: f64 = 0.9;
/// Share of the highest load at which the rules are held against each other.
const SHARE: f64 = 0.8;
/// The bisection ends where the load that is borne and the one that is not are this near.
const NEAR: f64 = 1.02;
/// Neither more than so many times the case's load is tried, nor less than this part of it.
const WIDEST: f64 = 16.0;

/// What is borne in a case, and both rules at 80 % of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Capacity {
    /// The case.
    pub case: String,
    /// The highest load at which `auto` answers nine of ten requests in time, as a multiple of the case's.
    pub most: f64,
    /// Requests per second at 80 % of it, those of later turns among them.
    pub rate: f64,
    /// `auto` at 80 % of it.
    pub auto: Outcome,
    /// Round robin at 80 % of it.
    pub round_robin: Outcome,
}

/// Looks for the highest load in a case, on the slice that was held out.
///
/// # Errors
/// The data is not there, or a bug of the lab or the simulator.
pub fn capacity(scope: &Scope, case: &Case) -> Result<Capacity, TrialError> {
    let auto = rules::rule(rules::AUTO, Preset::Auto.policies());
    let most = highest::<TrialError>(|load| {
        let done = outcomes(scope, (&case.at(load), Slice::Held), std::slice::from_ref(&auto))?;
        Ok(done.first().is_some_and(|outcome| outcome.goodput >= GOODPUT))
    })?;
    let case_there = case.at(most * SHARE);
    let turn = yardsticks::all()
        .into_iter()
        .find(|one| one.family == ROUND_ROBIN);
    let pair: Vec<Rule> = [auto].into_iter().chain(turn.map(Rule::Yardstick)).collect();
    let there = outcomes(scope, (&case_there, Slice::Held), &pair)?;
    let seed = scope.seeds.first().copied().unwrap_or_default();
    Ok(Capacity {
        case: case.name.to_owned(),
        most,
        rate: Stage::new(&case_there, &scope.bench, (Slice::Held, seed))?.rate(),
        auto: there.first().copied().unwrap_or_default(),
        round_robin: there.get(1).copied().unwrap_or_default(),
    })
}

/// The highest load that is borne, within 2 %.
fn highest<E>(mut borne: impl FnMut(f64) -> Result<bool, E>) -> Result<f64, E> {
    let (mut low, mut high) = (1.0, 1.0);
    if borne(1.0)? {
        while high < WIDEST {
            high = low * 2.0;
            if !borne(high)? {
                break;
            }
            low = high;
        }
    } else {
        while low > 1.0 / WIDEST {
            low = high / 2.0;
            if borne(low)? {
                break;
            }
            high = low;
        }
    }
    while high / low > NEAR {
        let middle = f64::sqrt(low * high);
        match borne(middle)? {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_load_is_found_above_and_below_that_of_the_case() {
        for most in [0.2, 0.99, 1.0, 1.01, 3.7, 11.0] {
            let found = highest(|load| Ok::<_, ()>(load <= most)).unwrap();
            assert!(found <= most && found * NEAR >= most, "{found} for {most}");
        }
    }

    #[test]
    fn the_search_ends_where_everything_is_borne_or_nothing() {
        assert!(highest(|_| Ok::<_, ()>(true)).unwrap() >= WIDEST);
        assert!(highest(|_| Ok::<_, ()>(false)).unwrap() <= 1.0 / WIDEST);
        assert_eq!(highest(|_| Err(7)), Err(7));
    }
}
