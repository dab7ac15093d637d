//! The JSON schema of the config file, from the same declarations that read it.

use crate::model::File;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

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
