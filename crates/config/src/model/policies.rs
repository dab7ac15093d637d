//! `policies`: settings whose types belong to the scheduler's catalogue.
//!
//! The keys come from the schema of those types, so a policy that joins the catalogue is read, suggested, documented
//! and refused by the same code.

use crate::hints;
use crate::read::{FromNode, Keys, Reader};
use crate::yaml::{NodeId, Shape, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize as _;
use serde_json::Value as Json;
use std::borrow::Cow;
use weighbridge_core::policies::{NOT_YET, Policies, WEIGHT_MAX};

/// The policies of a route.
pub(crate) struct PolicySet(pub(crate) Policies);

impl FromNode for PolicySet {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let Value::Map(entries) = reader.tree.value(node) else {
            reader.unexpected(node, "a map of policies");
            let hint = instead_of_map(reader, node);
            reader.hint_last(hint);
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
                if let Some(hint) = hints::elsewhere("policies", name) {
                    reader.hint_last(hint);
                }
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
        let hint = match reader.tree.shape(node) {
            Shape::Number => format!("write `{name}: {{weight: {}}}`", reader.written(node)),
            _ => format!("write `{name}: {{}}` to use its defaults"),
        };
        reader.hint_last(hint);
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
        let all = values.len() == count;
        let whole = Json::Array(values);
        // What the entries are together, where each is good by itself.
        return (all && in_range(reader, node, key, &whole)).then_some(whole);
    }
    fits(reader, node, key, false)
}

/// Whether the policy takes the value of its setting, which is of the right kind; reports at its node where it does not.
fn in_range(reader: &mut Reader<'_>, node: NodeId, (name, key): (&str, &str), value: &Json) -> bool {
    let probe = serde_json::json!({ name: { key: value } });
    let Ok(policies) = Policies::deserialize(probe) else {
        return true;
    };
    let weight = policies.configs().next().map(|policy| policy.weight());
    let written = reader.written(node);
    let (message, hint) = match weight.filter(|_| key == "weight") {
        Some(weight) if !weight.is_finite() || weight <= 0.0 => (
            format!("the weight of a policy must be above 0, and this is {written}"),
            format!("remove `{name}` to switch it off"),
        ),
        Some(weight) if weight > WEIGHT_MAX => (
            format!("the weight of a policy is at most {WEIGHT_MAX}, and this is {written}"),
            "weights count by their ratios: give the others less".to_owned(),
        ),
        _ => {
            let Some(message) = policies.checks().find_map(|(_, checked)| checked.err()) else {
                return true;
            };
            // The path names the key already.
            let message = message.strip_prefix(&format!("{key}: ")).unwrap_or(&message);
            match message.split_once("; ") {
                Some((message, hint)) => (message.to_owned(), hint.to_owned()),
                None => (message.to_owned(), usual(name, key)),
            }
        }
    };
    reader.problem(node, message, hint);
    false
}

/// How to get the default of a setting.
fn usual(name: &str, key: &str) -> String {
    let usual = Policies::deserialize(serde_json::json!({ name: {} })).and_then(serde_json::to_value);
    match usual.as_ref().map(|usual| &usual[name][key]) {
        Ok(Json::Number(number)) => format!("leave `{key}` out for its default, {number}"),
        _ => format!("leave `{key}` out for its default"),
    }
}

/// What to write where `policies` is no map.
fn instead_of_map(reader: &Reader<'_>, node: NodeId) -> String {
    let written = reader.written(node);
    let names: Vec<String> = match reader.tree.value(node) {
        Value::List(items) => (items.iter())
            .map(|item| reader.written(*item))
            .filter(|name| Policies::NAMES.contains(&name.as_str()))
            .collect(),
        _ => match hints::elsewhere("policies", &written) {
            Some(hint) => return hint,
            None => vec![written],
        },
    };
    let names = names
        .iter()
        .filter(|name| Policies::NAMES.contains(&name.as_str()));
    let mut each: Vec<String> = names.map(|name| format!("{name}: {{}}")).collect();
    if each.is_empty() {
        each.push("least_inflight: {}".to_owned());
    }
    format!(
        "write a map of names and settings: `policies: {{{}}}`",
        each.join(", ")
    )
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
            "string or map" | "map with a single key" if key == "keys" => KEY_SOURCES.to_owned(),
            other => other.to_owned(),
        });
        let hint = wanted
            .map(|wanted| format!("expected {wanted}"))
            .unwrap_or_default();
        reader.problem(node, format!("{shown} does not fit `{key}`"), hint);
        return None;
    }
    let written = if in_list {
        Json::Array(vec![value.clone()])
    } else {
        value.clone()
    };
    in_range(reader, node, (name, key), &written).then_some(value)
}

/// What an entry of the keys of sessions may be.
const KEY_SOURCES: &str = "one of `{header: x-session-id}`, `{cookie: session}`, `{body: user}`, `{prompt_head: 16KiB}`, \
                           `client_ip`, `api_key`";

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
