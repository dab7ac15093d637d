//! What policies reckoned from, in words: seconds, cached tokens, queues and speeds.

use super::shown::{name, word};
use crate::commands::admin::table::Table;
use serde_json::Value;
use std::fmt::Write;
use weighbridge_sim::report::grouped;

/// Where policies compare seconds: how many they are at the winner, and at the next.
pub(super) fn sentences(explanation: &Value) -> String {
    let second = &explanation["runner_up"];
    let mut text = String::new();
    for part in parts(explanation) {
        let Some(here) = part["seconds"].as_f64() else {
            continue;
        };
        let there = parts(second)
            .iter()
            .find(|other| other["policy"] == part["policy"]);
        let there = match there.and_then(|part| part["seconds"].as_f64()) {
            Some(there) => format!(", {} s at {}", figures(there), name(second)),
            None => String::new(),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {} s at {}{there}",
            word(&part["policy"]),
            figures(here),
            name(explanation)
        );
    }
    text
}

/// A table of what each candidate's seconds are reckoned from; none where no policy says so.
pub(super) fn table(explanation: &Value) -> Option<Table> {
    let head = [
        "",
        "CANDIDATE",
        "POLICY",
        "SECONDS",
        "CACHED TOKENS",
        "TO COMPUTE",
        "AHEAD",
        "WAITING",
        "RUNNING",
        "PER 1,000 TOKENS",
    ];
    let mut table = Table::new(&head, &[3, 4, 5, 6, 7, 8, 9]);
    let mut is_empty = true;
    for candidate in explanation["explanation"].as_array().into_iter().flatten() {
        let mark = if candidate["chosen"] == true { "*" } else { "" };
        for part in parts(candidate) {
            let (seconds, from) = (part["seconds"].as_f64(), &part["from"]);
            if seconds.is_none() && from.is_null() {
                continue;
            }
            is_empty = false;
            let count = |key: &str| from[key].as_u64().map(with_commas).unwrap_or_default();
            table.row([
                mark.to_owned(),
                name(candidate),
                word(&part["policy"]),
                seconds.map(figures).unwrap_or_default(),
                cached(from),
                count("to_compute_tokens"),
                count("tokens_ahead"),
                count("waiting"),
                count("running"),
                speed(from),
            ]);
        }
    }
    (!is_empty).then_some(table)
}

fn parts(of: &Value) -> &[Value] {
    of["parts"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn cached(from: &Value) -> String {
    match (from["cached_tokens"].as_u64(), from["prompt_tokens"].as_u64()) {
        (Some(cached), Some(all)) => format!("{} of {}", with_commas(cached), with_commas(all)),
        (Some(_), None) => "not known".to_owned(),
        (None, _) => String::new(),
    }
}

fn speed(from: &Value) -> String {
    let seconds = from["seconds_per_1000_tokens"].as_f64().map(figures);
    match (from["measured"].as_str(), seconds) {
        (Some("pool"), Some(seconds)) => format!("{seconds} s (its pool)"),
        (Some(_), Some(seconds)) => format!("{seconds} s"),
        (Some(_), None) => "not measured yet".to_owned(),
        (None, _) => String::new(),
    }
}

/// Three digits that say something, at most six decimals.
fn figures(value: f64) -> String {
    let mut decimals = 2;
    while decimals < 6 && value > 0.0 && value * 10_f64.powi(decimals - 2) < 1.0 {
        decimals += 1;
    }
    let decimals = if value >= 100.0 {
        0
    } else {
        decimals.unsigned_abs() as usize
    };
    let text = format!("{value:.decimals$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn with_commas(number: u64) -> String {
    grouped(&number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn part(seconds: f64, from: Value) -> Value {
        json!({"policy": "added_delay", "raw": 1.0, "seconds": seconds, "share": 0.5, "weighted": 0.5, "from": from})
    }

    fn explanation() -> Value {
        let from = |cached: u64, seconds: Value, measured: &str| {
            json!({
                "prompt_tokens": 2415, "cached_tokens": cached, "to_compute_tokens": 2415 - cached, "tokens_ahead": 12000,
                "waiting": 3, "running": 1, "seconds_per_1000_tokens": seconds, "measured": measured,
            })
        };
        let (here, there) = (
            part(0.041_26, from(2400, json!(1.08), "here")),
            part(2.6081, from(0, Value::Null, "not_yet")),
        );
        json!({
            "route": "qwen3", "route_by": "policy", "preset": "auto", "preset_implied": true, "candidates": 2, "live": 2,
            "order": 1, "target": "p", "endpoint": "a", "total": 0.9, "parts": [here],
            "runner_up": {"target": "p", "endpoint": "b", "total": 0.1, "parts": [there]},
            "explanation": [
                {"target": "p", "endpoint": "a", "chosen": true, "inflight": 4, "total": 0.9, "parts": [here]},
                {"target": "p", "endpoint": "b", "chosen": false, "inflight": 4, "total": 0.1, "parts": [there]},
                {"target": "p", "endpoint": "c", "chosen": false, "inflight": 0, "total": 0.0, "parts": [], "dropped": "capacity"},
            ],
        })
    }

    #[test]
    fn seconds_of_the_winner_and_of_the_next_are_said() {
        assert_eq!(
            sentences(&explanation()),
            "added_delay: 0.0413 s at p/a, 2.61 s at p/b\n"
        );
        let mut alone = explanation();
        alone["runner_up"] = Value::Null;
        assert_eq!(sentences(&alone), "added_delay: 0.0413 s at p/a\n");
        alone["parts"][0].as_object_mut().unwrap().remove("seconds");
        assert_eq!(sentences(&alone), "");
    }

    #[test]
    fn each_candidate_has_what_its_seconds_are_from() {
        let expect = "   CANDIDATE  POLICY       SECONDS   CACHED TOKENS  TO COMPUTE   AHEAD  WAITING  RUNNING  PER 1,000 TOKENS
*  p/a        added_delay   0.0413  2,400 of 2,415          15  12,000        3        1            1.08 s
   p/b        added_delay     2.61      0 of 2,415       2,415  12,000        3        1  not measured yet
";
        assert_eq!(table(&explanation()).unwrap().text(), expect);
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let shown = |from: Value| {
            let mut explanation = explanation();
            explanation["explanation"] =
                json!([{"target": "p", "endpoint": "a", "parts": [part(1.0, from)]}]);
            table(&explanation).unwrap().text()
        };
        let pool = json!({
            "prompt_tokens": null, "cached_tokens": 0, "seconds_per_1000_tokens": 0.5, "measured": "pool",
        });
        let text = shown(pool);
        assert!(
            text.contains("not known") && text.contains("0.5 s (its pool)"),
            "{text}"
        );
        let without = json!({"prompt_tokens": 7, "cached_tokens": 7, "tokens_ahead": 1_234_567});
        let text = shown(without);
        assert!(
            text.contains("7 of 7") && text.contains("1,234,567") && !text.contains("measured"),
            "{text}"
        );
        let mut plain = explanation();
        plain["explanation"] =
            json!([{"target": "p", "endpoint": "a", "parts": [{"policy": "least_inflight", "raw": 1.0}]}]);
        assert!(table(&plain).is_none(), "no policy says what it went by");
    }

    #[test]
    fn figures_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.000_512_3, "0.000512"),
            (0.0026, "0.0026"),
            (0.4999, "0.5"),
            (1.0, "1"),
            (12.345, "12.35"),
            (150.0, "150"),
            (1234.5, "1234"),
        ];
        for (value, text) in cases {
            assert_eq!(figures(value), text, "{value}");
        }
    }
}
