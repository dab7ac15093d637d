//! Single values: text, words, numbers, durations, sizes.

use crate::read::{At, FromNode, Reader, unknown};
use crate::units;
use crate::yaml::{NodeId, Shape, Value};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;
use std::time::Duration;
use weighbridge_core::spec::Weight;

/// Longest name of a pool, route, target, endpoint or key.
const NAME_LENGTH_MAX: usize = 200;

/// Gives a leaf type its schema, written where it is used.
macro_rules! schema {
    ($type:ty, $name:literal, $schema:tt) => {
        impl JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

pub(crate) use schema;

/// Any text.
pub(crate) struct Text(pub(crate) String);
schema!(Text, "Text", {"type": "string"});

impl FromNode for Text {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        reader.text(node, "text").map(Self)
    }
}

/// A digest of a secret; it is not shown.
pub(crate) struct Hexadecimal(pub(crate) String);
schema!(Hexadecimal, "Hexadecimal", {"type": "string"});

impl FromNode for Hexadecimal {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        if reader.tree.shape(node) != Shape::Text {
            reader.unexpected(node, "text");
            return None;
        }
        let text = reader.hidden(node)??.text;
        let stands_in = reader
            .stand_ins
            .is_some_and(|stand_ins| !stand_ins.within(&text).is_empty());
        Some(Self(match stands_in {
            true => Sha256::digest(text.as_bytes())
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect(),
            false => text,
        }))
    }
}

/// Text that names something: shown in logs, metrics and headers.
pub(crate) struct Name(pub(crate) String);
schema!(Name, "Name", {"type": "string", "minLength": 1, "maxLength": NAME_LENGTH_MAX});

impl FromNode for Name {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "text that names it")?;
        let fault = if text.is_empty() {
            "the name is empty"
        } else if text.chars().count() > NAME_LENGTH_MAX {
            "the name is longer than 200 characters"
        } else if text.chars().any(char::is_control) || text.trim() != text {
            "the name holds a control character, or a space at its ends"
        } else {
            return Some(Self(text));
        };
        reader.problem(node, fault, "give a short name of visible characters");
        None
    }
}

/// `true` or `false`.
pub(crate) struct Flag(pub(crate) bool);
schema!(Flag, "Flag", {"type": ["boolean", "string"], "pattern": r"^\$\{"});

impl FromNode for Flag {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let written = reader.scalar(node)?;
        let shape = reader.tree.shape(node);
        match written {
            Some(done) if shape == Shape::Flag || done.any => match done.text.to_ascii_lowercase().as_str() {
                "true" => return Some(Self(true)),
                "false" => return Some(Self(false)),
                _ => {}
            },
            _ => {}
        }
        let shown = reader.written(node);
        if shape == Shape::Text && !shown.is_empty() {
            reader.problem(
                node,
                format!("`{shown}` is neither true nor false"),
                "write `true` or `false`, without quotes",
            );
        } else {
            reader.unexpected(node, "true or false");
        }
        None
    }
}

/// The text of a number; variables may give one.
fn number_text(reader: &mut Reader<'_>, node: NodeId, wanted: &str) -> Option<String> {
    let shape = reader.tree.shape(node);
    match reader.scalar(node)? {
        Some(done) if shape == Shape::Number || (done.any && shape == Shape::Text) => Some(done.text),
        Some(_) if shape == Shape::Text => {
            let shown = reader.written(node);
            reader.problem(
                node,
                format!("{wanted} is expected here, but this is the text `{shown}`"),
                "write a number without quotes and units",
            );
            None
        }
        _ => {
            reader.unexpected(node, wanted);
            None
        }
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy)]
pub(crate) struct Whole<const MIN: u32, const MAX: u32>(pub(crate) u32);

impl<const MIN: u32, const MAX: u32> FromNode for Whole<MIN, MAX> {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let wanted = format!("a whole number from {MIN} to {MAX}");
        let text = number_text(reader, node, &wanted)?;
        match text.parse::<u32>() {
            Ok(number) if (MIN..=MAX).contains(&number) => Some(Self(number)),
            _ => {
                let shown = reader.written(node);
                reader.problem(node, format!("`{shown}` is not {wanted}"), "");
                None
            }
        }
    }
}

impl<const MIN: u32, const MAX: u32> JsonSchema for Whole<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Whole{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["integer", "string"], "minimum": MIN, "maximum": MAX, "pattern": r"^\$\{"})
    }
}

/// A finite number in a range given in thousandths, both ends included.
#[derive(Clone, Copy)]
pub(crate) struct Number<const MIN_MILLI: u32, const MAX_MILLI: u32>(pub(crate) f64);

/// A share from 0 to 1.
pub(crate) type Share = Number<0, 1000>;

impl<const MIN: u32, const MAX: u32> FromNode for Number<MIN, MAX> {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let (min, max) = (f64::from(MIN) / 1e3, f64::from(MAX) / 1e3);
        let wanted = format!("a number from {min} to {max}");
        let text = number_text(reader, node, &wanted)?;
        match text.parse::<f64>() {
            Ok(number) if (min..=max).contains(&number) => Some(Self(number)),
            _ => {
                let shown = reader.written(node);
                reader.problem(node, format!("`{shown}` is not {wanted}"), "");
                None
            }
        }
    }
}

impl<const MIN: u32, const MAX: u32> JsonSchema for Number<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Number{MIN}To{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let (min, max) = (f64::from(MIN) / 1e3, f64::from(MAX) / 1e3);
        json_schema!({"type": ["number", "string"], "minimum": min, "maximum": max, "pattern": r"^\$\{"})
    }
}

/// A price in USD: from 0 to 1e6.
pub(crate) type Usd = Number<0, 1_000_000_000>;

/// Where the weights of a pool's endpoints come from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolWeight {
    Auto,
    Labels,
}
schema!(PoolWeight, "PoolWeight", {"enum": ["auto", "labels"]});

impl FromNode for PoolWeight {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let written = reader.written(node);
        match written.as_str() {
            "auto" => return Some(Self::Auto),
            "labels" => return Some(Self::Labels),
            _ => {}
        }
        reader.problem(
            node,
            format!("a pool's weight is `auto`, `labels` or not given, not `{written}`"),
            "the weight of an engine is `endpoints[].weight`, that of the pool in a route `targets[].weight`",
        );
        None
    }
}

/// A weight: from 0 to 1e9 with at most 6 decimals, so that it is exact in millionths.
#[derive(Clone, Copy)]
pub(crate) struct Millionths(pub(crate) Weight);
schema!(Millionths, "Weight", {"title": "weight", "type": ["number", "string"], "minimum": 0, "maximum": 1e9, "pattern": r"^\$\{"});

impl FromNode for Millionths {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        if reader.written(node) == "auto" {
            reader.problem(
                node,
                "`auto` is no weight of a single endpoint or target",
                "write `weight: auto` in the pool, beside its `endpoints`",
            );
            return None;
        }
        let text = number_text(reader, node, "a number")?;
        let shown = reader.written(node);
        let number = text.parse::<f64>().unwrap_or(f64::NAN);
        let fault = if !number.is_finite() {
            "is not a finite number"
        } else if number < 0.0 {
            "is negative"
        } else if number > 1e9 {
            "is larger than 1e9"
        } else if format!("{number:.6}").parse::<f64>() != Ok(number) {
            "has more than 6 decimals"
        } else {
            return Some(Self(Weight((number * 1e6).round() as u64)));
        };
        reader.problem(
            node,
            format!("the weight `{shown}` {fault}"),
            "weights are numbers from 0 to 1e9 with at most 6 decimals; 0 takes nothing",
        );
        None
    }
}

/// A time with its unit.
pub(crate) struct Span(pub(crate) Duration);
schema!(Span, "Duration", {"title": "duration", "type": "string", "pattern": r"^([0-9]*\.?[0-9]+(us|ms|s|m|h|d)|.*\$\{.*)$", "examples": ["500ms", "10s", "5m"]});

impl FromNode for Span {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        with_unit(
            reader,
            node,
            "a time with its unit, such as `10s`,",
            units::duration,
        )
        .map(Self)
    }
}

/// A time between two signs of life, or none at all.
pub(crate) struct Beat(pub(crate) Option<Duration>);
schema!(Beat, "Beat", {"title": "duration, `0` or `off`", "anyOf": [
    {"type": "string", "pattern": r"^([0-9]*\.?[0-9]+(us|ms|s|m|h|d)|0|off|.*\$\{.*)$", "examples": ["15s", "off"]},
    {"enum": [0, false]},
]});

/// Shortest time between two signs of life: what comes more often keeps a connection no better.
const BEAT_MIN: Duration = Duration::from_millis(100);

impl FromNode for Beat {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let written = reader.written(node);
        if reader.tree.shape(node) == Shape::Flag && written.eq_ignore_ascii_case("false") {
            return Some(Self(None));
        }
        if matches!(written.as_str(), "0" | "off") {
            return Some(Self(None));
        }
        let parse = |text: &str| match text {
            "0" | "off" => Ok(Duration::ZERO),
            text => units::duration(text),
        };
        let wanted = "a time with its unit, such as `15s`, or `off`,";
        let every = with_unit(reader, node, wanted, parse)?;
        if every.is_zero() {
            return Some(Self(None));
        }
        if every < BEAT_MIN {
            reader.problem(
                node,
                format!("a sign of life every `{written}` is more than any connection needs"),
                "give at least 100ms; load balancers wait a minute or so",
            );
            return None;
        }
        Some(Self(Some(every)))
    }
}

/// A size with its unit.
pub(crate) struct Size(pub(crate) u64);
schema!(Size, "Size", {"title": "size", "type": "string", "pattern": r"^([0-9]*\.?[0-9]+(B|kB|KB|MB|GB|KiB|MiB|GiB)|.*\$\{.*)$", "examples": ["64KiB", "32MiB"]});

impl FromNode for Size {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        with_unit(
            reader,
            node,
            "a size with its unit, such as `32MiB`,",
            units::size,
        )
        .map(Self)
    }
}

fn with_unit<T>(
    reader: &mut Reader<'_>,
    node: NodeId,
    wanted: &str,
    parse: fn(&str) -> Result<T, units::UnitError>,
) -> Option<T> {
    if !matches!(reader.tree.shape(node), Shape::Text | Shape::Number) {
        reader.unexpected(node, wanted);
        return None;
    }
    let done = reader.scalar(node)??;
    match parse(&done.text) {
        Ok(value) => Some(value),
        // What came from a variable is not quoted: it may be anything.
        Err((_, hint)) if done.any => {
            let shown = reader.written(node);
            reader.problem(
                node,
                format!("{wanted} is expected here, but `{shown}` stands for something else"),
                hint,
            );
            None
        }
        Err((message, hint)) => {
            reader.problem(node, message, hint);
            None
        }
    }
}

/// A time of day, in seconds since midnight.
pub(crate) struct Daytime(pub(crate) u32);
schema!(Daytime, "Daytime", {"title": "time of day", "type": "string", "pattern": r"^([0-2][0-9]:[0-5][0-9](:[0-5][0-9])?|.*\$\{.*)$", "examples": ["04:00"]});

impl FromNode for Daytime {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let text = reader.text(node, "a time of day such as \"04:00\"")?;
        let time = units::daytime(&text);
        if time.is_none() {
            let shown = reader.written(node);
            reader.problem(
                node,
                format!("`{shown}` is no time of day"),
                "write hours and minutes, such as \"04:00\"; the time is UTC",
            );
        }
        time.map(Self)
    }
}

/// Free-form labels.
pub(crate) struct Labels(pub(crate) Vec<(String, String)>);
schema!(Labels, "Labels", {"title": "map of text", "type": "object", "additionalProperties": {"type": "string"}, "examples": [{"gpu": "T4", "zone": "az1"}]});

impl FromNode for Labels {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let crate::yaml::Value::Map(entries) = reader.tree.value(node) else {
            reader.unexpected(node, "a map");
            return None;
        };
        let entries = entries.clone();
        let labels = entries
            .into_iter()
            .filter_map(|entry| Some((entry.key, reader.text(entry.value, "text")?)));
        Some(Self(labels.collect()))
    }
}

impl Reader<'_> {
    /// One word of a list.
    pub(crate) fn word(&mut self, node: NodeId, words: &[&str], later: &[&str]) -> Option<String> {
        let wanted = format!("text, one of {},", words.join(", "));
        let written = self.written(node);
        if later.contains(&written.as_str()) {
            let path = self.tree.path(node);
            let key = path
                .rsplit('.')
                .next()
                .and_then(|step| step.split('[').next())
                .unwrap_or_default()
                .to_owned();
            self.not_yet(node, &format!("{key}: {written}"));
            return None;
        }
        let word = match self.tree.shape(node) {
            Shape::Number if words.contains(&written.as_str()) => written.clone(),
            // Quotes would not make a word of it.
            Shape::Number | Shape::Flag => {
                let (message, hint) = unknown(&written, "word", words);
                self.problem(node, message, hint);
                return None;
            }
            Shape::Map | Shape::List => {
                self.unexpected(node, &wanted);
                if let Some(hint) = self.plain_word(node, words) {
                    self.hint_last(hint);
                }
                return None;
            }
            _ => self.text(node, &wanted)?,
        };
        if words.contains(&word.as_str()) {
            return Some(word);
        }
        let (message, hint) = unknown(&written, "word", words);
        let path = self.tree.path(node);
        let key = path.rsplit('.').next().unwrap_or_default();
        let elsewhere = crate::hints::elsewhere(key, &written)
            .map(|place| format!("{place}; known here: {}", words.join(", ")));
        self.problem(node, message, elsewhere.unwrap_or(hint));
        None
    }

    /// What to write where a map or a list holds what is probably meant to be one of the words.
    fn plain_word(&self, node: NodeId, words: &[&str]) -> Option<String> {
        let word = match self.tree.value(node) {
            Value::Map(entries) => entries.first()?.key.clone(),
            Value::List(items) => self.written(*items.first()?),
            Value::Scalar { .. } => return None,
        };
        let path = self.tree.path(node);
        let key = path.rsplit('.').next().unwrap_or_default();
        if words.contains(&word.as_str()) {
            return Some(match key.ends_with(']') {
                true => format!("write `{word}`"),
                false => format!("write `{key}: {word}`"),
            });
        }
        let elsewhere = crate::hints::elsewhere(key, &word);
        elsewhere.or_else(|| Some(format!("known: {}", words.join(", "))))
    }
}

/// The schema of a choice among words.
pub(crate) fn words_schema(words: &[(&str, &[&str])]) -> Schema {
    let mut choices = Vec::new();
    for (word, lines) in words {
        let description = crate::read::prose(lines);
        choices.push(json_schema!({"const": word, "description": description}));
        if let Ok(number) = word.parse::<u32>() {
            choices.push(json_schema!({"const": number, "description": description}));
        }
    }
    json_schema!({"oneOf": choices})
}

/// The value of an optional setting, else the default.
pub(crate) fn or<T, U>(given: Option<At<T>>, map: fn(T) -> U, default: U) -> U {
    given.map_or(default, |at| map(at.value))
}
