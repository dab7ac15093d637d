//! The report as a document for programs: `simulate --json`.
//!
//! Names are stable: a later version adds fields and changes none without raising [`SCHEMA_VERSION`]. Units are the last word
//! of a name: `_seconds`, `_per_second`, `_share` and `_ratio` (0 to 1), `_over_mean` (1 is even). A figure that a run does not
//! have is null or left out.

use super::compare::{Difference, Spread, difference, spread};
use super::figures::{Figure, figures};
use super::{About, Policy, Report, Summary, headline};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Raised when a field changes its name or meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// A report, ready to be serialised.
#[derive(Serialize)]
pub struct Document<'a> {
    schema_version: u32,
    headline: String,
    about: &'a About,
    policies: Vec<PolicyDocument<'a>>,
}

#[derive(Serialize)]
struct PolicyDocument<'a> {
    name: &'a str,
    /// Over the seeds.
    figures: Keyed<Spread>,
    /// Against the first policy, which has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences_from_first: Option<Keyed<Difference>>,
    runs: &'a [Summary],
}

/// A map in the order of the figures.
struct Keyed<T>(Vec<(String, T)>);

impl<T: Serialize> Serialize for Keyed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'a> Document<'a> {
    /// The document of this report.
    #[must_use]
    pub fn of(report: &'a Report) -> Self {
        let figures = figures(&report.about.objectives);
        let first = report.policies.first();
        let policy = |(place, policy): (usize, &'a Policy)| PolicyDocument {
            name: &policy.name,
            figures: keyed(&figures, |figure| spread(policy, figure)),
            differences_from_first: first
                .filter(|_| place > 0)
                .map(|first| keyed(&figures, |figure| difference(first, policy, figure))),
            runs: &policy.runs,
        };
        Self {
            schema_version: SCHEMA_VERSION,
            headline: headline(report).join(" "),
            about: &report.about,
            policies: report.policies.iter().enumerate().map(policy).collect(),
        }
    }
}

fn keyed<T>(figures: &[Figure], of: impl Fn(&Figure) -> Option<T>) -> Keyed<T> {
    let entry = |figure: &Figure| Some((figure.key.clone(), of(figure)?));
    Keyed(figures.iter().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn the_document_has_its_figures_under_stable_names() {
        let report = samples::report(&["plain", "better"], 3);
        let document = serde_json::to_value(Document::of(&report)).unwrap();
        assert_eq!(document["schema_version"], 1);
        let [first, second] = [0, 1].map(|place| &document["policies"][place]);
        assert!(first.get("differences_from_first").is_none());
        for key in [
            "ttft_p90_seconds",
            "goodput_share",
            "hit_ratio",
            "gpu_seconds",
            "uncached_busiest_over_mean",
        ] {
            assert!(first["figures"][key]["mean"].is_number(), "{key}");
            assert!(
                second["differences_from_first"][key]["noise"].is_string(),
                "{key}"
            );
        }
        assert_eq!(first["runs"].as_array().unwrap().len(), 3);
        let run = &first["runs"][0];
        assert_eq!(run["requests"], samples::REQUESTS as u64);
        for path in [
            "/ttft_seconds/p99",
            "/e2e_seconds/mean",
            "/slo/0/met",
            "/by_class/1/ttft_seconds/p50",
        ] {
            assert!(!run.pointer(path).unwrap().is_null(), "{path}");
        }
    }

    #[test]
    fn the_same_report_gives_the_same_bytes() {
        let text = || serde_json::to_string(&Document::of(&samples::report(&["a", "b"], 2))).unwrap();
        assert_eq!(text(), text());
    }
}
