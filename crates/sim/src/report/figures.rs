//! The one list of figures from which table, page and JSON are made.

use super::objective::{Objective, Objectives};
use super::summary::{FleetUse, Served, Summary};

/// A figure of a run.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name in JSON, with its unit.
    pub key: String,
    /// The heading that it stands under.
    pub group: &'static str,
    /// What it is called under that heading.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// What it means, for a reader who does not know.
    pub meaning: &'static str,
    get: Get,
}

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    Count,
    /// Seconds.
    Seconds,
    /// 0 to 1, shown in percent.
    Share,
    /// Things per second.
    PerSecond,
    /// A ratio around 1.
    Ratio,
    /// The user's currency.
    Money,
    /// GPUs times seconds.
    GpuSeconds,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less.
    Less,
    /// More.
    More,
    /// Neither: it describes.
    Neither,
}

#[derive(Clone, Copy, Debug)]
enum Get {
    Served(fn(&Served) -> Option<f64>),
    Fleet(fn(&FleetUse) -> Option<f64>),
    /// Place among the objectives.
    Objective(usize),
    /// The same: 1 where it is kept, else 0.
    Kept(usize),
}

impl Figure {
    /// Its value in a run; none where the run has none.
    #[must_use]
    pub fn of(&self, summary: &Summary) -> Option<f64> {
        match self.get {
            Get::Served(get) => get(&summary.served),
            Get::Fleet(get) => get(&summary.fleet),
            Get::Objective(place) => summary.objectives.get(place)?.seconds,
            Get::Kept(place) => Some(f64::from(u8::from(summary.objectives.get(place)?.met))),
        }
    }

    /// Its value for a part of the requests; none for figures of the fleet.
    #[must_use]
    pub fn of_part(&self, served: &Served) -> Option<f64> {
        match self.get {
            Get::Served(get) => get(served),
            Get::Fleet(_) | Get::Objective(_) | Get::Kept(_) => None,
        }
    }
}

/// All figures, in the order in which they are shown.
#[must_use]
pub fn figures(objectives: &Objectives) -> Vec<Figure> {
    let mut all = requests();
    all.extend(goodput());
    for (place, objective) in objectives.0.iter().enumerate() {
        all.extend(kept(place, objective));
    }
    all.extend(times());
    all.extend(throughput());
    all.extend(balance());
    all.extend(costs());
    all
}

/// An objective's value, and whether it is kept.
fn kept(place: usize, objective: &Objective) -> [Figure; 2] {
    let figure = |key: &str, label: String, (unit, better): (Unit, Better), get| Figure {
        key: format!("slo_{place}_{key}"),
        group: "Service level",
        label,
        unit,
        better,
        meaning: "An objective of --slo: its value over the whole run beside the bound, and the share of seeds that keep it.",
        get,
    };
    let name = objective.name();
    let bounded = format!("{name} ≤ {}", objective.bound_text());
    [
        figure(
            "seconds",
            bounded,
            (Unit::Seconds, Better::Less),
            Get::Objective(place),
        ),
        figure(
            "kept_share",
            format!("{name} kept"),
            (Unit::Share, Better::More),
            Get::Kept(place),
        ),
    ]
}

/// What is shown for each class and tenant: keys of [`figures`].
pub(super) const OF_PARTS: [&str; 7] = [
    "requests",
    "answered",
    "goodput_share",
    "ttft_p50_seconds",
    "ttft_p90_seconds",
    "tpot_p90_seconds",
    "hit_ratio",
];

const TTFT: &str = "From the client's sending to the first token of the answer.";
const TPOT: &str = "Time between two tokens of one answer after the first, its mean over the answer.";
const E2E: &str = "From the client's sending to the last token.";
const QUEUE: &str =
    "From the client's sending until an engine begins to compute; failed attempts before count in.";

fn served(
    key: &str,
    label: &str,
    (unit, better): (Unit, Better),
    (meaning, get): (&'static str, fn(&Served) -> Option<f64>),
) -> Figure {
    Figure {
        key: key.to_owned(),
        group: "",
        label: label.to_owned(),
        unit,
        better,
        meaning,
        get: Get::Served(get),
    }
}

fn fleet(
    key: &str,
    label: &str,
    (unit, better): (Unit, Better),
    (meaning, get): (&'static str, fn(&FleetUse) -> Option<f64>),
) -> Figure {
    Figure {
        get: Get::Fleet(get),
        ..served(key, label, (unit, better), (meaning, |_| None))
    }
}

fn under(group: &'static str, figures: impl IntoIterator<Item = Figure>) -> Vec<Figure> {
    figures
        .into_iter()
        .map(|figure| Figure { group, ..figure })
        .collect()
}

fn requests() -> Vec<Figure> {
    use Better::{Less, More, Neither};
    let count = |better| (Unit::Count, better);
    under(
        "Requests",
        [
            served(
                "requests",
                "sent",
                count(Neither),
                ("Requests of the workload.", |s| some(s.requests)),
            ),
            served(
                "answered",
                "answered",
                count(More),
                ("Requests that got their whole answer.", |s| some(s.answered)),
            ),
            served(
                "rejected",
                "rejected (429)",
                count(Less),
                ("Refused because every engine was full or cooling.", |s| {
                    some(s.rejected)
                }),
            ),
            served(
                "unavailable",
                "unavailable (503)",
                count(Less),
                ("Refused because no engine was in service.", |s| {
                    some(s.unavailable)
                }),
            ),
            served(
                "too_long",
                "too long",
                count(Less),
                ("Longer than any engine of the fleet can hold.", |s| {
                    some(s.too_long)
                }),
            ),
            served(
                "timed_out",
                "timed out (504)",
                count(Less),
                (
                    "No first token within timeouts.first_byte; times below are those of the others.",
                    |s| some(s.timed_out),
                ),
            ),
            served(
                "failed",
                "failed",
                count(Less),
                ("The engine failed, and no other one answered instead.", |s| {
                    some(s.failed)
                }),
            ),
            fleet(
                "attempts",
                "attempts",
                count(Neither),
                ("Requests sent to engines, retries included.", |f| {
                    some(f.attempts)
                }),
            ),
        ],
    )
}

fn goodput() -> Vec<Figure> {
    under(
        "Service level",
        [
            served(
                "goodput_share",
                "goodput",
                (Unit::Share, Better::More),
                (
                    "Share of all requests that were answered within their bounds.",
                    |s| s.goodput_share,
                ),
            ),
            served(
                "goodput_per_second",
                "goodput",
                (Unit::PerSecond, Better::More),
                (
                    "Requests per second that were answered within their bounds.",
                    |s| s.goodput_per_second,
                ),
            ),
        ],
    )
}

/// The four statistics of a distribution, as plain functions.
macro_rules! statistics {
    ($field:ident) => {
        [
            ("mean", (|s| Some(s.$field?.mean)) as fn(&Served) -> Option<f64>),
            ("p50", |s| Some(s.$field?.p50)),
            ("p90", |s| Some(s.$field?.p90)),
            ("p99", |s| Some(s.$field?.p99)),
        ]
    };
}

fn times() -> Vec<Figure> {
    let measures = [
        ("ttft", "Time to first token", TTFT, statistics!(ttft)),
        ("tpot", "Time per output token", TPOT, statistics!(tpot)),
        ("e2e", "End to end", E2E, statistics!(e2e)),
        ("queue_wait", "Queue wait", QUEUE, statistics!(queue_wait)),
    ];
    let mut all = Vec::new();
    for (measure, group, meaning, statistics) in measures {
        let figure = |(statistic, get)| {
            let key = format!("{measure}_{statistic}_seconds");
            served(&key, statistic, (Unit::Seconds, Better::Less), (meaning, get))
        };
        all.extend(under(group, statistics.map(figure)));
    }
    all
}

fn throughput() -> Vec<Figure> {
    let rate = (Unit::PerSecond, Better::More);
    under(
        "Throughput",
        [
            served(
                "requests_per_second",
                "requests",
                rate,
                (
                    "Answered requests per second, from the first request to the end of the last.",
                    |s| Some(s.requests_per_second),
                ),
            ),
            served(
                "output_tokens_per_second",
                "output tokens",
                rate,
                ("Tokens of answers per second, over the same time.", |s| {
                    Some(s.output_tokens_per_second)
                }),
            ),
        ],
    )
}

fn balance() -> Vec<Figure> {
    let ratio = |better| (Unit::Ratio, better);
    under(
        "Cache and balance",
        [
            served(
                "hit_ratio",
                "hit ratio",
                (Unit::Share, Better::More),
                (
                    "Share of prompt tokens that an engine still had in its cache and did not compute again.",
                    |s| s.hit_ratio,
                ),
            ),
            fleet(
                "uncached_busiest_over_mean",
                "prefill busiest÷mean",
                ratio(Better::Less),
                (
                    "Prompt tokens to compute per endpoint and second in service: the busiest endpoint over the mean of all. 1 is even; 2: one endpoint does twice its share.",
                    |f| f.uncached_busiest_over_mean,
                ),
            ),
            fleet(
                "uncached_idlest_over_mean",
                "prefill idlest÷mean",
                ratio(Better::More),
                (
                    "The same for the idlest endpoint. 1 is even; 0: one computes nothing.",
                    |f| f.uncached_idlest_over_mean,
                ),
            ),
            fleet(
                "attempts_busiest_over_mean",
                "attempts busiest÷mean",
                ratio(Better::Less),
                (
                    "Requests sent to each endpoint per second in service: the busiest over the mean of all.",
                    |f| f.attempts_busiest_over_mean,
                ),
            ),
            fleet(
                "attempts_idlest_over_mean",
                "attempts idlest÷mean",
                ratio(Better::More),
                ("The same for the idlest endpoint.", |f| {
                    f.attempts_idlest_over_mean
                }),
            ),
        ],
    )
}

fn costs() -> Vec<Figure> {
    use Better::{Less, Neither};
    under(
        "Use and cost",
        [
            fleet(
                "duration_seconds",
                "duration",
                (Unit::Seconds, Less),
                ("From the first request to the end of the last.", |f| {
                    Some(f.duration_seconds)
                }),
            ),
            fleet(
                "gpu_seconds",
                "GPU-seconds",
                (Unit::GpuSeconds, Less),
                ("GPUs times seconds in service.", |f| Some(f.gpu_seconds)),
            ),
            fleet(
                "busy_share",
                "GPUs busy",
                (Unit::Share, Neither),
                ("Share of the GPU-seconds in which an engine computed.", |f| {
                    f.busy_share
                }),
            ),
            fleet(
                "cost",
                "cost",
                (Unit::Money, Less),
                ("GPU-hours times their prices.", |f| f.cost),
            ),
            fleet(
                "cost_per_million_output_tokens",
                "cost of 1M tokens out",
                (Unit::Money, Less),
                ("The cost over the tokens of answers.", |f| {
                    f.cost_per_million_output_tokens
                }),
            ),
            fleet(
                "token_cost",
                "cost of tokens",
                (Unit::Money, Less),
                ("Tokens times the prices of their pools.", |f| f.token_cost),
            ),
            fleet(
                "cross_zone_share",
                "to other zones",
                (Unit::Share, Less),
                (
                    "Share of the attempts that went to an endpoint in another zone than the gateway's.",
                    |f| f.cross_zone_share,
                ),
            ),
            fleet(
                "preemptions",
                "preemptions",
                (Unit::Count, Less),
                (
                    "Times that a running answer lost its cache to others and had to be computed again.",
                    |f| some(f.preemptions),
                ),
            ),
        ],
    )
}

fn some(count: u64) -> Option<f64> {
    Some(count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_key_of_its_own() {
        let all = figures(&Objectives::default());
        let keys: std::collections::BTreeSet<_> = all.iter().map(|figure| &figure.key).collect();
        assert_eq!(keys.len(), all.len());
        for key in OF_PARTS {
            assert!(keys.contains(&key.to_owned()), "{key}");
        }
    }
}
