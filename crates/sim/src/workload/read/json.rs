//! Rows that are JSON objects: read straight into a struct; where that fails, looked at field by field to say why.

use super::Wrong;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What a field must hold.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A whole number of tokens.
    Tokens,
    /// A number from 0 on.
    Number,
    /// A list of whole numbers.
    Hashes,
    /// Text.
    Text,
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Tokens => value.as_u64().is_some_and(|n| n <= u64::from(u32::MAX)),
            Self::Number => value.as_f64().is_some_and(|n| n >= 0.0),
            Self::Hashes => value.as_array().is_some_and(|all| all.iter().all(Value::is_u64)),
            Self::Text => value.is_string(),
        }
    }

    const fn wanted(self) -> &'static str {
        match self {
            Self::Tokens => "a whole number of tokens below 2^32",
            Self::Number => "a number from 0 on",
            Self::Hashes => "a list of whole numbers from 0 on",
            Self::Text => "text",
        }
    }
}

/// Keys of the object in `line`; None where it is none.
pub(super) fn keys(line: &str) -> Option<Vec<String>> {
    let object: Map<String, Value> = serde_json::from_str(line).ok()?;
    Some(object.into_iter().map(|(key, _)| key).collect())
}

/// Reads `line`; where it cannot, says which of the `required` fields is why.
pub(super) fn parse<'a, T: Deserialize<'a>>(line: &'a str, required: &[(&str, Kind)]) -> Result<T, Wrong> {
    serde_json::from_str(line).map_err(|error| diagnose(line, required, &error))
}

fn diagnose(line: &str, required: &[(&str, Kind)], error: &serde_json::Error) -> Wrong {
    let object = match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(object)) => object,
        Ok(other) => return Wrong::new("a JSON object is wanted", other),
        Err(error) => return Wrong::new(format!("not JSON ({})", cause(&error)), line),
    };
    for (name, kind) in required {
        match object.get(*name) {
            None => return Wrong::new(format!("`{name}` is missing"), line),
            Some(value) if !kind.fits(value) => {
                return Wrong::new(format!("`{name}` must be {}", kind.wanted()), value);
            }
            Some(_) => {}
        }
    }
    Wrong::new(cause(error), line)
}

/// The parser's words without "at line 1", which is not the line of the file.
fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} at column {}", error.column()),
        None => text,
    }
}
