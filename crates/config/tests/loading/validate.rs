//! A small checker for the part of JSON Schema that the config's schema uses; anything else in a schema is a panic, so
//! the checker cannot fall behind.

use serde_json::{Map, Value, json};

/// Keywords that say nothing about validity.
const NOTES: &[&str] = &[
    "$schema",
    "$defs",
    "title",
    "description",
    "default",
    "examples",
    "format",
];

/// What is wrong with `value` by `schema`, a part of the whole schema `root`; empty if nothing.
pub(crate) fn faults(root: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if schema == &json!(true) {
        return found;
    }
    let Value::Object(schema) = schema else {
        return vec![format!("{value} is not allowed")];
    };
    for (keyword, wanted) in schema {
        match keyword.as_str() {
            name if NOTES.contains(&name) => {}
            "$ref" => found.extend(faults(root, resolve(root, wanted), value)),
            "anyOf" | "oneOf" => {
                let good = wanted
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|choice| faults(root, choice, value).is_empty())
                    .count();
                if good == 0 || (keyword == "oneOf" && good > 1) {
                    found.push(format!("{value} fits {good} of {keyword}"));
                }
            }
            "properties" | "required" | "additionalProperties" => found.extend(object(root, schema, value)),
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    found.extend(faults(root, wanted, item));
                }
            }
            _ => found.extend(scalar(keyword, wanted, value)),
        }
    }
    found
}

/// The schema that a reference points to.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &Value) -> &'a Value {
    root.pointer(reference.as_str().unwrap().trim_start_matches('#'))
        .unwrap()
}

fn scalar(keyword: &str, wanted: &Value, value: &Value) -> Option<String> {
    let number = |value: &Value| value.as_f64();
    let good = match keyword {
        "type" => types(wanted).iter().any(|name| is(value, name)),
        "const" => wanted == value,
        "enum" => wanted.as_array().unwrap().contains(value),
        "minimum" => number(value).is_none_or(|value| value >= number(wanted).unwrap()),
        "maximum" => number(value).is_none_or(|value| value <= number(wanted).unwrap()),
        "minLength" => value
            .as_str()
            .is_none_or(|text| text.chars().count() as u64 >= wanted.as_u64().unwrap()),
        "maxLength" => value
            .as_str()
            .is_none_or(|text| text.chars().count() as u64 <= wanted.as_u64().unwrap()),
        "pattern" => {
            let pattern = regex_lite::Regex::new(wanted.as_str().unwrap()).unwrap();
            value.as_str().is_none_or(|text| pattern.is_match(text))
        }
        other => panic!("the checker does not know `{other}`"),
    };
    (!good).then(|| format!("{value} breaks {keyword} {wanted}"))
}

fn types(wanted: &Value) -> Vec<&str> {
    match wanted {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        name => name.as_str().into_iter().collect(),
    }
}

fn is(value: &Value, name: &str) -> bool {
    match name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("no type `{other}`"),
    }
}

fn object(root: &Value, schema: &Map<String, Value>, value: &Value) -> Vec<String> {
    let Value::Object(entries) = value else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let properties = schema.get("properties").and_then(Value::as_object);
    for required in schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if !entries.contains_key(required.as_str().unwrap()) {
            found.push(format!("{required} is missing"));
        }
    }
    for (key, value) in entries {
        match (
            properties.and_then(|known| known.get(key)),
            schema.get("additionalProperties"),
        ) {
            (Some(known), _) => found.extend(faults(root, known, value)),
            (None, Some(other)) => found.extend(
                faults(root, other, value)
                    .into_iter()
                    .map(|fault| format!("{key}: {fault}")),
            ),
            (None, None) => {}
        }
    }
    found
}
