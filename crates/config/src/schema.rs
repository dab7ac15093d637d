//! The JSON schema of the config file, from the same declarations that read it.

use crate::model::File;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The JSON schema (draft 2020-12) of the config file, with descriptions, defaults and examples.
#[must_use]
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<File>().to_value();
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".to_owned(), json!("Weighbridge configuration"));
        let smallest =
            json!({"pools": [{"name": "qwen3", "endpoints": ["http://gpu1:8000", "http://gpu2:8000"]}]});
        root.insert("examples".to_owned(), json!([smallest]));
    }
    without_null(&mut schema);
    schema
}

/// Deepest nesting of sections that is walked.
const DEPTH_MAX: usize = 12;

/// The sections that have a key of this name, such as `server` or `pools[].timeouts`; empty for the root.
pub(crate) fn homes(key: &str) -> &'static [String] {
    static HOMES: OnceLock<BTreeMap<String, Vec<String>>> = OnceLock::new();
    let homes = HOMES.get_or_init(|| {
        let root = schema();
        let mut homes = BTreeMap::new();
        walk((&root, &root), "", DEPTH_MAX, &mut homes);
        homes
    });
    homes.get(key).map_or(&[], Vec::as_slice)
}

fn walk((root, part): (&Value, &Value), path: &str, depth: usize, homes: &mut BTreeMap<String, Vec<String>>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    if let Some(reference) = part["$ref"].as_str()
        && let Some(other) = root.pointer(reference.trim_start_matches('#'))
    {
        walk((root, other), path, depth, homes);
    }
    for choice in ["anyOf", "oneOf", "allOf"]
        .iter()
        .filter_map(|word| part[word].as_array())
        .flatten()
    {
        walk((root, choice), path, depth, homes);
    }
    if part["items"].is_object() {
        walk((root, &part["items"]), &format!("{path}[]"), depth, homes);
    }
    for (key, value) in part["properties"].as_object().into_iter().flatten() {
        let known = homes.entry(key.clone()).or_default();
        if !known.iter().any(|home| home == path) {
            known.push(path.to_owned());
        }
        let dot = if path.is_empty() { "" } else { "." };
        walk((root, value), &format!("{path}{dot}{key}"), depth, homes);
    }
}

/// Drops the `null` that optional fields of foreign types carry: the file never takes a key without a value.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(without_null),
        Value::Object(object) => {
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    object.insert("type".to_owned(), one);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice["type"] != "null");
                if let [Value::Object(one)] = choices.as_slice() {
                    let one = one.clone();
                    object.remove("anyOf");
                    object.extend(one);
                }
            }
            if object.get("default") == Some(&Value::Null) {
                object.remove("default");
            }
            object.values_mut().for_each(without_null);
        }
        _ => {}
    }
}

#[cfg(test)]
#[path = "../tests/loading/validate.rs"]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests are exempt; shared with the test files"
)]
mod validate;

#[cfg(test)]
mod tests {
    use super::{schema, validate};
    use crate::model::policies::json;
    use crate::read::Reader;
    use crate::yaml::{Tree, parse};
    use std::path::{Path, PathBuf};

    fn shipped(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let is_config = |path: &Path| {
                std::fs::read_to_string(path)
                    .unwrap()
                    .lines()
                    .any(|line| line.starts_with("pools:"))
            };
            if path.is_dir() {
                shipped(&path, found);
            } else if path
                .extension()
                .is_some_and(|ending| ending == "yaml" || ending == "yml")
                && is_config(&path)
            {
                found.push(path);
            }
        }
    }

    #[test]
    fn shipped_configs_fit_the_loader_and_the_schema() {
        let root = schema();
        let mut files = Vec::new();
        shipped(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples"),
            &mut files,
        );
        assert!(files.len() >= 3, "{files:?}");
        for path in files {
            if let Err(problems) = crate::load(&path, &|_| None) {
                panic!("{problems}");
            }
            let (tree, _) = parse("t.yaml", &std::fs::read_to_string(&path).unwrap());
            let mut reader = Reader::new(tree.unwrap(), "t.yaml", &|_| None);
            let document = json(&mut reader, Tree::ROOT).unwrap();
            assert_eq!(
                validate::faults(&root, &root, &document),
                Vec::<String>::new(),
                "{}",
                path.display()
            );
        }
    }
}
