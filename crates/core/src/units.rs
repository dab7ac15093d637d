//! Durations and sizes with their units, as config files write them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::time::Duration;

/// What is wrong with a quantity: message and hint.
pub type UnitError = (String, String);

/// Longest duration that is accepted: a year, far below what timers overflow at.
const SECONDS_MAX: f64 = 366.0 * 86_400.0;

const DURATION_UNITS: &[(&str, f64)] = &[
    ("us", 1e-6),
    ("ms", 1e-3),
    ("s", 1.0),
    ("m", 60.0),
    ("h", 3600.0),
    ("d", 86_400.0),
];

const SIZE_UNITS: &[(&str, f64)] = &[
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];

/// Splits a quantity into its number and the factor of its unit.
fn quantity(text: &str, units: &[(&str, f64)], example: &str) -> Result<(f64, f64), UnitError> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let names = units.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let Ok(number) = number.parse::<f64>() else {
        let hint = format!("write a number and a unit ({names}), such as `{example}`");
        return Err((format!("`{}` is not a quantity with a unit", shorten(text)), hint));
    };
    if unit.is_empty() {
        let message = format!("`{text}` has no unit");
        return Err((
            message,
            format!("write `{text}{}`; units are {names}", units_default(example)),
        ));
    }
    match units.iter().find(|(name, _)| *name == unit) {
        Some((_, factor)) => Ok((number, *factor)),
        None => {
            let shown = shorten(unit);
            let near = units.iter().find(|(name, _)| {
                let (name, unit) = (name.to_lowercase(), unit.trim().to_lowercase());
                name == unit
                    || name == format!("{unit}b")
                    || name == format!("{unit}ib")
                    || unit.starts_with(&name) && name.len() > 1
            });
            let near = near
                .map(|(name, _)| format!("write `{}{name}`; ", &text[..end]))
                .unwrap_or_default();
            Err((
                format!("`{shown}` is not a unit"),
                format!("{near}units are {names}"),
            ))
        }
    }
}

fn units_default(example: &str) -> &str {
    example.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// The beginning of a text that may be anything, fit to be shown.
#[must_use]
pub fn shorten(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let clean = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    let mut shown: String = text.chars().take(SHOWN_MAX).map(clean).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Parses `500ms`, `10s`, `1.5m`, `2h`, `30d`; `0s` is allowed.
///
/// # Errors
/// What is wrong with it, and a hint.
pub fn duration(text: &str) -> Result<Duration, UnitError> {
    let (number, factor) = quantity(text, DURATION_UNITS, "30s")?;
    let seconds = number * factor;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err((
            format!("`{text}` is longer than a year"),
            "give a shorter time".to_owned(),
        ));
    }
    // Rounded to microseconds, so that `0.1s` is exactly 100 ms.
    Ok(Duration::from_micros((seconds * 1e6).round() as u64))
}

/// A duration as the config file writes it, such as `500ms`, `10s`, `1.5m`.
///
/// # Errors
/// What is wrong with it and how to mend it, for a person.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text).map_err(|(message, hint)| format!("{message}: {hint}"))
}

/// Parses `512B`, `64KiB`, `32MiB`, `1.5GiB`, `10MB`, in whole bytes.
///
/// # Errors
/// What is wrong with it, and a hint.
pub fn size(text: &str) -> Result<u64, UnitError> {
    let (number, factor) = quantity(text, SIZE_UNITS, "32MiB")?;
    let bytes = (number * factor).round();
    if bytes > 1e15 {
        return Err((format!("`{text}` is too large"), "give a smaller size".to_owned()));
    }
    Ok(bytes as u64)
}

/// Writes a duration as a person would: `1500ms`, `10s`, `5m`.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let micros = duration.as_micros();
    let steps: [(u128, &str); 5] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1000, "ms"),
    ];
    if micros == 0 {
        return "0s".to_owned();
    }
    for (step, unit) in steps {
        // Up to two hours read better in the smaller unit: `120s` and `90m`, not `2m` and `1.5h`.
        if micros.is_multiple_of(step) && (micros / step > 1 || step <= 1_000_000) {
            return format!("{}{unit}", micros / step);
        }
    }
    format!("{micros}us")
}

/// Writes a size in the largest unit that leaves a whole number.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    for (step, unit) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes > 0 && bytes.is_multiple_of(step) {
            return format!("{}{unit}", bytes / step);
        }
    }
    format!("{bytes}B")
}

/// A duration in the settings of a policy, written with its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A size in the settings of a policy, in bytes, written with its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// Text that is parsed; what is none, or wrong, says what is expected.
macro_rules! written {
    ($name:ident, $parse:ident, $show:ident, $schema:literal, $title:literal, $example:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&$show(self.0))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Written;

                impl de::Visitor<'_> for Written {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str(concat!("a ", $title, " with its unit, such as `", $example, "`"))
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        let wrong = |_| E::invalid_value(de::Unexpected::Str(text), &self);
                        $parse(text).map($name).map_err(wrong)
                    }
                }

                deserializer.deserialize_str(Written)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"title": $title, "type": "string", "examples": [$example]})
            }
        }
    };
}

written!(Span, duration, show_duration, "SettingSpan", "duration", "30s");
written!(Size, size, show_size, "SettingSize", "size", "32MiB");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_exact() {
        for (text, micros) in [
            ("0s", 0),
            ("500ms", 500_000),
            ("0.1s", 100_000),
            ("10s", 10_000_000),
            ("1.5m", 90_000_000),
            ("30d", 2_592_000_000_000),
            ("250us", 250),
        ] {
            assert_eq!(duration(text).map(|d| d.as_micros()), Ok(micros), "{text}");
        }
    }

    #[test]
    fn sizes_are_whole_bytes() {
        for (text, bytes) in [
            ("0B", 0),
            ("32MiB", 33_554_432),
            ("1.5KiB", 1536),
            ("10MB", 10_000_000),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn wrong_units_say_the_right_one() {
        let hint = |got: Result<(), UnitError>| {
            got.map_err(|(message, hint)| format!("{message} / {hint}"))
                .err()
                .unwrap_or_default()
        };
        assert_eq!(
            hint(duration("30").map(drop)),
            "`30` has no unit / write `30s`; units are us, ms, s, m, h, d"
        );
        assert_eq!(
            hint(duration("30S").map(drop)),
            "`S` is not a unit / write `30s`; units are us, ms, s, m, h, d"
        );
        assert_eq!(
            hint(duration("10 s").map(drop)),
            "` s` is not a unit / write `10s`; units are us, ms, s, m, h, d"
        );
        assert_eq!(
            hint(duration("soon").map(drop)),
            "`soon` is not a quantity with a unit / write a number and a unit (us, ms, s, m, h, d), such as `30s`"
        );
        assert!(hint(duration("-5s").map(drop)).starts_with("`-5s` is not a quantity with a unit"));
        assert!(hint(duration("9999999d").map(drop)).starts_with("`9999999d` is longer than a year"));
        assert!(hint(size("32M").map(drop)).contains("write `32MB`"));
        assert!(hint(size("32Mi").map(drop)).contains("write `32MiB`"));
        assert!(hint(size("32").map(drop)).contains("write `32MiB`"));
    }

    #[test]
    fn shown_values_parse_to_themselves() {
        for micros in [
            0,
            1,
            1000,
            1500,
            1_000_000,
            60_000_000,
            90_000_000,
            7_200_000_000,
            86_400_000_000,
        ] {
            let time = Duration::from_micros(micros);
            assert_eq!(duration(&show_duration(time)), Ok(time));
        }
        for bytes in [0, 1, 1024, 1025, 33_554_432] {
            assert_eq!(size(&show_size(bytes)), Ok(bytes));
        }
    }

    #[test]
    fn settings_are_written_with_their_unit() {
        let span: Span = serde_json::from_str("\"1.5m\"").unwrap();
        assert_eq!(span, Span(Duration::from_secs(90)));
        assert_eq!(serde_json::to_string(&span).unwrap(), "\"90s\"");
        assert_eq!(serde_json::from_str::<Size>("\"64KiB\"").unwrap(), Size(65_536));
        for (text, wrong) in [("5", "integer `5`"), ("\"5\"", "string \"5\"")] {
            let error = serde_json::from_str::<Span>(text).unwrap_err().to_string();
            assert!(
                error.contains(wrong) && error.contains("expected a duration with its unit"),
                "{error}"
            );
        }
    }
}
