//! The peek agrees with a parser that builds the tree, on any JSON, and never panics on anything else.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use weighbridge_wire::{BodyPath, Peek, rewrite_model};

const PATHS: [&str; 4] = [
    "user",
    "metadata.user_id",
    "metadata.a.b",
    "stream_options.include_usage",
];

fn paths() -> Vec<BodyPath> {
    PATHS.iter().map(|path| BodyPath::parse(path).unwrap()).collect()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[ \\t]?[a-z\"\\\\\u{2028}é🙂]{0,5}[ \\n]?".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((key(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn key() -> impl Strategy<Value = String> {
    let ours = [
        "user",
        "metadata",
        "user_id",
        "a",
        "b",
        "stream_options",
        "include_usage",
        "max_tokens",
    ];
    prop_oneof![
        proptest::sample::select(ours.to_vec()).prop_map(str::to_owned),
        any::<String>()
    ]
}

/// A body with a fair chance of each field that matters, of the right type or not.
fn body() -> impl Strategy<Value = Map<String, Value>> {
    let fields = proptest::collection::vec((key(), any_json()), 0..8);
    let model =
        proptest::option::of(prop_oneof![8 => any::<String>().prop_map(Value::from), 1 => any_json()]);
    let stream = proptest::option::of(prop_oneof![8 => any::<bool>().prop_map(Value::from), 1 => any_json()]);
    (fields, model, stream).prop_map(|(fields, model, stream)| {
        let named = [("model", model), ("stream", stream)];
        let named = named
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        fields.into_iter().chain(named).collect()
    })
}

/// JSON text of the same value in which any character of a key or string may be escaped, with space between
/// tokens.
fn write(value: &Value, escape: bool, out: &mut String) {
    match value {
        Value::Object(fields) => {
            out.push_str("{ ");
            for (index, (key, value)) in fields.iter().enumerate() {
                out.push_str(if index == 0 { "" } else { " ,\n" });
                write_string(key, escape, out);
                out.push_str("\t: ");
                write(value, escape, out);
            }
            out.push_str(" }");
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { " " } else { ", " });
                write(item, escape, out);
            }
            out.push(']');
        }
        Value::String(text) => write_string(text, escape, out),
        other => out.push_str(&other.to_string()),
    }
}

fn write_string(text: &str, escape: bool, out: &mut String) {
    if !escape {
        out.push_str(&Value::from(text).to_string());
        return;
    }
    out.push('"');
    for unit in text.encode_utf16() {
        out.push_str(&format!("\\u{unit:04x}"));
    }
    out.push('"');
}

fn string_at(body: &Value, path: &str) -> Option<String> {
    let found = path
        .split('.')
        .try_fold(body, |value, key| value.as_object()?.get(key))?;
    Some(found.as_str()?.trim().to_owned()).filter(|found| !found.is_empty())
}

proptest! {
    #[test]
    fn it_agrees_with_a_tree(body in body(), escape in any::<bool>()) {
        let body = Value::Object(body);
        let mut text = String::new();
        write(&body, escape, &mut text);
        let fine = matches!(body.get("model"), None | Some(Value::String(_)))
            && matches!(body.get("stream"), None | Some(Value::Null | Value::Bool(_)));
        match Peek::new(text.as_bytes(), &paths()) {
            Ok(peek) => {
                prop_assert!(fine, "accepted {text}");
                prop_assert_eq!(peek.model.as_deref(), body["model"].as_str());
                prop_assert_eq!(peek.stream, body["stream"].as_bool().unwrap_or(false));
                prop_assert_eq!(peek.include_usage, body["stream_options"].get("include_usage").and_then(Value::as_bool));
                prop_assert_eq!(peek.max_tokens, body["max_tokens"].as_u64());
                for (found, path) in peek.found.iter().zip(PATHS) {
                    prop_assert_eq!(found, &string_at(&body, path));
                }
            }
            Err(error) => prop_assert!(!fine, "refused {text}: {error}"),
        }
    }

    #[test]
    fn only_the_model_changes(body in body(), escape in any::<bool>(), new in any::<String>()) {
        let mut body = Value::Object(body);
        body["model"] = body["model"].as_str().unwrap_or("m").into();
        body["stream"] = json!(true);
        let mut text = String::new();
        write(&body, escape, &mut text);
        let bytes = Bytes::from(text.clone());
        let peek = Peek::new(&bytes, &[]).unwrap();
        let token = peek.model_token().unwrap();
        let rewritten = rewrite_model(&bytes, &peek, &new);
        prop_assert!(rewritten.starts_with(&text.as_bytes()[..token.start]));
        prop_assert!(rewritten.ends_with(&text.as_bytes()[token.end..]));
        body["model"] = new.into();
        prop_assert_eq!(serde_json::from_slice::<Value>(&rewritten).unwrap(), body);
    }

    #[test]
    fn a_model_is_added_where_there_is_none(mut body in body(), new in any::<String>()) {
        body.remove("model");
        body.remove("stream");
        let mut body = Value::Object(body);
        let mut text = String::new();
        write(&body, false, &mut text);
        let bytes = Bytes::from(text);
        let peek = Peek::new(&bytes, &[]).unwrap();
        let rewritten = rewrite_model(&bytes, &peek, &new);
        body["model"] = new.into();
        prop_assert_eq!(serde_json::from_slice::<Value>(&rewritten).unwrap(), body);
    }

    #[test]
    fn it_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        // Whatever comes back, nothing panics; and what a parser refuses is refused.
        if Peek::new(&bytes, &paths()).is_ok() {
            prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok());
        }
    }

    #[test]
    fn broken_json_is_refused(body in body(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = String::new();
        write(&Value::Object(body), false, &mut text);
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let valid = std::str::from_utf8(&bytes).is_ok() && serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok();
        match Peek::new(&bytes, &paths()) {
            Ok(_) => prop_assert!(valid),
            Err(error) => {
                prop_assert!(error.line >= 1);
                prop_assert!(!valid || error.param().is_some() || !bytes.starts_with(b"{"), "refused valid JSON: {error}");
            }
        }
    }
}
