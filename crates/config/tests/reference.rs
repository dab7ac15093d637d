//! The tables of `docs/configuration.md` are those that the schema gives.
//!
//! `WEIGHBRIDGE_BLESS=1 cargo test -p weighbridge-config --test reference` writes them anew.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "tests are exempt"
)]

use serde_json::Value;
use std::fmt::Write as _;
use weighbridge_config::schema;

const BEGIN: &str = "<!-- reference: begin -->\n";
const END: &str = "<!-- reference: end -->";

/// Follows a reference.
fn resolved<'a>(root: &'a Value, part: &'a Value) -> &'a Value {
    match part.get("$ref").and_then(Value::as_str) {
        Some(reference) => root.pointer(reference.trim_start_matches('#')).unwrap(),
        None => part,
    }
}

fn choices(part: &Value) -> Option<&Vec<Value>> {
    part.get("anyOf").or(part.get("oneOf")).and_then(Value::as_array)
}

/// What a value may be, in words.
fn kind(root: &Value, part: &Value) -> String {
    let part = resolved(root, part);
    if let Some(title) = part["title"].as_str() {
        return title.to_owned();
    }
    if let Some(value) = part.get("const") {
        return format!("`{}`", value.as_str().map_or(value.to_string(), str::to_owned));
    }
    if let Some(words) = part.get("enum").and_then(Value::as_array) {
        return words
            .iter()
            .map(|word| format!("`{}`", word.as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(", ");
    }
    if part.get("properties").is_some() {
        return "map".to_owned();
    }
    if let Some(choices) = choices(part) {
        let mut kinds: Vec<String> = choices.iter().map(|choice| kind(root, choice)).collect();
        kinds.dedup();
        let words = kinds.iter().all(|kind| kind.starts_with('`'));
        return kinds.join(if words { ", " } else { " or " });
    }
    let name = part["type"].as_str().or(part["type"][0].as_str()).unwrap();
    let range = match (&part["minimum"], &part["maximum"]) {
        (Value::Null, _) | (_, Value::Null) => String::new(),
        (min, max) => format!(", {} to {}", min.as_f64().unwrap(), max.as_f64().unwrap()),
    };
    match name {
        "string" => "text".to_owned(),
        "boolean" => "`true`, `false`".to_owned(),
        "integer" => format!("whole number{range}"),
        "number" => format!("number{range}"),
        "array" => format!("list of {}", kind(root, &part["items"])),
        "object" => "map".to_owned(),
        other => panic!("no words for {other}"),
    }
}

/// The meaning of words, where a choice has any.
fn words(part: &Value) -> String {
    let mut text = String::new();
    for choice in choices(part).into_iter().flatten() {
        if let (Some(word), Some(says)) = (choice["const"].as_str(), choice["description"].as_str()) {
            let _ = write!(text, "<br>`{word}`: {says}");
        }
    }
    text
}

fn tables(root: &Value) -> String {
    let mut text = String::new();
    let mut open = vec![("the file".to_owned(), root)];
    while let Some((path, part)) = open.pop() {
        let part = resolved(root, part);
        let mut below = Vec::new();
        if let Some(properties) = part.get("properties").and_then(Value::as_object) {
            let about = part["description"]
                .as_str()
                .unwrap_or_default()
                .replace('\n', " ");
            let heading = if path == "the file" {
                path.clone()
            } else {
                format!("`{path}`")
            };
            let _ = write!(
                text,
                "### {heading}\n\n{about}\n\n| key | value | default | meaning |\n|---|---|---|---|\n"
            );
            let required = |key: &String| {
                part["required"]
                    .as_array()
                    .is_some_and(|names| names.iter().any(|name| name == key.as_str()))
            };
            for (key, value) in properties {
                let default = match value.get("default") {
                    Some(Value::String(default)) => format!("`{default}`"),
                    Some(default @ Value::Array(list)) => {
                        if list.is_empty() {
                            "none".to_owned()
                        } else {
                            format!("`{default}`")
                        }
                    }
                    Some(default) => format!("`{default}`"),
                    None if required(key) => "**required**".to_owned(),
                    None => String::new(),
                };
                let says = value["description"]
                    .as_str()
                    .unwrap_or_default()
                    .replace('\n', " ")
                    .replace('|', "\\|");
                let _ = writeln!(
                    text,
                    "| `{key}` | {} | {default} | {says}{} |",
                    kind(root, value),
                    words(value)
                );
                let path = if path == "the file" {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                below.push((path, value));
            }
            text.push('\n');
        } else if let Some(items) = part.get("items") {
            below.push((format!("{path}[]"), items));
        } else {
            below.extend(
                choices(part)
                    .into_iter()
                    .flatten()
                    .filter(|choice| choice.get("$ref").is_some() || choice.get("items").is_some())
                    .map(|choice| (path.clone(), choice)),
            );
        }
        open.extend(below.into_iter().rev());
    }
    text
}

#[test]
fn the_reference_is_that_of_the_schema() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(path).unwrap();
    let begin = page.find(BEGIN).unwrap() + BEGIN.len();
    let end = page.find(END).unwrap();
    let wanted = format!("\n{}", tables(&schema()));
    if std::env::var_os("WEIGHBRIDGE_BLESS").is_some() {
        std::fs::write(path, format!("{}{wanted}{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    assert!(
        page[begin..end] == wanted,
        "docs/configuration.md is not what the schema says; write it anew with WEIGHBRIDGE_BLESS=1"
    );
}
