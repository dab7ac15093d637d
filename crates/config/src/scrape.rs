//! Where the load of engines and GPUs is read, resolved.

use crate::resolved::BaseUrl;
use std::time::Duration;

/// `pools[].scrape`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scrape {
    /// Path of the page below the endpoint's URL.
    pub path: String,
    /// Port of the page where it is not the endpoint's own.
    pub port: Option<u16>,
    /// Time between two readings.
    pub interval: Duration,
    /// Names of an engine that no table knows, by signal.
    pub names: Vec<(&'static str, Selector)>,
}

/// A metric, and which part of it: `name`, `name{label="value"}`, either with ` / number` after it.
#[derive(Clone, Debug, PartialEq)]
pub struct Selector {
    /// The metric.
    pub name: String,
    /// Only the series with this value of this label.
    pub label: Option<(String, String)>,
    /// What its value is divided by.
    pub divisor: f64,
}

/// `endpoints[].gpu_metrics`, `gpu_index` and `gpu_uuid`.
#[derive(Clone, Debug)]
pub struct GpuMetrics {
    /// The exporter's page.
    pub url: BaseUrl,
    /// Numbers of the endpoint's GPUs; with no UUID either, all that the exporter shows.
    pub indexes: Vec<u32>,
    /// UUIDs of the endpoint's GPUs.
    pub uuids: Vec<String>,
}

impl PartialEq for GpuMetrics {
    fn eq(&self, other: &Self) -> bool {
        self.url.identity() == other.url.identity()
            && (&self.indexes, &self.uuids) == (&other.indexes, &other.uuids)
    }
}

impl Selector {
    /// Reads one; none where the text is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (text, divisor) = match text.rsplit_once(" / ") {
            Some((text, divisor)) => (text, divisor.trim().parse().ok().filter(|by| *by > 0.0)?),
            None => (text, 1.0),
        };
        let (name, label) = match text.trim().split_once('{') {
            Some((name, rest)) => (name.trim(), Some(label(rest.strip_suffix('}')?)?)),
            None => (text.trim(), None),
        };
        is_name(name).then(|| Self {
            name: name.to_owned(),
            label,
            divisor,
        })
    }
}

/// `label="value"`; the value has no quote and no backslash in it, as label values that tell parts apart have none.
fn label(text: &str) -> Option<(String, String)> {
    let (label, value) = text.split_once('=')?;
    let value = value.trim().strip_prefix('"')?.strip_suffix('"')?;
    let plain = is_name(label.trim()) && !value.contains(['"', '\\']);
    plain.then(|| (label.trim().to_owned(), value.to_owned()))
}

fn is_name(text: &str) -> bool {
    let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
    text.bytes().all(named) && !text.starts_with(|first: char| first.is_ascii_digit()) && !text.is_empty()
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        if let Some((label, value)) = &self.label {
            write!(f, "{{{label}=\"{value}\"}}")?;
        }
        if self.divisor != 1.0 {
            write!(f, " / {}", self.divisor)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_and_shown() {
        for (text, name, label, divisor) in [
            ("my_engine:queue_size", "my_engine:queue_size", None, 1.0),
            ("q{state=\"waiting\"}", "q", Some(("state", "waiting")), 1.0),
            ("kv_percent / 100", "kv_percent", None, 100.0),
            ("kv{gpu=\"0 / 1\"} / 2.5", "kv", Some(("gpu", "0 / 1")), 2.5),
        ] {
            let read = Selector::parse(text).unwrap();
            let pair = |(a, b): (&str, &str)| (a.to_owned(), b.to_owned());
            assert_eq!(
                read,
                Selector {
                    name: name.into(),
                    label: label.map(pair),
                    divisor
                }
            );
            assert_eq!(read.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for text in [
            "",
            " ",
            "9up",
            "a b",
            "q{",
            "q{}",
            "q{a}",
            "q{a=b}",
            r#"q{a="1",b="2"}"#,
            r#"{a="1"}"#,
            "q-1",
            "q / 0",
            "q / x",
            "rate(q)",
        ] {
            assert_eq!(Selector::parse(text), None, "{text}");
        }
    }
}
