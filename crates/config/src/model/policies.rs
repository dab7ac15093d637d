//! `policies`: settings whose types belong to the scheduler's catalogue.
//!
//! The keys come from the schema of those types, so a policy that joins the catalogue is read, suggested, documented
//! and refused by the same code.

use crate::read::{FromNode, Keys, Reader};
use crate::yaml::{NodeId, Shape, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize as _;
use serde_json::Value as Json;
use std::borrow::Cow;
use weighbridge_core::policies::{NOT_YET, Policies};

/// The policies of a route.
pub(crate) struct PolicySet(pub(crate) Policies);

impl FromNode for PolicySet {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let Value::Map(entries) = reader.tree.value(node) else {
            reader.unexpected(node, "a map of policies");
            return None;
        };
        let entries = entries.clone();
        let schema = schema_of_policies();
        let mut good = serde_json::Map::new();
        let mut sound = true;
        for entry in entries {
            let name = entry.key.as_str();
            if !Policies::NAMES.contains(&name) {
                reader.unknown_key(
                    &entry,
                    "policy",
                    &Keys {
                        known: Policies::NAMES,
                        required: &[],
                        either: &[],
                        later: NOT_YET,
                    },
                );
            } else if let Some(settings) = policy(reader, entry.value, name, &schema) {
                good.insert(entry.key, settings);
                continue;
            }
            sound = false;
        }
        let policies = Policies::deserialize(Json::Object(good)).ok()?;
        sound.then_some(Self(policies))
    }
}

/// Reads the settings of one policy key by key, so that each problem has its own place.
fn policy(reader: &mut Reader<'_>, node: NodeId, name: &str, schema: &Json) -> Option<Json> {
    if reader.tree.shape(node) == Shape::Nothing {
        reader.problem(
            node,
            "a policy needs a map of settings, but nothing is given",
            format!("write `{name}: {{}}` to use its defaults"),
        );
        return None;
    }
    let Value::Map(entries) = reader.tree.value(node) else {
        reader.unexpected(node, "a map of settings");
        return None;
    };
    let entries = entries.clone();
    let known = keys_of(schema, name);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let mut settings = serde_json::Map::new();
    let mut sound = true;
    for entry in entries {
        if !known.contains(&entry.key.as_str()) {
            reader.unknown_key(
                &entry,
                "key",
                &Keys {
                    known: &known,
                    required: &[],
                    either: &[],
                    later: &[],
                },
            );
            sound = false;
        } else if let Some(value) = setting(reader, entry.value, (name, &entry.key)) {
            settings.insert(entry.key, value);
        } else {
            sound = false;
        }
    }
    sound.then_some(Json::Object(settings))
}

/// Reads one setting; where it is a list, entry by entry.
fn setting(reader: &mut Reader<'_>, node: NodeId, key: (&str, &str)) -> Option<Json> {
    if let Value::List(items) = reader.tree.value(node) {
        let items = items.clone();
        let count = items.len();
        let values: Vec<Json> = items
            .into_iter()
            .filter_map(|item| fits(reader, item, key, true))
            .collect();
        return (values.len() == count).then_some(Json::Array(values));
    }
    fits(reader, node, key, false)
}

/// The value of a node if the policy takes it for its setting, alone or as one entry of the setting's list.
fn fits(reader: &mut Reader<'_>, node: NodeId, (name, key): (&str, &str), in_list: bool) -> Option<Json> {
    let value = json(reader, node)?;
    let setting = if in_list {
        Json::Array(vec![value.clone()])
    } else {
        value.clone()
    };
    let probe = serde_json::json!({ name: { key: setting } });
    if let Err(error) = Policies::deserialize(probe) {
        let shown = match reader.tree.value(node) {
            Value::Scalar { .. } => format!("`{}`", reader.written(node)),
            _ => "this".to_owned(),
        };
        // The library quotes the value that it met, which may have come from a variable.
        let message = error.to_string();
        let wanted = message.split_once("expected ").map(|(_, wanted)| match wanted {
            "f64" | "f32" => "a number".to_owned(),
            "u16" | "u32" | "u64" | "usize" => "a whole number".to_owned(),
            other => other.to_owned(),
        });
        let hint = wanted
            .map(|wanted| format!("expected {wanted}"))
            .unwrap_or_default();
        reader.problem(node, format!("{shown} does not fit `{key}`"), hint);
        return None;
    }
    Some(value)
}

/// The value of a node with its variables replaced.
pub(crate) fn json(reader: &mut Reader<'_>, node: NodeId) -> Option<Json> {
    match reader.tree.value(node).clone() {
        Value::List(items) => items
            .into_iter()
            .map(|item| json(reader, item))
            .collect::<Option<_>>()
            .map(Json::Array),
        Value::Map(entries) => {
            let pairs = entries
                .into_iter()
                .map(|entry| Some((entry.key, json(reader, entry.value)?)));
            pairs.collect::<Option<_>>().map(Json::Object)
        }
        Value::Scalar { text, .. } => match reader.tree.shape(node) {
            Shape::Nothing => {
                reader.unexpected(node, "a value");
                None
            }
            Shape::Flag => Some(Json::Bool(text.eq_ignore_ascii_case("true"))),
            Shape::Number => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => text
                    .parse::<i64>()
                    .map(Json::from)
                    .ok()
                    .or_else(|| Some(Json::from(number))),
                _ => {
                    reader.problem(node, format!("`{text}` is not a finite number"), "");
                    None
                }
            },
            _ => reader.scalar(node)?.map(|done| Json::String(done.text)),
        },
    }
}

fn schema_of_policies() -> Json {
    schemars::schema_for!(Policies).to_value()
}

/// The keys of a policy's settings.
fn keys_of(schema: &Json, name: &str) -> Vec<String> {
    let mut found = &schema["properties"][name];
    if let Some(choices) = found["anyOf"].as_array() {
        found = choices
            .iter()
            .find(|choice| choice["type"] != "null")
            .unwrap_or(found);
    }
    if let Some(reference) = found["$ref"].as_str() {
        found = schema.pointer(reference.trim_start_matches('#')).unwrap_or(found);
    }
    found["properties"]
        .as_object()
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default()
}

impl JsonSchema for PolicySet {
    fn schema_name() -> Cow<'static, str> {
        "Policies".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Policies::json_schema(generator)
    }
}
