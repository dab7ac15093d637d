//! Writes JSON objects with the keys in the order given, as engines do, and with raw values where a test needs
//! what a JSON library refuses (`NaN`) or rounds.

use std::fmt::Write as _;

/// A JSON string with quotes and escapes.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

/// A JSON array of values that are JSON already.
pub(crate) fn array<I: IntoIterator<Item = String>>(items: I) -> String {
    let items: Vec<String> = items.into_iter().collect();
    format!("[{}]", items.join(","))
}

/// Builds one object, key by key.
#[derive(Clone)]
pub(crate) struct Obj(String);

impl Obj {
    pub(crate) fn new() -> Obj {
        Obj("{".to_owned())
    }

    /// Adds a value that is JSON already.
    pub(crate) fn raw(mut self, key: &str, value: impl AsRef<str>) -> Obj {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        let _ = write!(self.0, "{}:{}", quote(key), value.as_ref());
        self
    }

    pub(crate) fn str(self, key: &str, value: &str) -> Obj {
        self.raw(key, quote(value))
    }

    pub(crate) fn int(self, key: &str, value: i64) -> Obj {
        self.raw(key, value.to_string())
    }

    pub(crate) fn null(self, key: &str) -> Obj {
        self.raw(key, "null")
    }

    /// A string, or null.
    pub(crate) fn opt(self, key: &str, value: Option<&str>) -> Obj {
        match value {
            Some(value) => self.str(key, value),
            None => self.null(key),
        }
    }

    pub(crate) fn obj(self, key: &str, value: Obj) -> Obj {
        let value = value.end();
        self.raw(key, value)
    }

    pub(crate) fn arr<I: IntoIterator<Item = String>>(self, key: &str, items: I) -> Obj {
        self.raw(key, array(items))
    }

    /// Applies `change` when `yes`.
    pub(crate) fn when(self, yes: bool, change: impl FnOnce(Obj) -> Obj) -> Obj {
        if yes { change(self) } else { self }
    }

    pub(crate) fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}
