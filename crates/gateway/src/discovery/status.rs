//! How a source is doing.

use super::watch::Look;
use crate::clock::rfc3339;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use weighbridge_config::discovery::Discovery;

/// What is known of a source's looks so far.
#[derive(Clone, Default)]
pub(super) struct Status {
    /// When it last said what the endpoints are.
    good: Option<(Instant, SystemTime)>,
    /// The newest failure.
    failure: Option<(SystemTime, Arc<str>)>,
    /// Whether the newest look failed, wholly or in part.
    failing: bool,
    errors: u64,
    changes: u64,
}

/// A source, as people see it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct SourceShown {
    /// `dns` or `file`.
    pub kind: &'static str,
    /// The source in words.
    pub source: String,
    /// Endpoints that it named last.
    pub endpoints: usize,
    /// When it last said what the endpoints are, RFC 3339; null: not yet.
    pub last_success: Option<String>,
    /// Seconds since then.
    pub age_seconds: Option<f64>,
    /// Whether the newest look failed.
    pub failing: bool,
    /// What the newest failure was, over or not.
    pub last_error: Option<String>,
    /// When that was, RFC 3339.
    pub last_error_time: Option<String>,
    /// Looks that failed, wholly or in part.
    pub errors: u64,
    /// How often what it names has changed, the first answer included.
    pub changes: u64,
}

impl Status {
    /// Takes note of a look, and tells the log of what begins and ends.
    pub(super) fn note(&mut self, pool: &str, discovery: &Discovery, look: &Look) {
        if look.answered {
            self.good = Some((Instant::now(), SystemTime::now()));
        }
        let source = discovery.shown();
        let Some(error) = &look.error else {
            if std::mem::take(&mut self.failing) {
                tracing::info!(pool, source, "discovery works again");
            }
            return;
        };
        let is_news = !self.failing
            || self
                .failure
                .as_ref()
                .is_none_or(|(_, before)| **before != **error);
        if is_news {
            tracing::warn!(pool, source, %error, "discovery fails, the endpoints known so far stay");
        }
        self.failing = true;
        self.errors += 1;
        self.failure = Some((SystemTime::now(), error.as_str().into()));
    }

    /// What it names is another set.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    pub(super) fn shown(&self, discovery: &Discovery, endpoints: usize) -> SourceShown {
        let age = |(at, _): (Instant, SystemTime)| Instant::now().saturating_duration_since(at);
        SourceShown {
            kind: match discovery {
                Discovery::Dns(_) => "dns",
                Discovery::File(_) => "file",
            },
            source: discovery.shown(),
            endpoints,
            last_success: self.good.map(|(_, time)| rfc3339(time)),
            age_seconds: self.good.map(age).as_ref().map(Duration::as_secs_f64),
            failing: self.failing,
            last_error: self.failure.as_ref().map(|(_, error)| error.to_string()),
            last_error_time: self.failure.as_ref().map(|(time, _)| rfc3339(*time)),
            errors: self.errors,
            changes: self.changes,
        }
    }
}
