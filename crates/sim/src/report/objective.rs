//! Service-level objectives: what counts as served in time, and what a fleet must keep.

use crate::workload::Slo;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// A list of objectives, as `--slo` takes it: `ttft_p95=2s,tpot_p95=50ms`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Objectives(pub Vec<Objective>);

/// One bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Objective {
    /// Of what.
    pub measure: Measure,
    /// Which value of it is held to the bound over a whole run.
    pub statistic: Statistic,
    /// The bound, seconds.
    #[serde(rename = "bound_seconds", serialize_with = "as_seconds")]
    pub bound: Duration,
}

/// What an objective is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time to first token.
    Ttft,
    /// Time per output token after the first.
    Tpot,
    /// From the request to the last token.
    E2e,
    /// From the request until its engine begins with it.
    QueueWait,
}

/// Which value over all answers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The mean.
    Mean,
    /// A percentile, above 0 and up to 100.
    Percentile(f64),
}

const MEASURES: [(&str, Measure); 4] = [
    ("ttft", Measure::Ttft),
    ("tpot", Measure::Tpot),
    ("e2e", Measure::E2e),
    ("queue", Measure::QueueWait),
];

impl Objectives {
    /// Reads `ttft_p95=2s,tpot_p95=50ms`; `duration` reads the bounds.
    ///
    /// # Errors
    /// What cannot be read, and how it is written.
    pub fn parse(text: &str, duration: impl Fn(&str) -> Result<Duration, String>) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let objectives: Vec<_> = parts
            .map(|part| parse_one(part, &duration))
            .collect::<Result<_, _>>()?;
        if objectives.is_empty() {
            return Err("names no bound; write for example `ttft_p95=2s,tpot_p95=50ms`".to_owned());
        }
        Ok(Self(objectives))
    }

    /// The bounds that each answer is held to for goodput: the objectives without their percentiles. Where one measure
    /// has several, the tightest.
    #[must_use]
    pub fn slo(&self) -> Slo {
        let tightest = |measure: Measure| {
            let of = self.0.iter().filter(|objective| objective.measure == measure);
            of.map(|objective| objective.bound).min()
        };
        Slo {
            first_token: tightest(Measure::Ttft),
            per_token: tightest(Measure::Tpot),
            end_to_end: tightest(Measure::E2e),
        }
    }
}

fn parse_one(part: &str, duration: impl Fn(&str) -> Result<Duration, String>) -> Result<Objective, String> {
    let wrong = |what: &str| {
        format!(
            "`{part}`: {what}; write MEASURE_STATISTIC=TIME with ttft, tpot, e2e or queue, and mean, p50, p95, p99 …"
        )
    };
    let (name, bound) = part.split_once('=').ok_or_else(|| wrong("has no `=`"))?;
    let (measure, statistic) = name
        .trim()
        .split_once('_')
        .ok_or_else(|| wrong("has no statistic"))?;
    let (_, measure) = *MEASURES
        .iter()
        .find(|(word, _)| *word == measure)
        .ok_or_else(|| wrong(&format!("`{measure}` is no measure")))?;
    let statistic = match statistic {
        "mean" => Statistic::Mean,
        other => other
            .strip_prefix('p')
            .and_then(|percent| percent.parse().ok())
            .filter(|percent| *percent > 0.0 && *percent <= 100.0)
            .map(Statistic::Percentile)
            .ok_or_else(|| wrong(&format!("`{other}` is no statistic")))?,
    };
    let bound = duration(bound.trim()).map_err(|why| wrong(&why))?;
    if bound.is_zero() {
        return Err(wrong("a bound of 0 cannot be kept"));
    }
    Ok(Objective {
        measure,
        statistic,
        bound,
    })
}

impl Objective {
    /// What is bounded, for people: `TTFT p95`.
    #[must_use]
    pub fn name(&self) -> String {
        let measure = match self.measure {
            Measure::Ttft => "TTFT",
            Measure::Tpot => "TPOT",
            Measure::E2e => "end to end",
            Measure::QueueWait => "queue wait",
        };
        match self.statistic {
            Statistic::Mean => format!("{measure} mean"),
            Statistic::Percentile(percent) => format!("{measure} p{percent}"),
        }
    }

    /// The bound with its unit.
    #[must_use]
    pub fn bound_text(&self) -> String {
        super::numbers::short_time(self.bound.as_secs_f64())
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ≤ {}", self.name(), self.bound_text())
    }
}

impl fmt::Display for Objectives {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, objective) in self.0.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{objective}")?;
        }
        Ok(())
    }
}

fn as_seconds<S: serde::Serializer>(bound: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(bound.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Objectives, String> {
        Objectives::parse(text, |time| {
            let millis = time.strip_suffix("ms").and_then(|number| number.parse().ok());
            millis
                .map(Duration::from_millis)
                .ok_or_else(|| format!("`{time}` is no time"))
        })
    }

    #[test]
    fn objectives_are_read_as_they_are_written() {
        let objectives = read("ttft_p95=2000ms, tpot_mean=50ms,ttft_p99.9=5000ms").unwrap();
        assert_eq!(objectives.0.len(), 3);
        assert_eq!(objectives.0[2].statistic, Statistic::Percentile(99.9));
        let slo = objectives.slo();
        assert_eq!(slo.first_token, Some(Duration::from_secs(2)));
        assert_eq!(slo.per_token, Some(Duration::from_millis(50)));
        assert_eq!(slo.end_to_end, None);
        assert_eq!(
            objectives.to_string(),
            "TTFT p95 ≤ 2 s, TPOT mean ≤ 50 ms, TTFT p99.9 ≤ 5 s"
        );
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, expect) in [
            ("", "names no bound"),
            ("ttft_p95", "has no `=`"),
            ("ttft=2ms", "has no statistic"),
            ("tttf_p95=2ms", "`tttf` is no measure"),
            ("ttft_p0=2ms", "`p0` is no statistic"),
            ("ttft_p101=2ms", "`p101` is no statistic"),
            ("ttft_max=2ms", "`max` is no statistic"),
            ("ttft_p95=2", "`2` is no time"),
            ("ttft_p95=0ms", "a bound of 0"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(expect), "{text}: {error}");
        }
    }
}
