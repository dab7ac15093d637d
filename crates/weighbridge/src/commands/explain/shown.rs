//! An explanation as tables for people.

use super::reckoned;
use crate::commands::admin::table::{Table, number, printable};
use serde_json::Value;
use std::fmt::Write;

/// The outcome in a sentence, then every candidate with what each policy gave it, then what the policies went by.
pub(in crate::commands) fn table(explanation: &Value) -> String {
    let mut text = outcome(explanation);
    for (policy, reason) in explanation["abstained"].as_object().into_iter().flatten() {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{policy} abstained: {}",
            abstained(reason.as_str().unwrap_or_default())
        );
    }
    text.push('\n');
    text.push_str(&candidates(explanation).text());
    if let Some(reckoned) = reckoned::table(explanation) {
        text.push('\n');
        text.push_str(&reckoned.text());
    }
    text
}

pub(super) fn word(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default())
}

/// Target and endpoint, which together are a candidate.
pub(super) fn name(of: &Value) -> String {
    format!("{}/{}", word(&of["target"]), word(&of["endpoint"]))
}

/// The outcome in a sentence or two: the route, the winner and why.
pub(in crate::commands) fn outcome(explanation: &Value) -> String {
    let count = |key: &str| explanation[key].as_u64().unwrap_or_default();
    let implied = match explanation["preset_implied"] == true {
        true => "implied ",
        false => "",
    };
    let preset = match explanation["preset"].as_str() {
        Some(preset) => format!(" ({implied}preset {})", printable(preset)),
        None => String::new(),
    };
    let how = word(&explanation["route_by"]) + &preset;
    let mut text = format!(
        "route {} by {how}: {} of {} candidates live\n",
        word(&explanation["route"]),
        count("live"),
        count("candidates")
    );
    if explanation["endpoint"].is_null() {
        if explanation["never"].is_null() {
            text.push_str("no candidate can take the request now\n");
        }
        return text + &remarks(explanation);
    }
    let why = if explanation["failed_open"] == true {
        "nothing is live, so the one that is back soonest is tried".to_owned()
    } else if explanation["parts"]
        .as_array()
        .is_some_and(|parts| !parts.is_empty())
    {
        let tie = if explanation["tie"] == true {
            ", drawn from equals"
        } else {
            ""
        };
        let total = explanation["total"].as_f64().unwrap_or_default();
        let second = &explanation["runner_up"];
        let second = match second["total"].as_f64() {
            Some(total) => format!("; next is {} with {}", name(second), number(total)),
            None => String::new(),
        };
        let picked = match explanation["picker"].as_str() {
            Some("power_of_two") => "the better of two drawn",
            Some("weighted_random") => "drawn by its total",
            _ => "the largest total",
        };
        format!("{picked}, {}{tie}{second}", number(total))
    } else {
        "it is its turn".to_owned()
    };
    let _ = writeln!(text, "winner {}: {why}", name(explanation));
    text.push_str(&reckoned::sentences(explanation));
    if explanation["session_moved"] == true {
        text.push_str("the session belongs elsewhere and is moved for this request\n");
    }
    if explanation["order"].as_u64().is_some_and(|order| order > 1) {
        let _ = writeln!(
            text,
            "earlier orders have no live candidate: order {} serves",
            count("order")
        );
    }
    text + &remarks(explanation)
}

/// Why the route can never serve such a request, and what of it counts for nothing, a line each.
fn remarks(explanation: &Value) -> String {
    let why = |why: &str| match explanation["endpoint"].is_null() {
        true => format!("the route can never serve such a request, by its config: {why}\n"),
        false => format!("whichever engine is asked will refuse it: {why}\n"),
    };
    let never = explanation["never"].as_str().map(|never| why(&printable(never)));
    let notes = explanation["notes"].as_array().into_iter().flatten();
    let notes = notes.map(|note| word(note) + "\n");
    never.into_iter().chain(notes).collect()
}

fn abstained(reason: &str) -> &str {
    match reason {
        "no_key" => "the request has no session key",
        "zero_sum" => "all its scores are 0",
        "no_signal" => "no engine tells what it looks at",
        "no_facts" => "neither the request nor the config tells what it looks at",
        "no_model" => "its model has not learned enough, or errs no less than a mean",
        "no_samples" => "nothing was measured yet",
        "miss" => "no engine has what it looks for",
        other => other,
    }
}

/// One line per candidate and policy; `*` marks the winner.
fn candidates(explanation: &Value) -> Table {
    let mut table = Table::new(
        &[
            "",
            "CANDIDATE",
            "IN FLIGHT",
            "POLICY",
            "RAW",
            "SHARE",
            "WEIGHTED",
            "TOTAL",
            "DROPPED BY",
        ],
        &[2, 4, 5, 6, 7],
    );
    for candidate in explanation["explanation"].as_array().into_iter().flatten() {
        let mark = if candidate["chosen"] == true { "*" } else { "" };
        let mut inflight = candidate["inflight"].to_string();
        if let Some(penalty) = candidate["penalty"].as_f64() {
            let _ = write!(inflight, " + {}", number(penalty));
        }
        let parts = candidate["parts"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let total = match parts {
            [] => String::new(),
            _ => candidate["total"].as_f64().map(number).unwrap_or_default(),
        };
        let total = match candidate["factor"].as_f64() {
            Some(factor) => format!("{total} (× {})", number(factor)),
            None => total,
        };
        let dropped = word(&candidate["dropped"]);
        let first = [mark.to_owned(), name(candidate), inflight];
        let rows = parts.len().max(1);
        for at in 0..rows {
            let [mark, name, inflight] = if at == 0 {
                first.clone()
            } else {
                Default::default()
            };
            let [policy, raw, share, weighted] = part(parts.get(at));
            let (total, dropped) = match at {
                0 => (total.clone(), dropped.clone()),
                _ => Default::default(),
            };
            table.row([mark, name, inflight, policy, raw, share, weighted, total, dropped]);
        }
    }
    table
}

fn part(part: Option<&Value>) -> [String; 4] {
    let Some(part) = part else {
        return Default::default();
    };
    let figure = |key: &str| part[key].as_f64().map(number).unwrap_or_default();
    [
        word(&part["policy"]),
        figure("raw"),
        figure("share"),
        figure("weighted"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeSet;
    use weighbridge_core::explain::{Abstained, Dropped};
    use weighbridge_core::view::StateKind;

    const PAGE: &str = include_str!("../../../../../docs/explaining.md");

    /// Words in backticks that the page on decisions explains in this row of its table: those with a bracket behind them.
    fn explained(row: &str) -> BTreeSet<&'static str> {
        let start = format!("| `{row}` | ");
        let text = PAGE.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
        let pieces: Vec<&str> = text.split('`').collect();
        let words = pieces.windows(2).skip(1).step_by(2);
        words
            .filter(|pair| pair[1].starts_with(" ("))
            .map(|pair| pair[0])
            .collect()
    }

    #[test]
    fn every_reason_to_abstain_is_explained_here_and_on_the_page() {
        let all: BTreeSet<&str> = Abstained::ALL.iter().map(|why| why.as_str()).collect();
        assert_eq!(explained("abstained"), all);
        for why in all {
            assert_ne!(abstained(why), why, "a word of the API is no sentence");
        }
    }

    #[test]
    fn every_reason_to_drop_is_explained_on_the_page() {
        use Dropped::*;
        let all = [
            Capacity,
            Protocol,
            Tried,
            LaterOrder,
            Elsewhere,
            Modality,
            Labels,
            ContextLength,
            KvFits,
        ];
        // Another one that comes is to be added here, and to the page.
        for why in all {
            match why {
                State(_) | Capacity | Protocol | Tried | LaterOrder | Elsewhere | Modality | Labels
                | ContextLength | KvFits => {}
            }
        }
        let words = all.iter().map(|why| why.as_str()).chain(["state: …"]);
        assert_eq!(explained("dropped"), words.collect());
        let (_, states) = PAGE.split_once("`state: …` (").unwrap();
        let states = states.split(')').next().unwrap().split(", ").collect();
        // Who is full is told of by the filter `capacity`.
        let blocks = |state: &&StateKind| !matches!(state, StateKind::Live | StateKind::Full);
        let all: BTreeSet<&str> = StateKind::ALL
            .iter()
            .filter(blocks)
            .map(|state| state.as_str())
            .collect();
        assert_eq!(all, states);
    }

    #[test]
    fn every_candidate_has_its_lines() {
        let parts = |raw: f64, share: f64| {
            json!([
                {"policy": "session_affinity", "raw": raw, "share": share, "weighted": share},
                {"policy": "least_inflight", "raw": 1.0, "share": 0.5, "weighted": 0.5},
            ])
        };
        let explanation = json!({
            "route": "r", "route_by": "policy", "candidates": 3, "live": 2, "order": 1, "target": "p", "endpoint": "a",
            "total": 1.1666, "tie": false, "failed_open": false, "session_moved": false, "abstained": {},
            "parts": parts(1.0, 0.6667), "runner_up": {"target": "p", "endpoint": "b", "total": 0.8333},
            "explanation": [
                {"target": "p", "endpoint": "a", "chosen": true, "inflight": 0, "total": 1.1666, "parts": parts(1.0, 0.6667)},
                {"target": "p", "endpoint": "b", "chosen": false, "inflight": 2, "penalty": 0.5, "total": 0.8333, "parts": parts(0.5, 0.3333)},
                {"target": "p", "endpoint": "c", "chosen": false, "inflight": 7, "total": 0.0, "parts": [], "dropped": "state: cooling"},
            ],
        });
        let expect = "\
route r by policy: 2 of 3 candidates live
winner p/a: the largest total, 1.1666; next is p/b with 0.8333

   CANDIDATE  IN FLIGHT  POLICY            RAW   SHARE  WEIGHTED   TOTAL  DROPPED BY
*  p/a                0  session_affinity    1  0.6667    0.6667  1.1666
                         least_inflight      1     0.5       0.5
   p/b          2 + 0.5  session_affinity  0.5  0.3333    0.3333  0.8333
                         least_inflight      1     0.5       0.5
   p/c                7                                                   state: cooling
";
        assert_eq!(table(&explanation), expect);
    }

    #[test]
    fn the_outcome_says_what_decided() {
        let check = |changes: Value, expect: &str| {
            let mut explanation = json!({
                "route": "r", "route_by": "weight", "candidates": 2, "live": 1, "order": 1, "target": "p", "endpoint": "a",
                "parts": [], "abstained": {}, "explanation": [],
            });
            for (key, value) in changes.as_object().unwrap() {
                explanation[key] = value.clone();
            }
            let text = table(&explanation);
            assert!(text.contains(expect), "{text}");
        };
        check(json!({}), "winner p/a: it is its turn");
        check(
            json!({"preset": "chat", "preset_implied": false}),
            "route r by weight (preset chat): 1 of 2",
        );
        check(
            json!({"preset": "auto", "preset_implied": true}),
            "route r by weight (implied preset auto): 1 of 2",
        );
        check(json!({"failed_open": true}), "nothing is live");
        check(
            json!({"endpoint": null, "target": null}),
            "no candidate can take the request now",
        );
        check(json!({"session_moved": true}), "the session belongs elsewhere");
        check(json!({"order": 2}), "order 2 serves");
        check(
            json!({"abstained": {"session_affinity": "no_key"}}),
            "session_affinity abstained: the request has no",
        );
        let parts = json!([{"policy": "least_inflight", "raw": 1.0, "share": 0.5, "weighted": 0.5}]);
        check(
            json!({"parts": parts, "total": 0.5, "picker": "power_of_two"}),
            "winner p/a: the better of two drawn, 0.5",
        );
        let halved = json!([{"target": "p", "endpoint": "a", "inflight": 0, "total": 0.25, "factor": 0.5, "parts": parts}]);
        check(json!({"explanation": halved}), "0.25 (× 0.5)");
        check(
            json!({"parts": parts, "total": 0.5, "tie": true}),
            "the largest total, 0.5, drawn from equals",
        );
    }
}
