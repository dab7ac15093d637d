//! From windows to figures: one value per round, then the median and the range over the rounds.

use super::load::{Measure, Window};
use super::peers::PeerKind;
use serde::Serialize;
use std::collections::BTreeMap;

/// The windows of one round.
#[derive(Default)]
pub(super) struct Round(BTreeMap<(PeerKind, Measure), Window>);

impl Round {
    pub(super) fn add(&mut self, peer: PeerKind, measure: Measure, window: Window) {
        self.0.insert((peer, measure), window);
    }

    fn window(&self, peer: PeerKind, measure: Measure) -> Option<&Window> {
        self.0.get(&(peer, measure))
    }

    /// What `peer` adds to what the same round measured without a proxy.
    fn added(&self, peer: PeerKind, measure: Measure, time: fn(&Window) -> Option<f64>) -> Option<f64> {
        if peer == PeerKind::Direct {
            return None;
        }
        let direct = time(self.window(PeerKind::Direct, measure)?)?;
        Some(time(self.window(peer, measure)?)? - direct)
    }
}

/// One figure of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Figure {
    pub(super) median: f64,
    min: f64,
    max: f64,
}

impl Figure {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median = match values.len() % 2 {
            0 => f64::midpoint(upper, values[middle - 1]),
            _ => upper,
        };
        Some(Self {
            median,
            min: *values.first()?,
            max: *values.last()?,
        })
    }
}

/// A column of the table.
pub(super) struct Column {
    /// In the JSON.
    pub(super) key: &'static str,
    /// In the table.
    pub(super) title: &'static str,
    value: fn(&Round, PeerKind) -> Option<f64>,
}

/// What a window of `measure` cost per unit of work.
fn per(round: &Round, peer: PeerKind, measure: Measure, work: fn(&Window) -> Option<u64>) -> Option<f64> {
    let window = round.window(peer, measure)?;
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let work = work(window)? as f64;
    Some(window.cpu_us? / work)
}

/// All columns but those of memory at rest.
pub(super) const COLUMNS: [Column; 8] = [
    Column {
        key: "cpu_us_per_request",
        title: "CPU µs per request",
        value: |round, peer| {
            per(round, peer, Measure::Requests, |window| {
                Some(window.said.requests)
            })
        },
    },
    Column {
        key: "requests_per_second",
        title: "requests/s, 64 conns",
        value: |round, peer| Some(round.window(peer, Measure::Requests)?.said.rps),
    },
    Column {
        key: "cpu_us_per_request_1",
        title: "CPU µs, 1 conn",
        value: |round, peer| per(round, peer, Measure::Latency, |window| Some(window.said.requests)),
    },
    Column {
        key: "added_p50_us",
        title: "added p50 µs",
        value: |round, peer| round.added(peer, Measure::Latency, |window| Some(window.said.latency_us.p50)),
    },
    Column {
        key: "added_p99_us",
        title: "added p99 µs",
        value: |round, peer| round.added(peer, Measure::Latency, |window| Some(window.said.latency_us.p99)),
    },
    Column {
        key: "added_first_chunk_us",
        title: "added first chunk µs",
        value: |round, peer| {
            round.added(peer, Measure::FirstChunk, |window| {
                Some(window.said.first_chunk_us?.p50)
            })
        },
    },
    Column {
        key: "cpu_us_per_chunk",
        title: "CPU µs per chunk",
        value: |round, peer| per(round, peer, Measure::Chunks, |window| window.said.events),
    },
    Column {
        key: "rss_loaded_mib",
        title: "RSS loaded MiB",
        value: |round, peer| {
            let most = Measure::ALL
                .iter()
                .filter_map(|measure| round.window(peer, *measure))
                .map(|window| window.rss_mib)
                .fold(0.0, f64::max);
            (most > 0.0).then_some(most)
        },
    },
];

/// The figures of one peer, by the key of their column.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// None without a router.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rss_idle_mib: Option<f64>,
    #[serde(flatten)]
    pub(super) by_key: BTreeMap<&'static str, Figure>,
}

/// The figures of every peer.
pub(super) fn of_rounds(peers: &[PeerKind], idle: &[f64], rounds: &[Round]) -> Vec<(PeerKind, Figures)> {
    let of_peer = |(peer, rss_idle_mib): (&PeerKind, &f64)| {
        let by_key = COLUMNS
            .iter()
            .filter_map(|column| {
                let values = rounds.iter().filter_map(|round| (column.value)(round, *peer));
                Some((column.key, Figure::of(values)?))
            })
            .collect();
        let figures = Figures {
            rss_idle_mib: Some(*rss_idle_mib).filter(|mib| *mib > 0.0),
            by_key,
        };
        (*peer, figures)
    };
    peers.iter().zip(idle).map(of_peer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        let of = |values: &[f64]| Figure::of(values.iter().copied());
        let figure = |median, min, max| Some(Figure { median, min, max });
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0]), figure(3.0, 3.0, 3.0));
        assert_eq!(of(&[3.0, 1.0, 2.0]), figure(2.0, 1.0, 3.0));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), figure(2.5, 1.0, 4.0));
    }
}
