//! How much any rule could gain over the best yardstick.

use super::slices::slices;
use crate::contest::Contest;
use crate::gates;
use crate::numbers::{change, three};
use crate::rules::AUTO;
use crate::workloads::Slice;

const ABOUT: &str = "\
No rule gives a lower time to the first token than the *floor*: that of each request alone on an idle engine of the fleet's fastest kind whose
cache holds whatever a request with the same beginning can have left there by then, and that waits for nothing but what such a
request still computes. Loads, queues, the size of caches and what goes wrong are left out, so the floor is mostly out of reach. *At most* is its distance
from the best yardstick, the most that any rule can gain there; it holds for rules that answer all requests.

*Clairvoyant* is a rule that knows all of the present and nothing of what comes: the caches, queues, iterations and answers' lengths of all engines, whose
copies it runs on to the request's first token. It goes where that comes soonest, with the time of computing the prompt counted twice, and waits and computes like
any other. So it is what better knowledge could bring; a rule that guesses better what will be asked for again may be ahead of it.
";

const FIGURES: &str = "best yardstick | floor | at most | clairvoyant | beside it | `auto` | beside it";

/// The tables, one for each slice; empty where no floor is known.
pub(super) fn tables(contests: &[Contest]) -> String {
    slices(
        "The most that any rule can gain",
        (ABOUT, FIGURES),
        (contests, row),
    )
}

fn row(contest: &Contest, slice: Slice) -> Option<String> {
    let floor = contest.floors?;
    let floor = floor.on(slice);
    let auto = contest.product(AUTO)?.on(slice)?;
    let (_, mean) = gates::least_mean(contest, slice)?;
    let p90 = contest
        .yardsticks()
        .filter_map(|entry| Some(entry.on(slice)?.ttft_p90))
        .min_by(f64::total_cmp)?;
    let known = contest.clairvoyant.as_ref().and_then(|entry| entry.on(slice));
    let beside = |best: f64, floor: f64, (known, auto): (Option<f64>, f64)| {
        format!(
            "{} | {} | {} | {} | {} | {} | {}",
            three(best),
            three(floor),
            change(floor / best),
            known.map_or("–".to_owned(), three),
            known.map_or("–".to_owned(), |known| change(known / best)),
            three(auto),
            change(auto / best)
        )
    };
    Some(format!(
        "| {} | {} | {} |",
        contest.case,
        beside(
            mean,
            floor.ttft_mean,
            (known.map(|known| known.ttft_mean), auto.ttft_mean)
        ),
        beside(
            p90,
            floor.ttft_p90,
            (known.map(|known| known.ttft_p90), auto.ttft_p90)
        )
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::floor::{Floor, Floors};
    use crate::tuning::samples::{self, entry};

    #[test]
    fn the_floor_and_auto_stand_beside_the_best_of_the_yardsticks() {
        let floor = |ttft_mean, ttft_p90| Floor { ttft_mean, ttft_p90 };
        let mut contest = samples::contest(
            "x",
            vec![
                entry(("", AUTO), [1.8, 0.9, 1.0]),
                entry(("a", "soon"), [2.0, 3.0, 0.1]),
                entry(("b", "mostly soon"), [9.0, 1.0, 0.2]),
            ],
        );
        contest.floors = Some(Floors {
            tuned: floor(0.5, 1.0),
            held: floor(0.25, 1.5),
        });
        let text = tables(std::slice::from_ref(&contest));
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| x ")).collect();
        assert_eq!(
            rows,
            [
                "| x | 1.00 | 0.250 | −75 % | – | – | 0.900 | −10 % | 2.00 | 1.50 | −25 % | – | – | 1.80 | −10 % |",
                "| x | 1.00 | 0.500 | −50 % | – | – | 0.900 | −10 % | 2.00 | 1.00 | −50 % | – | – | 1.80 | −10 % |",
            ]
        );
        contest.clairvoyant = Some(entry(("clairvoyant", "clairvoyant"), [1.7, 0.8, 1.0]));
        let text = tables(std::slice::from_ref(&contest));
        let row = "| x | 1.00 | 0.250 | −75 % | 0.800 | −20 % | 0.900 | −10 % | 2.00 | 1.50 | −25 % | 1.70 | −15 % | 1.80 | −10 % |";
        assert!(text.lines().any(|line| line == row), "{text}");
        contest.floors = None;
        assert_eq!(tables(&[contest]), "", "nothing is said without floors");
    }
}
