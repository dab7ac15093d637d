//! Walking JSON one level at a time on borrowed text.
//!
//! A level is read field by field; each value comes as its own raw text and only those of interest are looked
//! into. Reading a raw value never recurses, so no nesting depth can overflow the stack, and nothing is
//! allocated but one bit per level beyond the 64th. Unlike derived structs it takes duplicate keys, numbers beyond any
//! machine type and lone surrogates for what they are: not our business.

mod blocks;
mod reader;

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

pub(crate) use reader::{Malformed, Reader};

/// Calls `on_field(key, value)` for every field of the object that `json` holds: the key with its quotes, the
/// value without surrounding space. Fails if `json` is anything but one object; the calls made until then
/// stand.
pub(crate) fn each_field<'a>(
    json: &'a str,
    mut on_field: impl FnMut(&'a str, &'a str),
) -> Result<(), Malformed> {
    let mut reader = Reader::new(json);
    reader.skip_space();
    reader.expect(b'{')?;
    reader.skip_space();
    if reader.eat(b'}') {
        return reader.end();
    }
    loop {
        let key = reader.key()?;
        on_field(key, reader.value()?);
        reader.skip_space();
        if !reader.eat(b',') {
            break;
        }
        reader.skip_space();
    }
    reader.expect(b'}')?;
    reader.end()
}

/// Calls `on_item(value)` for every item of the array that `json` holds.
pub(crate) fn each_item<'a>(json: &'a str, mut on_item: impl FnMut(&'a str)) -> Result<(), Malformed> {
    let mut reader = Reader::new(json);
    reader.skip_space();
    reader.expect(b'[')?;
    reader.skip_space();
    if reader.eat(b']') {
        return reader.end();
    }
    loop {
        on_item(reader.value()?);
        reader.skip_space();
        if !reader.eat(b',') {
            break;
        }
        reader.skip_space();
    }
    reader.expect(b']')?;
    reader.end()
}

/// What is wrong with a text that [`each_field`] refuses, in the words of a reader that has some.
pub(crate) fn refusal(json: &str) -> serde_json::Error {
    let mut reader = serde_json::Deserializer::from_str(json);
    let read = reader.deserialize_map(Skipped).and_then(|()| reader.end());
    read.err()
        .unwrap_or_else(|| serde::de::Error::custom("not one JSON object"))
}

/// An object, of which nothing is kept.
struct Skipped;

impl<'de> Visitor<'de> for Skipped {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<&RawValue>()?.is_some() {
            map.next_value::<&RawValue>()?;
        }
        Ok(())
    }
}

/// Whether the raw key, quotes included, spells `name`, escaped or not.
pub(crate) fn is_key(raw: &str, name: &str) -> bool {
    text(raw).is_some_and(|key| key == name)
}

/// The string that a raw value holds; None for another type, or an escape that stands for no character.
pub(crate) fn text(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw).ok().map(Cow::Owned)
}

/// Whether `text` is all that stands between the quotes of a string.
pub(crate) fn is_string_inside(text: &str) -> bool {
    Reader::new(text).is_string_inside()
}

/// The non-negative integer that a raw value holds; None for any other.
pub(crate) fn integer(raw: &str) -> Option<u64> {
    raw.parse().ok()
}

/// Whether a raw value says something: not null, and not an empty string, array or object.
pub(crate) fn says_something(raw: &str) -> bool {
    let inner = match raw.as_bytes() {
        b"null" => return false,
        [b'"' | b'[' | b'{', inner @ .., b'"' | b']' | b'}'] => inner,
        _ => return true,
    };
    if raw.starts_with('"') {
        !inner.is_empty()
    } else {
        !inner.trim_ascii().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_raw_and_in_order() {
        let mut seen = Vec::new();
        each_field(
            r#" {"a" : 1e400, "b\n":[ {"c":"\ud800"} ], "a":null} "#,
            |key, value| seen.push((key, value)),
        )
        .unwrap();
        assert_eq!(
            seen,
            [
                (r#""a""#, "1e400"),
                (r#""b\n""#, r#"[ {"c":"\ud800"} ]"#),
                (r#""a""#, "null")
            ]
        );
        for bad in [
            "",
            "[]",
            "{",
            r#"{"a":1}x"#,
            "{1:2}",
            "{\"a\nb\":1}",
            r#"{"a":01}"#,
            r#"{"a":"\q"}"#,
            "{\"a\":\"\n\"}",
        ] {
            assert!(each_field(bad, |_, _| ()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_counts_as_saying_something() {
        for empty in ["null", r#""""#, "[]", "{ }", "[\n]"] {
            assert!(!says_something(empty), "{empty}");
        }
        for full in [r#"" ""#, "0", "false", "[null]", r#"{"a":1}"#] {
            assert!(says_something(full), "{full}");
        }
    }
}
