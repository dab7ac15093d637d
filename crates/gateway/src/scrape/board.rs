//! What is known of one endpoint by its pages, with its age: for people, metrics, and the next event of the scheduler.

use super::decode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weighbridge_core::Time;
use weighbridge_core::signals::Reading;
use weighbridge_wire::metrics::Values;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The engine's own page.
    Engine,
    /// The page of a GPU exporter.
    Gpu,
}

impl Source {
    pub(crate) const ALL: [Self; 2] = [Self::Engine, Self::Gpu];

    /// The word of the API and of metric labels.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Gpu => "gpu",
        }
    }
}

/// What a page said.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Found {
    pub(crate) values: Values,
    /// Loaded adapters; none: it does not say.
    pub(crate) adapters: Option<Vec<Arc<str>>>,
    /// Of the whole page.
    pub(crate) digest: u64,
}

/// One page, as far as this endpoint goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct SignalsAt {
    /// What it said last, and when; none: nothing yet.
    pub(crate) last: Option<(Found, Time)>,
    /// Older than this it counts as nothing.
    pub(crate) fresh_for: Duration,
    /// Why it cannot be read; none: it can.
    pub(crate) error: Option<Arc<str>>,
    /// Attempts that failed.
    pub(crate) errors: u64,
}

impl SignalsAt {
    /// Time since it was read; none: it never was.
    pub(crate) fn age(&self, now: Time) -> Option<Duration> {
        self.last.as_ref().map(|(_, at)| now.since(*at))
    }

    /// Whether what it said counts for nothing any more, or never came.
    pub(crate) fn is_stale(&self, now: Time) -> bool {
        self.age(now).is_none_or(|age| age > self.fresh_for)
    }

    fn fresh(&self, now: Time) -> Option<&Found> {
        self.last
            .as_ref()
            .filter(|_| !self.is_stale(now))
            .map(|(found, _)| found)
    }

    fn is_asked(&self) -> bool {
        self.last.is_some() || self.error.is_some()
    }
}

/// The pages of an endpoint; the same in every snapshot.
#[derive(Default)]
pub(crate) struct Board([Mutex<SignalsAt>; 2]);

impl Board {
    fn lock(&self, source: Source) -> std::sync::MutexGuard<'_, SignalsAt> {
        let [engine, gpu] = &self.0;
        let one = match source {
            Source::Engine => engine,
            Source::Gpu => gpu,
        };
        one.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known by a page; none: it has not been asked yet, or there is none.
    pub(crate) fn at(&self, source: Source) -> Option<SignalsAt> {
        Some(self.lock(source).clone()).filter(SignalsAt::is_asked)
    }

    /// A page was read, which is read so often. True: it had failed before.
    pub(super) fn read(&self, source: Source, (now, interval): (Time, Duration), found: Found) -> bool {
        let mut one = self.lock(source);
        one.last = Some((found, now));
        one.fresh_for = interval.saturating_mul(3);
        one.error.take().is_some()
    }

    /// A page could not be read. True: it could before, or was not asked.
    pub(super) fn failed(&self, source: Source, why: &str) -> bool {
        let mut one = self.lock(source);
        one.errors += 1;
        let first = one.error.is_none();
        if one.error.as_deref() != Some(why) {
            one.error = Some(why.into());
        }
        first
    }

    /// What to tell the scheduler now that a page was read; none: nothing yet.
    ///
    /// A reading has one age there. So the exporter's page alone is told only where the engine's says nothing that still
    /// counts: told together, it would make the engine's old words look new.
    pub(super) fn to_tell(&self, read: Source, now: Time) -> Option<Reading> {
        let engine = self.lock(Source::Engine).clone();
        let gpu = self.lock(Source::Gpu).clone();
        match (read, engine.fresh(now)) {
            (Source::Gpu, Some(_)) => None,
            (_, engine) => Some(decode::reading(engine, gpu.fresh(now))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_wire::metrics::Signal;

    fn found(signal: Signal, value: f64) -> Found {
        let mut found = Found::default();
        found.values.set(signal, Some(value));
        found
    }

    fn at(seconds: f64) -> Time {
        Time::from_origin(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn what_a_page_says_grows_old() {
        let board = Board::default();
        assert!(board.at(Source::Engine).is_none());
        let second = Duration::from_secs(1);
        assert!(!board.read(Source::Engine, (at(10.0), second), found(Signal::Waiting, 1.0)));
        let one = board.at(Source::Engine).unwrap();
        assert!(!one.is_stale(at(13.0)) && one.is_stale(at(13.1)));
        assert_eq!(one.age(at(12.5)), Some(Duration::from_millis(2500)));
        assert!(board.failed(Source::Engine, "refused") && !board.failed(Source::Engine, "refused"));
        let one = board.at(Source::Engine).unwrap();
        assert_eq!((one.errors, one.error.as_deref()), (2, Some("refused")));
        assert!(
            board.read(Source::Engine, (at(20.0), second), found(Signal::Waiting, 1.0)),
            "it is back"
        );
    }

    #[test]
    fn an_exporter_never_makes_an_engines_old_words_new() {
        let board = Board::default();
        let second = Duration::from_secs(1);
        board.read(Source::Gpu, (at(1.0), second), found(Signal::GpuUtilisation, 0.5));
        let told = board.to_tell(Source::Gpu, at(1.0)).unwrap();
        assert_eq!((told.waiting, told.gpu_utilisation), (None, Some(0.5)));
        board.read(Source::Engine, (at(1.5), second), found(Signal::Waiting, 4.0));
        let told = board.to_tell(Source::Engine, at(1.5)).unwrap();
        assert_eq!((told.waiting, told.gpu_utilisation), (Some(4), Some(0.5)));
        board.read(Source::Gpu, (at(2.0), second), found(Signal::GpuUtilisation, 0.6));
        assert_eq!(
            board.to_tell(Source::Gpu, at(2.0)),
            None,
            "the engine's word still counts"
        );
        board.read(Source::Gpu, (at(5.0), second), found(Signal::GpuUtilisation, 0.7));
        let told = board.to_tell(Source::Gpu, at(5.0)).unwrap();
        assert_eq!(
            (told.waiting, told.gpu_utilisation),
            (None, Some(0.7)),
            "the engine's word is old"
        );
    }
}
