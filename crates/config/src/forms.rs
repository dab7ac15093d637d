//! Values with a short and a long form: `false` or settings, text or a map, one or several.

use crate::leaf::Text;
use crate::read::{At, FromNode, Reader};
use crate::yaml::{NodeId, Shape};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// Settings, or `false` to switch the thing off.
pub(crate) enum Toggle<T> {
    Off,
    On(T),
}

impl<T: FromNode> FromNode for Toggle<T> {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        match reader.tree.shape(node) {
            Shape::Flag if reader.written(node).eq_ignore_ascii_case("false") => Some(Self::Off),
            Shape::Map => T::from_node(reader, node).map(Self::On),
            Shape::Flag => {
                reader.problem(
                    node,
                    "`true` says nothing that the defaults do not",
                    "leave it out for the defaults, write a map of settings, or `false`",
                );
                None
            }
            Shape::Text
                if matches!(
                    reader.written(node).as_str(),
                    "no" | "off" | "none" | "No" | "Off"
                ) =>
            {
                let shown = reader.written(node);
                reader.problem(
                    node,
                    format!("`{shown}` is text"),
                    "write `false` to switch it off",
                );
                None
            }
            _ => {
                reader.unexpected(node, "a map of settings, or `false`,");
                None
            }
        }
    }
}

impl<T: JsonSchema> JsonSchema for Toggle<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Toggle{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [{"const": false}, generator.subschema_for::<T>()]})
    }
}

/// A section that text alone can stand for.
pub(crate) trait FromText: FromNode + JsonSchema {
    /// What is expected, for messages; begins with "text".
    const WANTED: &'static str;
    /// The type that the text has.
    type Text: FromNode + JsonSchema;
    /// The section for which the text stands.
    fn from_text(text: At<Self::Text>) -> Self;
}

/// A section in its long form, or text in its place.
pub(crate) struct Short<T>(pub(crate) T);

impl<T: FromText> FromNode for Short<T> {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        match reader.tree.shape(node) {
            Shape::Map => T::from_node(reader, node).map(Self),
            Shape::Text => reader.read(node).map(|text| Self(T::from_text(text))),
            _ => {
                reader.unexpected(node, T::WANTED);
                None
            }
        }
    }
}

impl<T: FromText> JsonSchema for Short<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Short{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"anyOf": [generator.subschema_for::<T::Text>(), generator.subschema_for::<T>()]})
    }
}

/// One value, or a list of them.
pub(crate) struct OneOrMany<T>(pub(crate) Vec<At<T>>);

impl<T: FromNode> FromNode for OneOrMany<T> {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        if reader.is_empty_list(node) {
            reader.problem(node, "the list is empty", "name at least one, or remove the key");
            return None;
        }
        if reader.tree.shape(node) == Shape::List {
            return Vec::from_node(reader, node).map(Self);
        }
        reader.read(node).map(|one| Self(vec![one]))
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({"anyOf": [one, {"type": "array", "items": one}]})
    }
}

/// A status that an upstream may answer with, as a number or as text.
#[derive(Clone, Copy)]
pub(crate) struct Status<const MIN: u16>(pub(crate) u16);

impl<const MIN: u16> FromNode for Status<MIN> {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let wanted = format!("a status from {MIN} to 599");
        if !matches!(reader.tree.shape(node), Shape::Text | Shape::Number) {
            reader.unexpected(node, &wanted);
            return None;
        }
        let text = reader.scalar(node)??.text;
        match text.parse::<u16>() {
            Ok(status) if (MIN..=599).contains(&status) && text.len() == 3 => Some(Self(status)),
            _ => {
                let shown = reader.written(node);
                reader.problem(node, format!("`{shown}` is not {wanted}"), "");
                None
            }
        }
    }
}

impl<const MIN: u16> JsonSchema for Status<MIN> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("StatusFrom{MIN}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let first = MIN / 100;
        json_schema!({"title": "status", "type": ["integer", "string"], "minimum": MIN, "maximum": 599, "pattern": format!(r"^([{first}-5][0-9][0-9]|\$\{{.*)$")})
    }
}

/// A date, or an instant with its offset from UTC.
pub(crate) struct Moment(pub(crate) i64);

impl FromNode for Moment {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let Text(text) = Text::from_node(reader, node)?;
        // "2027-01-01" alone is the start of that day.
        let instant = if text.len() == 10 {
            format!("{text}T00:00:00Z")
        } else {
            text
        };
        let moment = instant.parse::<jiff::Timestamp>().ok();
        if let Some(moment) = moment {
            return Some(Self(moment.as_second()));
        }
        let shown = reader.written(node);
        reader.problem(
            node,
            format!("`{shown}` is neither a date nor a time"),
            "write `2027-01-01` (start of that day, UTC) or `2027-01-01T12:00:00Z`",
        );
        None
    }
}

impl JsonSchema for Moment {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"title": "date or time", "type": "string", "examples": ["2027-01-01", "2027-01-01T12:00:00Z"]})
    }
}
