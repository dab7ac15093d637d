//! Tool calls. A simulated model never decides to call a tool; it calls one when the request says it must, with
//! arguments that fit the tool's schema.

use super::http::Fault;
use serde_json::{Map, Value, json};
use weighbridge_sim::text::{generate, mix};

/// Levels of nested schemas that get values.
const DEPTH_MAX: u32 = 6;

/// A call that the answer consists of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ToolCall {
    pub(super) name: String,
    /// JSON text.
    pub(super) arguments: String,
}

/// The call that `tool_choice` of either dialect demands, if it demands one.
pub(super) fn demanded(
    tools: Option<&Value>,
    choice: Option<&Value>,
    seed: u64,
) -> Result<Option<ToolCall>, Fault> {
    let Some(choice) = choice.filter(|choice| !choice.is_null()) else {
        return Ok(None);
    };
    let tools = tools
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let kind = choice
        .as_str()
        .or_else(|| choice["type"].as_str())
        .unwrap_or_default();
    let tool = match kind {
        "auto" | "none" => return Ok(None),
        "required" | "any" => tools
            .first()
            .ok_or_else(|| fault("tool_choice demands a tool, but tools is empty."))?,
        "function" | "tool" => {
            let wanted = choice["function"]["name"]
                .as_str()
                .or_else(|| choice["name"].as_str())
                .unwrap_or_default();
            let found = tools.iter().find(|tool| name(tool) == wanted);
            found.ok_or_else(|| fault(format!("tool_choice names {wanted:?}, which is not among tools.")))?
        }
        _ => {
            return Err(fault(format!(
                "tool_choice is {choice}, which is none of the known forms."
            )));
        }
    };
    let schema = [&tool["function"]["parameters"], &tool["input_schema"]]
        .into_iter()
        .find(|schema| !schema.is_null());
    let arguments = schema.map_or_else(|| json!({}), |schema| example(schema, (mix(seed), 0)));
    Ok(Some(ToolCall {
        name: name(tool).to_owned(),
        arguments: arguments.to_string(),
    }))
}

fn fault(message: impl Into<String>) -> Fault {
    Fault::bad_request(message).about("tool_choice")
}

fn name(tool: &Value) -> &str {
    tool["function"]["name"]
        .as_str()
        .or_else(|| tool["name"].as_str())
        .unwrap_or_default()
}

/// A value for a JSON schema: the required properties of objects, one item of arrays, a word for what has no type.
fn example(schema: &Value, (seed, depth): (u64, u32)) -> Value {
    let options = schema["enum"].as_array().filter(|options| !options.is_empty());
    if let Some(options) = options {
        return options[(seed % options.len() as u64) as usize].clone();
    }
    if let Some(constant) = schema.get("const") {
        return constant.clone();
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    let least = schema["minimum"].as_i64().unwrap_or(1);
    match kind {
        Some("object") if depth < DEPTH_MAX => object(schema, (seed, depth)),
        Some("object") => json!({}),
        Some("array") if depth < DEPTH_MAX => json!([example(&schema["items"], (mix(seed), depth + 1))]),
        Some("array") => json!([]),
        Some("integer") => json!(
            schema["maximum"]
                .as_i64()
                .unwrap_or(i64::MAX)
                .min(least.saturating_add((seed % 9) as i64))
        ),
        Some("number") => json!(
            schema["maximum"]
                .as_f64()
                .unwrap_or(f64::MAX)
                .min(least as f64 + (seed % 9) as f64)
        ),
        Some("boolean") => json!(seed & 1 == 1),
        Some("null") => Value::Null,
        _ => json!(generate(seed, 2).text),
    }
}

fn object(schema: &Value, (seed, depth): (u64, u32)) -> Value {
    let mut made = Map::new();
    let required = schema["required"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    for (index, property) in required.iter().filter_map(Value::as_str).enumerate() {
        let value = example(
            &schema["properties"][property],
            (mix(seed ^ index as u64), depth + 1),
        );
        made.insert(property.to_owned(), value);
    }
    Value::Object(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "city": {"type": "string"}, "days": {"type": "integer", "minimum": 3, "maximum": 4},
                "unit": {"enum": ["c", "f"]}, "tags": {"type": "array", "items": {"type": "boolean"}},
                "note": {"type": "string"},
            },
            "required": ["city", "days", "unit", "tags"],
        })
    }

    #[test]
    fn both_dialects_can_demand_a_tool() {
        let openai = json!([{"type": "function", "function": {"name": "a"}},
            {"type": "function", "function": {"name": "weather", "parameters": schema()}}]);
        let anthropic = json!([{"name": "a"}, {"name": "weather", "input_schema": schema()}]);
        let by_function = json!({"type": "function", "function": {"name": "weather"}});
        let by_name = json!({"type": "tool", "name": "weather"});
        let calls = [(&openai, &by_function), (&anthropic, &by_name)]
            .map(|(tools, choice)| demanded(Some(tools), Some(choice), 3).unwrap().unwrap());
        assert_eq!(calls[0], calls[1]);
        let arguments: Value = serde_json::from_str(&calls[0].arguments).unwrap();
        let keys: Vec<_> = arguments
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(keys, ["city", "days", "tags", "unit"]);
        assert!(arguments["city"].is_string() && arguments["tags"][0].is_boolean());
        assert!((3..=4).contains(&arguments["days"].as_i64().unwrap()));
        assert!(["c", "f"].contains(&arguments["unit"].as_str().unwrap()));
        for free in [json!("auto"), json!("none"), json!({"type": "auto"}), Value::Null] {
            assert_eq!(demanded(Some(&openai), Some(&free), 3).unwrap(), None);
        }
        assert_eq!(
            demanded(Some(&openai), Some(&json!("required")), 3)
                .unwrap()
                .unwrap()
                .arguments,
            "{}"
        );
    }

    #[test]
    fn a_demand_that_cannot_be_met_is_refused() {
        for choice in [
            json!("required"),
            json!({"type": "tool", "name": "x"}),
            json!("perhaps"),
            json!(3),
        ] {
            assert!(demanded(Some(&json!([])), Some(&choice), 0).is_err(), "{choice}");
        }
    }

    #[test]
    fn a_schema_without_bottom_ends() {
        let mut deep = json!({"type": "string"});
        for _ in 0..20 {
            deep = json!({"type": "array", "items": deep});
        }
        assert_eq!(example(&deep, (1, 0)).to_string().matches('[').count(), 7);
    }
}
