//! A run over time and its distribution of first tokens, reduced to what a plot can show.
//!
//! The size does not depend on the run: at most [`BINS`] points over time, [`RATIO_BINS`] of the hit ratio, [`SHARES`] of the
//! distribution, and [`ROWS`] endpoints, above which the fleet is reduced to quantiles.

use super::distribution::Sorted;
use super::summary::ttft;
use crate::outcome::{EndpointRun, Fate, Record, Run};
use std::time::Duration;

/// Points over time.
pub const BINS: usize = 120;
/// Points of the hit ratio: fewer, since each needs requests enough.
pub const RATIO_BINS: usize = 40;
/// Points of the distribution.
pub const SHARES: usize = 200;
/// Endpoints that are shown one by one.
pub const ROWS: usize = 24;

/// What the plots of one run show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    /// Length of the run, seconds.
    pub span: f64,
    /// Seconds to the first token, and the share of all requests that had theirs by then.
    pub first_tokens: Vec<(f64, f64)>,
    /// Hit ratio of the requests that arrived in each part of the run; none: none did.
    pub hit_ratio: Vec<Option<f64>>,
    /// Most requests that waited at once, in each part of the run.
    pub waiting: Vec<f64>,
    /// Running and waiting sequences per endpoint.
    pub load: Load,
    /// Seconds that the load covers.
    pub load_span: f64,
}

/// Load of the endpoints over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Endpoint by endpoint.
    Each(Vec<EndpointLoad>),
    /// Least, 10 %, half, 90 % and most over the endpoints in service, for each part of the run.
    Bands {
        /// How many endpoints took part.
        endpoints: usize,
        /// Five quantiles each; none: nothing was in service.
        bands: Vec<Option<[f64; 5]>>,
    },
}

impl Default for Load {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

/// One endpoint over time.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointLoad {
    /// Pool and name.
    pub name: String,
    /// Mean of running and waiting sequences in each part of the run; none: not in service.
    pub parts: Vec<Option<f64>>,
}

impl Curves {
    /// Of a run.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        let points = run
            .endpoints
            .iter()
            .map(|endpoint| endpoint.points.len())
            .max()
            .unwrap_or_default();
        Self {
            span: run.ended.as_secs_f64(),
            first_tokens: first_tokens(&run.records),
            hit_ratio: hit_ratio(&run.records, run.ended),
            waiting: waiting(&run.records, run.ended),
            load: load(&run.endpoints, points),
            load_span: run.step.as_secs_f64() * points as f64,
        }
    }

    /// Largest load that a plot must show.
    #[must_use]
    pub fn load_most(&self) -> f64 {
        match &self.load {
            Load::Each(endpoints) => {
                let all = endpoints
                    .iter()
                    .flat_map(|endpoint| endpoint.parts.iter().flatten());
                all.copied().fold(0.0, f64::max)
            }
            Load::Bands { bands, .. } => bands
                .iter()
                .flatten()
                .map(|quantiles| quantiles[4])
                .fold(0.0, f64::max),
        }
    }
}

fn first_tokens(records: &[Record]) -> Vec<(f64, f64)> {
    let answered = records.iter().filter(|record| record.fate == Fate::Answered);
    let sorted = Sorted::of(
        answered
            .filter_map(ttft)
            .map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
    );
    let mut ranks: Vec<usize> = (0..=SHARES)
        .map(|at| (sorted.len() * at).div_ceil(SHARES).max(1))
        .collect();
    ranks.dedup();
    let point = |rank: usize| Some((sorted.at_rank(rank)?, rank as f64 / records.len() as f64));
    ranks.into_iter().filter_map(point).collect()
}

/// The part of the run that `at` falls into.
fn part(at: Duration, ended: Duration, parts: usize) -> usize {
    let share = at.as_secs_f64() / ended.as_secs_f64().max(f64::MIN_POSITIVE);
    ((share * parts as f64) as usize).min(parts - 1)
}

fn hit_ratio(records: &[Record], ended: Duration) -> Vec<Option<f64>> {
    let mut tokens = [(0_u64, 0_u64); RATIO_BINS];
    for record in records.iter().filter(|record| record.scheduled.is_some()) {
        let (cached, prompt) = &mut tokens[part(record.arrived, ended, RATIO_BINS)];
        *cached += u64::from(record.cached_tokens);
        *prompt += u64::from(record.prompt_tokens);
    }
    tokens
        .iter()
        .map(|&(cached, prompt)| (prompt > 0).then(|| cached as f64 / prompt as f64))
        .collect()
}

/// Requests that arrived and that no engine has begun with, most at once in each part.
fn waiting(records: &[Record], ended: Duration) -> Vec<f64> {
    let mut changes: Vec<(Duration, i64)> = Vec::with_capacity(records.len() * 2);
    for record in records {
        changes.push((record.arrived, 1));
        changes.push((record.scheduled.unwrap_or(record.ended), -1));
    }
    // Those that leave first, so that a request that does not wait counts for nothing.
    changes.sort_unstable();
    let mut most = vec![0_i64; BINS];
    let (mut now, mut last) = (0_i64, 0);
    for (at, change) in changes {
        let place = part(at, ended, BINS);
        for skipped in &mut most[last + 1..=place.max(last)] {
            *skipped = (*skipped).max(now);
        }
        now += change;
        last = last.max(place);
        most[last] = most[last].max(now);
    }
    most.into_iter().map(|most| most as f64).collect()
}

fn load(endpoints: &[EndpointRun], points: usize) -> Load {
    let bins = points.min(BINS);
    let parts = |endpoint: &EndpointRun| -> Vec<Option<f64>> {
        (0..bins)
            .map(|bin| mean_load(endpoint, bin * points / bins, (bin + 1) * points / bins))
            .collect()
    };
    if endpoints.len() <= ROWS {
        let each = |endpoint: &EndpointRun| EndpointLoad {
            name: format!("{}/{}", endpoint.pool, endpoint.name),
            parts: parts(endpoint),
        };
        return Load::Each(endpoints.iter().map(each).collect());
    }
    let all: Vec<Vec<Option<f64>>> = endpoints.iter().map(parts).collect();
    let band = |bin: usize| {
        let mut loads: Vec<f64> = all.iter().filter_map(|parts| parts[bin]).collect();
        loads.sort_unstable_by(f64::total_cmp);
        let quantile = |percent: usize| {
            loads
                .get((loads.len() * percent).div_ceil(100).max(1) - 1)
                .copied()
        };
        Some([
            quantile(0)?,
            quantile(10)?,
            quantile(50)?,
            quantile(90)?,
            quantile(100)?,
        ])
    };
    Load::Bands {
        endpoints: endpoints.len(),
        bands: (0..bins).map(band).collect(),
    }
}

/// Mean of running and waiting sequences while in service; none where it is down all the time, or not there.
fn mean_load(endpoint: &EndpointRun, from: usize, to: usize) -> Option<f64> {
    let points = endpoint.points.get(from..to.min(endpoint.points.len()))?;
    let up = || points.iter().filter(|point| point.up);
    let sum: u64 = up()
        .map(|point| u64::from(point.running) + u64::from(point.waiting))
        .sum();
    let count = up().count();
    (count > 0).then(|| sum as f64 / count as f64)
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;
    use crate::outcome::Point;

    #[test]
    fn few_endpoints_are_shown_one_by_one_and_many_as_quantiles() {
        let few = Curves::of(&samples::run("plain", 1, 8));
        let Load::Each(endpoints) = &few.load else {
            panic!("{:?}", few.load)
        };
        assert_eq!(endpoints.len(), 8);
        assert!(endpoints[0].parts.len() <= BINS);
        let many = Curves::of(&samples::run("plain", 1, 200));
        let Load::Bands { endpoints, bands } = &many.load else {
            panic!("{:?}", many.load)
        };
        assert_eq!(*endpoints, 200);
        for quantiles in bands.iter().flatten() {
            assert!(quantiles.is_sorted(), "{quantiles:?}");
        }
    }

    #[test]
    fn the_distribution_ends_at_the_share_that_was_answered() {
        let run = samples::run("plain", 1, 4);
        let curves = Curves::of(&run);
        let answered = run
            .records
            .iter()
            .filter(|record| record.fate == Fate::Answered)
            .count();
        let (_, last) = *curves.first_tokens.last().unwrap();
        assert!((last - answered as f64 / run.records.len() as f64).abs() < 1e-9);
        assert!(last < 1.0, "the sample has some that are not");
        assert!(curves.first_tokens.len() <= SHARES + 1);
        assert!(
            curves
                .first_tokens
                .is_sorted_by(|one, other| one.0 <= other.0 && one.1 <= other.1)
        );
    }

    #[test]
    fn waiting_is_the_most_at_once_and_lasts_until_an_engine_begins() {
        let record = |arrived: u64, scheduled: u64| Record {
            arrived: Duration::from_secs(arrived),
            scheduled: Some(Duration::from_secs(scheduled)),
            ..samples::run("plain", 1, 1).records[0]
        };
        // One waits through many parts in which nothing happens, two more at its end; one does not wait at all.
        let records = [record(10, 60), record(50, 60), record(55, 60), record(80, 80)];
        let waiting = waiting(&records, Duration::from_secs(120));
        for (second, expect) in [
            (5, 0.0),
            (10, 1.0),
            (30, 1.0),
            (50, 2.0),
            (57, 3.0),
            (60, 3.0),
            (61, 0.0),
            (80, 0.0),
            (119, 0.0),
        ] {
            assert_eq!(waiting[second], expect, "second {second}: {waiting:?}");
        }
    }

    #[test]
    fn an_endpoint_that_is_down_has_no_load() {
        let point = |up| Point {
            running: 4,
            waiting: 2,
            up,
            ..Point::default()
        };
        let endpoint = EndpointRun {
            points: vec![point(true), point(false), point(false)],
            ..EndpointRun::default()
        };
        let Load::Each(endpoints) = load(&[endpoint], 4) else {
            panic!()
        };
        assert_eq!(
            endpoints[0].parts,
            [Some(6.0), None, None, None],
            "the last: it has left"
        );
    }

    #[test]
    fn nothing_gives_empty_curves() {
        let curves = Curves::of(&Run::default());
        assert_eq!(curves.load_most(), 0.0);
        assert!(curves.first_tokens.is_empty());
    }
}
