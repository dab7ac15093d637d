//! The schema and the loader take the same keys, in both directions, and the shipped configs fit both.

use crate::validate::{faults, resolve};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use weighbridge_config::{Problem, load_str, schema};

/// One step from a schema to a part of it.
#[derive(Clone, Debug)]
enum Step {
    Key(String),
    Item,
}

/// Follows references and picks the choice that has keys, if one has.
fn settled<'a>(root: &'a Value, part: &'a Value) -> &'a Value {
    if let Some(reference) = part.get("$ref") {
        return settled(root, resolve(root, reference));
    }
    // Choices of a map with keys are about which of them are given.
    if part.get("properties").is_some() {
        return part;
    }
    let choices = ["anyOf", "oneOf"]
        .iter()
        .find_map(|key| part.get(key))
        .and_then(Value::as_array);
    let branches = choices.into_iter().flatten().map(|choice| settled(root, choice));
    let branches: Vec<_> = branches
        .filter(|choice| choice.get("properties").is_some() || choice.get("items").is_some())
        .collect();
    // Several maps to choose from are the forms of one value, which have a test of their own.
    if let [one] = branches.as_slice() {
        one
    } else {
        part
    }
}

/// Every object of the schema: the way to it and its keys.
fn objects(root: &Value) -> Vec<(Vec<Step>, BTreeSet<String>)> {
    let mut found = Vec::new();
    let mut open = vec![(Vec::new(), root)];
    while let Some((path, part)) = open.pop() {
        let part = settled(root, part);
        if let Some(items) = part.get("items") {
            open.push(([path.as_slice(), &[Step::Item]].concat(), items));
        }
        if let Some(properties) = part.get("properties").and_then(Value::as_object) {
            for (key, part) in properties {
                open.push(([path.as_slice(), &[Step::Key(key.clone())]].concat(), part));
            }
            found.push((path, properties.keys().cloned().collect()));
        }
    }
    found
}

/// A value that fits a part of the schema.
fn sample(root: &Value, part: &Value) -> Value {
    if let Some(reference) = part.get("$ref") {
        return sample(root, resolve(root, reference));
    }
    let example = part.get("examples").and_then(|examples| examples.get(0));
    if let Some(value) = part.get("const").or(part.get("default")).or(example) {
        return value.clone();
    }
    if let Some(value) = part.get("enum") {
        return value[0].clone();
    }
    if part.get("properties").is_some() {
        return Value::Object(required(root, part));
    }
    if let Some(choices) = part.get("anyOf").or(part.get("oneOf")).and_then(Value::as_array) {
        return sample(root, &choices[0]);
    }
    let name = part["type"].as_str().or(part["type"][0].as_str());
    match name {
        Some("string") => json!("x"),
        Some("integer" | "number") => part.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(true),
        Some("array") => json!([sample(root, &part["items"])]),
        Some("object") => Value::Object(required(root, part)),
        other => panic!("no sample of {other:?}: {part}"),
    }
}

/// Of keys that exclude each other, the first.
fn required(root: &Value, part: &Value) -> Map<String, Value> {
    let either = part.pointer("/oneOf/0/required");
    let names = [part.get("required"), either]
        .into_iter()
        .flatten()
        .filter_map(Value::as_array)
        .flatten()
        .filter_map(Value::as_str);
    names
        .map(|name| (name.to_owned(), sample(root, &part["properties"][name])))
        .collect()
}

/// The smallest document in which `leaf` stands at the end of `path`, beside what is required on the way.
fn document(root: &Value, part: &Value, path: &[Step], leaf: &dyn Fn(Value) -> Value) -> Value {
    let part = settled(root, part);
    match path.split_first() {
        None => leaf(sample_object(root, part)),
        Some((Step::Item, rest)) => json!([document(root, &part["items"], rest, leaf)]),
        Some((Step::Key(key), rest)) => {
            let mut object = required(root, part);
            let excludes = |either: &Value| either["required"][0] != **key;
            let either = part["oneOf"]
                .as_array()
                .filter(|either| !either.iter().all(excludes));
            for other in either.into_iter().flatten().filter(|other| excludes(other)) {
                object.remove(other["required"][0].as_str().unwrap_or_default());
            }
            object.insert(key.clone(), document(root, &part["properties"][key], rest, leaf));
            Value::Object(object)
        }
    }
}

fn sample_object(root: &Value, part: &Value) -> Value {
    if part.get("properties").is_some() {
        Value::Object(required(root, part))
    } else {
        sample(root, part)
    }
}

fn problems(document: &Value) -> Vec<Problem> {
    match load_str("t.yaml", &document.to_string(), &|_| Some("set".to_owned())) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().cloned().collect(),
    }
}

#[test]
fn the_loader_takes_every_key_of_the_schema() {
    let root = schema();
    let mut tried = 0;
    for (path, keys) in objects(&root) {
        for key in keys {
            let path = [path.as_slice(), &[Step::Key(key.clone())]].concat();
            let document = document(&root, &root, &path, &|value| value);
            assert_eq!(
                faults(&root, &root, &document),
                Vec::<String>::new(),
                "{document}"
            );
            for problem in problems(&document) {
                let refused = [
                    "unknown",
                    "not supported",
                    "expected here",
                    "does not fit",
                    "is not a",
                ];
                assert!(
                    !refused.iter().any(|word| problem.message.contains(word)),
                    "{key} in {document}: {problem}"
                );
            }
            tried += 1;
        }
    }
    assert!(tried > 90, "{tried} keys");
}

#[test]
fn the_schema_has_every_key_of_the_loader() {
    let root = schema();
    let mut levels = 0;
    for (path, keys) in objects(&root) {
        let document = document(&root, &root, &path, &|mut value| {
            value["zzzz"] = json!(1);
            value
        });
        assert_ne!(
            faults(&root, &root, &document),
            Vec::<String>::new(),
            "{document}"
        );
        let problems = problems(&document);
        let told = problems
            .iter()
            .find(|problem| problem.message.ends_with("`zzzz`"))
            .unwrap_or_else(|| panic!("{document} {problems:?}"));
        let known = told
            .hint
            .as_deref()
            .and_then(|hint| hint.split_once("known: "))
            .map(|(_, list)| list.split(", ").map(str::to_owned).collect::<BTreeSet<_>>());
        assert_eq!(known, Some(keys), "{document}");
        levels += 1;
    }
    assert!(levels >= 20, "{levels} objects");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unknown_keys_are_refused_by_both(level in any::<prop::sample::Index>(), key in "[a-z_]{1,12}") {
        let root = schema();
        let objects = objects(&root);
        let (path, keys) = level.get(&objects);
        prop_assume!(!keys.contains(&key));
        let document = document(&root, &root, path, &|mut value| {
            value[&key] = json!(1);
            value
        });
        prop_assert!(!faults(&root, &root, &document).is_empty());
        let refused = |problem: &Problem| problem.message.ends_with(&format!("`{key}`")) || problem.message == format!("`{key}` is not supported yet");
        prop_assert!(problems(&document).iter().any(refused), "{}", document);
    }
}

#[test]
fn forms_of_a_session_key_are_the_same_in_both() {
    let root = schema();
    let with = |source: Value| {
        json!({
            "pools": [{"name": "x", "endpoints": ["http://h:1"]}],
            "routes": [{"name": "x", "targets": ["x"], "policies": {"session_affinity": {"bound": 2.0, "keys": [source]}}}],
        })
    };
    for good in [
        json!({"header": "a"}),
        json!({"cookie": "a"}),
        json!({"body": "a.b"}),
        json!("client_ip"),
        json!("api_key"),
        json!({"prompt_head": "32KiB"}),
    ] {
        let document = with(good);
        assert_eq!(
            (faults(&root, &root, &document), problems(&document)),
            (vec![], vec![]),
            "{document}"
        );
    }
    for bad in [
        json!({"heder": "a"}),
        json!({"header": "a", "cookie": "b"}),
        json!({"header": 1}),
        json!({"prompt_head": 4096}),
        json!("prompt_head"),
        json!("header"),
        json!({}),
        json!(null),
        json!(1),
    ] {
        let document = with(bad);
        assert!(
            !faults(&root, &root, &document).is_empty() && !problems(&document).is_empty(),
            "{document}"
        );
    }
}

#[test]
fn the_full_example_uses_every_key() {
    let root = schema();
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/full.yaml")).unwrap();
    for (_, keys) in objects(&root) {
        for key in keys {
            assert!(text.contains(&key), "{key}");
        }
    }
}

/// The defaults that the schema tells are those that the loader fills in: writing each out changes nothing.
#[test]
fn defaults_are_what_the_schema_says() {
    let root = schema();
    let base = |document: &Value| {
        let mut document = document.clone();
        // A fallback needs another route to go to.
        if let Some(step) = document.pointer_mut("/routes/0/fallback/0/route") {
            *step = json!("y");
            document["pools"] = json!([{"name": "x", "endpoints": ["http://h:1"]}, {"name": "y", "endpoints": ["http://h:2"]}]);
        }
        match load_str("t.yaml", &document.to_string(), &|_| None) {
            Ok(loaded) => weighbridge_config::masked(&loaded.config),
            Err(problems) => panic!("{problems} in {document}"),
        }
    };
    let mut tried = 0;
    for (path, keys) in objects(&root) {
        for key in keys {
            let mut part = settled(&root, &root);
            for step in &path {
                part = settled(
                    &root,
                    match step {
                        Step::Item => &part["items"],
                        Step::Key(key) => &part["properties"][key],
                    },
                );
            }
            let Some(default) = part["properties"][&key].get("default").cloned() else {
                continue;
            };
            let without = document(&root, &root, &path, &|value| value);
            let with = document(&root, &root, &path, &|mut value| {
                value[&key] = default.clone();
                value
            });
            assert_eq!(base(&with), base(&without), "{key} in {with}");
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried} defaults");
}

#[test]
fn the_schema_is_of_draft_2020_12_and_says_something_of_every_key() {
    let root = schema();
    assert_eq!(root["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for (path, keys) in objects(&root) {
        let mut part = settled(&root, &root);
        for step in &path {
            part = settled(
                &root,
                match step {
                    Step::Item => &part["items"],
                    Step::Key(key) => &part["properties"][key],
                },
            );
        }
        for key in keys {
            let says = part["properties"][&key]["description"]
                .as_str()
                .unwrap_or_default();
            assert!(says.len() > 5, "{path:?} {key}");
        }
    }
}
