//! `docs/policies.md` is what the catalogue of policies says of itself.
//!
//! `WEIGHBRIDGE_BLESS=1 cargo test -p weighbridge-config --test policies` writes it anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests are exempt")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use weighbridge_config::schema;
use weighbridge_core::filters::Filters;
use weighbridge_core::policies::{Guide, Policies};

const BEGIN: &str = "<!-- catalogue: begin -->\n";
const END: &str = "<!-- catalogue: end -->";

/// A part of the catalogue: its heading, the key of a route that it stands under, and its entries.
const PARTS: &[(&str, &str, &[Guide])] = &[
    ("Scorers", "policies", Policies::GUIDES),
    ("Filters", "filters", Filters::GUIDES),
];

/// What a reference, or the one choice that is a map, stands for.
fn resolved<'a>(root: &'a Value, part: &'a Value) -> &'a Value {
    if let Some(reference) = part["$ref"].as_str() {
        return resolved(root, root.pointer(reference.trim_start_matches('#')).unwrap());
    }
    let choices = part["anyOf"].as_array().or(part["oneOf"].as_array());
    let map = |choice: &&Value| {
        let choice = resolved(root, choice);
        choice.get("properties").is_some() || choice.get("items").is_some()
    };
    choices
        .and_then(|choices| choices.iter().find(map))
        .map_or(part, |choice| resolved(root, choice))
}

/// The section of a route under this key.
fn section<'a>(root: &'a Value, key: &str) -> &'a Value {
    let routes = resolved(root, &root["properties"]["routes"]);
    let route = resolved(root, &routes["items"]);
    resolved(root, &route["properties"][key])
}

/// A setting's default in words.
fn default(value: &Value) -> String {
    match &value["default"] {
        Value::Null => "none".to_owned(),
        Value::String(text) => format!("`{text}`"),
        // A default of 1.0 is written as 1.
        Value::Number(number) if number.as_f64().unwrap().fract() == 0.0 => {
            format!("`{}`", number.as_f64().unwrap())
        }
        other => format!("`{other}`"),
    }
}

/// One entry: its heading, what it does, its settings.
fn entry(root: &Value, key: &str, guide: &Guide) -> String {
    let Guide { name, summary, text } = guide;
    let mut page = format!("### `{name}`\n\n{}\n\n{}\n", summary.trim(), text.trim());
    let settings = resolved(root, &section(root, key)["properties"][name]);
    let Some(settings) = settings["properties"].as_object().filter(|map| !map.is_empty()) else {
        return page + "\n";
    };
    page.push_str("\n| setting | default | meaning |\n|---|---|---|\n");
    for (setting, value) in settings {
        let says = value["description"].as_str().unwrap_or_default();
        let says = says.replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(page, "| `{setting}` | {} | {says} |", default(value));
    }
    page + "\n"
}

fn catalogue() -> String {
    let root = schema();
    let mut page = String::new();
    for (heading, key, guides) in PARTS {
        let _ = write!(page, "\n## {heading}\n\n| `{key}` | |\n|---|---|\n");
        for guide in *guides {
            let _ = writeln!(page, "| [`{0}`](#{0}) | {1} |", guide.name, guide.summary.trim());
        }
        page.push('\n');
        for guide in *guides {
            page.push_str(&entry(&root, key, guide));
        }
    }
    page.push_str("## Pickers\n\n| `picker` | wins |\n|---|---|\n");
    for (word, says) in pickers(&root) {
        let _ = writeln!(page, "| `{word}` | {says} |");
    }
    page.push('\n');
    page
}

/// The words of `picker`, each with what it means.
fn pickers(root: &Value) -> Vec<(String, String)> {
    let routes = resolved(root, &root["properties"]["routes"]);
    let route = resolved(root, &routes["items"]);
    let mut open = vec![&route["properties"]["picker"]];
    let mut words = Vec::new();
    while let Some(part) = open.pop() {
        if let Some(reference) = part["$ref"].as_str() {
            open.push(root.pointer(reference.trim_start_matches('#')).unwrap());
        }
        let choices = part["anyOf"].as_array().or(part["oneOf"].as_array());
        open.extend(choices.into_iter().flatten().rev());
        if let (Some(word), Some(says)) = (part["const"].as_str(), part["description"].as_str()) {
            words.push((word.to_owned(), says.replace('\n', " ")));
        }
    }
    words
}

#[test]
fn the_page_is_that_of_the_catalogue() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies.md");
    let page = std::fs::read_to_string(path).unwrap();
    let begin = page.find(BEGIN).unwrap() + BEGIN.len();
    let end = page.find(END).unwrap();
    let wanted = catalogue();
    if std::env::var_os("WEIGHBRIDGE_BLESS").is_some() {
        std::fs::write(path, format!("{}{wanted}{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    assert!(
        page[begin..end] == wanted,
        "docs/policies.md is not what the catalogue says; write it anew with WEIGHBRIDGE_BLESS=1"
    );
}

#[test]
fn every_picker_is_told_of() {
    let words: Vec<_> = pickers(&schema()).into_iter().map(|(word, _)| word).collect();
    assert_eq!(words, ["max", "power_of_two", "weighted_random"]);
}

#[test]
fn every_entry_teaches() {
    for (heading, key, guides) in PARTS {
        let names: BTreeSet<_> = guides.iter().map(|guide| guide.name).collect();
        assert_eq!(names.len(), guides.len(), "{heading}");
        for Guide { name, summary, text } in *guides {
            assert!(summary.trim().ends_with('.'), "{name}: {summary}");
            for word in ["**Right**", "**Wrong**", "Example"] {
                assert!(text.contains(word), "{key}.{name} does not say {word}");
            }
            assert!(
                text.lines().all(|line| !line.starts_with('#')),
                "{name}: headings are the page's"
            );
        }
    }
}
