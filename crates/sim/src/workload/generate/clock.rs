//! When things arrive: gaps of mean 1, stretched by a rate that changes over time.
//!
//! A renewal process at rate 1 runs on the integral of the rate; turning the integral round gives times. So bunches keep
//! their shape while the rate changes, and the rate is exact. It is constant in pieces: a sinusoid is followed in steps.

use crate::workload::random::Stream;
use crate::workload::spec::{Arrivals, Burst, Diurnal, Process};
use std::time::Duration;

/// Steps in which a period of a sinusoid is followed: five minutes of a day.
const STEPS: u64 = 288;

pub(super) struct Clock<'a> {
    arrivals: &'a Arrivals,
    chance: Stream,
    /// Nanoseconds.
    now: u64,
    end: u64,
    begun: bool,
}

/// Longest time that is looked at: a year.
const YEAR: u64 = 31_536_000_000_000_000;

/// The rate now, and until when it stays.
#[derive(Clone, Copy)]
struct Piece {
    rate: f64,
    until: u64,
}

impl<'a> Clock<'a> {
    pub(super) fn new(arrivals: &'a Arrivals, end: Option<Duration>, chance: Stream) -> Self {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let stages: u64 = arrivals
            .stages
            .iter()
            .fold(0, |sum, stage| sum.saturating_add(stage.duration.nanos()));
        let stages = if arrivals.stages.is_empty() {
            u64::MAX
        } else {
            stages
        };
        Self {
            arrivals,
            chance,
            now: 0,
            end: end.map_or(YEAR, nanos).min(stages).min(YEAR),
            begun: false,
        }
    }

    /// Whether it would go on beyond the longest time.
    pub(super) fn endless(&self) -> bool {
        self.end == YEAR
    }

    /// The next arrival; None: there is none before the end.
    pub(super) fn next(&mut self) -> Option<Duration> {
        let mut gap = match self.arrivals.process {
            Process::Poisson => self.chance.exponential(),
            Process::Gamma => self.chance.gamma(self.arrivals.cv.unwrap_or(1.0)),
            // Half a gap before the first, so that a stage of r per second and d seconds has r·d arrivals.
            Process::Constant if !self.begun => 0.5,
            Process::Constant => 1.0,
        };
        self.begun = true;
        while self.now < self.end {
            let piece = self.piece();
            let until = piece.until.min(self.end);
            let inside = piece.rate * (until - self.now) as f64 / 1e9;
            if gap < inside {
                self.now = self
                    .now
                    .saturating_add((gap / piece.rate * 1e9).round() as u64)
                    .min(until);
                return (self.now < self.end).then(|| Duration::from_nanos(self.now));
            }
            gap -= inside;
            self.now = until;
        }
        None
    }

    fn piece(&self) -> Piece {
        let mut piece = self.base();
        for burst in &self.arrivals.bursts {
            let (factor, until) = burst_at(burst, self.now);
            piece.rate *= factor;
            piece.until = piece.until.min(until);
        }
        if let Some(diurnal) = &self.arrivals.diurnal {
            let (factor, until) = diurnal_at(diurnal, self.now);
            piece.rate *= factor;
            piece.until = piece.until.min(until);
        }
        piece
    }

    fn base(&self) -> Piece {
        if let Some(rate) = self.arrivals.rate {
            return Piece {
                rate,
                until: u64::MAX,
            };
        }
        let mut until = 0_u64;
        for stage in &self.arrivals.stages {
            until = until.saturating_add(stage.duration.nanos());
            if self.now < until {
                return Piece {
                    rate: stage.rate,
                    until,
                };
            }
        }
        Piece {
            rate: 0.0,
            until: u64::MAX,
        }
    }
}

fn burst_at(burst: &Burst, now: u64) -> (f64, u64) {
    let (from, lasts) = (burst.from.nanos(), burst.lasts.nanos());
    let Some(since) = now.checked_sub(from) else {
        return (1.0, from);
    };
    let every = burst.every.map_or(u64::MAX, |every| every.nanos().max(1));
    let begun = now - since % every;
    if since % every < lasts {
        (burst.factor, begun.saturating_add(lasts))
    } else {
        (1.0, begun.saturating_add(every))
    }
}

fn diurnal_at(diurnal: &Diurnal, now: u64) -> (f64, u64) {
    let step = (diurnal.period.nanos() / STEPS).max(1);
    let place = now / step;
    let phase = (place as f64 + 0.5) / STEPS as f64 * std::f64::consts::TAU;
    let swing = (diurnal.peak_ratio - 1.0) / (diurnal.peak_ratio + 1.0);
    let until = (place + 1).saturating_mul(step);
    (1.0 - swing * libm::cos(phase), until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::spec::{Span, Stage};

    fn seconds(arrivals: &Arrivals, end: u64) -> Vec<f64> {
        let end = Some(Duration::from_secs(end));
        let mut clock = Clock::new(arrivals, end, Stream::new(1, "test"));
        std::iter::from_fn(|| clock.next())
            .map(|at| at.as_secs_f64())
            .collect()
    }

    fn count(times: &[f64], from: f64, to: f64) -> f64 {
        times.iter().filter(|at| (from..to).contains(*at)).count() as f64
    }

    fn near(got: f64, wanted: f64, tolerance: f64) {
        assert!(
            (got / wanted - 1.0).abs() < tolerance,
            "{got} instead of {wanted}"
        );
    }

    fn rate(rate: f64) -> Arrivals {
        Arrivals {
            rate: Some(rate),
            ..Arrivals::default()
        }
    }

    /// Rate and coefficient of variation of the gaps.
    fn moments(times: &[f64]) -> (f64, f64) {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (1.0 / mean, variance.sqrt() / mean)
    }

    #[test]
    fn gaps_have_the_rate_and_the_variation_of_their_process() {
        for (process, cv) in [
            (Process::Poisson, None),
            (Process::Gamma, Some(3.0)),
            (Process::Gamma, Some(0.5)),
        ] {
            let times = seconds(
                &Arrivals {
                    process,
                    cv,
                    ..rate(20.0)
                },
                2000,
            );
            let (got, variation) = moments(&times);
            near(got, 20.0, 0.05);
            near(variation, cv.unwrap_or(1.0), 0.05);
        }
    }

    #[test]
    fn equal_gaps_fill_their_stages_exactly() {
        let stage = |rate, seconds| Stage {
            rate,
            duration: Span::seconds(seconds),
        };
        let arrivals = Arrivals {
            process: Process::Constant,
            stages: vec![stage(9.0, 30), stage(0.0, 10), stage(3.0, 20)],
            ..Arrivals::default()
        };
        let times = seconds(&arrivals, 1000);
        assert_eq!(times.len(), 330);
        assert_eq!(
            (count(&times, 0.0, 30.0), count(&times, 30.0, 40.0)),
            (270.0, 0.0)
        );
    }

    #[test]
    fn bursts_multiply_come_again_and_can_silence() {
        let burst = |from, lasts, factor, every: Option<u64>| Burst {
            from: Span::seconds(from),
            lasts: Span::seconds(lasts),
            factor,
            every: every.map(Span::seconds),
        };
        let bursts = vec![burst(100, 50, 4.0, None), burst(200, 100, 0.0, Some(400))];
        let times = seconds(&Arrivals { bursts, ..rate(50.0) }, 1000);
        near(count(&times, 0.0, 100.0), 5_000.0, 0.05);
        near(count(&times, 100.0, 150.0), 10_000.0, 0.05);
        near(count(&times, 300.0, 600.0), 15_000.0, 0.05);
        assert_eq!(count(&times, 200.0, 300.0) + count(&times, 600.0, 700.0), 0.0);
    }

    #[test]
    fn a_day_swings_between_trough_and_peak_around_its_rate() {
        let diurnal = Some(Diurnal {
            period: Span::seconds(3600),
            peak_ratio: 3.0,
        });
        let times = seconds(
            &Arrivals {
                diurnal,
                ..rate(20.0)
            },
            7200,
        );
        near(times.len() as f64, 144_000.0, 0.02);
        // Trough and peak, 300 s around each: 10 and 30 per second.
        near(count(&times, 3450.0, 3750.0), 3_000.0, 0.1);
        near(count(&times, 1650.0, 1950.0), 9_000.0, 0.05);
    }
}
