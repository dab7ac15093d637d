//! What became of every request, from the gateway's own request log, and whether an engine's death explains each failure.

use super::memory::Memory;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};
use weighbridge_gateway::Gateway;

/// Failures and kills that are remembered; all are counted.
const KEPT: usize = 10_000;
/// Decisions that are looked through for that of a failed request.
const DECISIONS: usize = 256;
/// Words for requests that no engine ever had.
const UNWRITTEN: [&str; 5] = [
    "connect_error",
    "unavailable",
    "rejected",
    "rate_limited",
    "client_error",
];
/// Seconds that a connection of a dead engine may still look usable: until the thread that holds it has been told.
const SLACK: f64 = 0.25;

/// The book of the demo.
#[derive(Default)]
pub(super) struct Ledger {
    gateway: OnceLock<Weak<Gateway>>,
    book: Mutex<Book>,
    pub(super) memory: Memory,
}

/// The figures.
#[derive(Clone, Default)]
pub(super) struct Book {
    pub(super) requests: u64,
    /// By outcome, in the words of the metrics.
    pub(super) outcomes: BTreeMap<String, u64>,
    /// Ended at this engine: complete answers, and failures.
    pub(super) by_engine: BTreeMap<String, (u64, u64)>,
    /// Failures that no engine's death explains.
    pub(super) unexplained: u64,
    pub(super) failures: VecDeque<Failure>,
    pub(super) kills: VecDeque<Kill>,
    pub(super) killed: u64,
}

/// A request that failed. Times in Unix seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Failure {
    request_id: String,
    route: String,
    /// Where the last attempt went.
    endpoint: String,
    outcome: String,
    status: u16,
    reason: String,
    attempts: u32,
    /// When the last attempt began.
    attempt_began: f64,
    failed: f64,
    /// Whether its last attempt had reached an engine.
    pub(super) written: bool,
    /// Whether that engine died while it had the request.
    pub(super) engine_died: bool,
}

/// The death of an engine. Times in Unix seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Kill {
    engine: String,
    began: f64,
    /// When all its connections were closed; none: not yet.
    done: Option<f64>,
    /// None: it is still dead.
    revived: Option<f64>,
}

/// The part of a line of the request log that counts here.
#[derive(Deserialize)]
struct Line {
    time: String,
    request_id: String,
    #[serde(default)]
    route: String,
    #[serde(default)]
    endpoint: String,
    total_ms: f64,
    attempts: u32,
    outcome: String,
    status: u16,
    #[serde(default)]
    reason: String,
}

impl Ledger {
    /// Looks up decisions at this gateway from now on.
    pub(super) fn watch(&self, gateway: &Arc<Gateway>) {
        let _ = self.gateway.set(Arc::downgrade(gateway));
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An engine is about to be killed.
    pub(super) fn dies(&self, engine: &str) {
        let mut book = self.book();
        book.killed += 1;
        push(
            &mut book.kills,
            Kill {
                engine: engine.to_owned(),
                began: unix_now(),
                done: None,
                revived: None,
            },
        );
    }

    /// The engine killed last under this name has lost all its connections.
    pub(super) fn died(&self, engine: &str) {
        self.amend(engine, |kill| kill.done = Some(unix_now()));
    }

    /// It is back.
    pub(super) fn revived(&self, engine: &str) {
        self.amend(engine, |kill| kill.revived = Some(unix_now()));
    }

    fn amend(&self, engine: &str, change: impl FnOnce(&mut Kill)) {
        if let Some(kill) = self
            .book()
            .kills
            .iter_mut()
            .rev()
            .find(|kill| kill.engine == engine)
        {
            change(kill);
        }
    }

    fn enter(&self, line: Line) {
        // Looked up before the book is locked, which traffic and table wait for.
        let failed = is_failure(&line.outcome);
        let attempt_began = failed.then(|| self.attempt_began(&line));
        self.book().enter(line, attempt_began);
    }

    /// When the last attempt of a request began, by the decision that led to it; else when the request did.
    fn attempt_began(&self, line: &Line) -> f64 {
        let decided = self.gateway.get().and_then(Weak::upgrade).and_then(|gateway| {
            let taken = gateway.decisions().latest(&line.route, DECISIONS);
            let mine = taken
                .into_iter()
                .find(|taken| *taken.request_id == *line.request_id && taken.refused.is_none())?;
            Some(unix(mine.time))
        });
        decided.unwrap_or_else(|| began(line))
    }
}

impl Book {
    fn enter(&mut self, line: Line, attempt_began: Option<f64>) {
        self.requests += 1;
        *self.outcomes.entry(line.outcome.clone()).or_default() += 1;
        let (ok, failed) = self.by_engine.entry(line.endpoint.clone()).or_default();
        *ok += u64::from(line.outcome == "ok");
        *failed += u64::from(attempt_began.is_some());
        let Some(attempt_began) = attempt_began else {
            return;
        };
        let ended = began(&line) + line.total_ms / 1e3;
        let written = !UNWRITTEN.contains(&line.outcome.as_str());
        let engine_died = written && self.died_during(&line.endpoint, attempt_began, ended);
        self.unexplained += u64::from(!engine_died);
        let failure = Failure {
            request_id: line.request_id,
            route: line.route,
            endpoint: line.endpoint,
            outcome: line.outcome,
            status: line.status,
            reason: line.reason,
            attempts: line.attempts,
            attempt_began,
            failed: ended,
            written,
            engine_died,
        };
        push(&mut self.failures, failure);
    }

    fn died_during(&self, engine: &str, began: f64, ended: f64) -> bool {
        self.kills
            .iter()
            .filter(|kill| kill.engine == engine)
            .any(|kill| kill.began <= ended + SLACK && kill.done.is_none_or(|done| began <= done + SLACK))
    }

    /// Requests that failed.
    pub(super) fn failed(&self) -> u64 {
        let failed = self.outcomes.iter().filter(|(word, _)| is_failure(word));
        failed.map(|(_, count)| count).sum()
    }

    /// Requests with this outcome.
    pub(super) fn count(&self, outcome: &str) -> u64 {
        self.outcomes.get(outcome).copied().unwrap_or_default()
    }
}

/// A client that left, or sent nonsense, is no failure of ours.
fn is_failure(outcome: &str) -> bool {
    !matches!(outcome, "ok" | "client_closed" | "client_error")
}

fn began(line: &Line) -> f64 {
    let stamp = line.time.parse::<jiff::Timestamp>();
    stamp.map_or_else(|_| unix_now(), |stamp| stamp.as_duration().as_secs_f64())
}

fn push<T>(kept: &mut VecDeque<T>, new: T) {
    if kept.len() == KEPT {
        kept.pop_front();
    }
    kept.push_back(new);
}

fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn unix_now() -> f64 {
    unix(SystemTime::now())
}

/// Takes the gateway's request log.
pub(super) struct Tap {
    ledger: Arc<Ledger>,
    /// The start of a line whose end has not come.
    rest: Vec<u8>,
}

impl Tap {
    pub(super) fn new(ledger: Arc<Ledger>) -> Self {
        Self {
            ledger,
            rest: Vec::new(),
        }
    }
}

impl io::Write for Tap {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                match serde_json::from_slice(&self.rest) {
                    Ok(line) => self.ledger.enter(line),
                    Err(error) => tracing::error!(%error, "a line of the request log cannot be read"),
                }
                self.rest.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn kill(engine: &str, began: f64, done: Option<f64>) -> Kill {
        Kill {
            engine: engine.into(),
            began,
            done,
            revived: None,
        }
    }

    /// A request that began at second 1000 and took two, with its last attempt from the start.
    fn explained(outcome: &str, kills: &[Kill]) -> bool {
        let ledger = Arc::new(Ledger::default());
        ledger.book().kills.extend(kills.iter().cloned());
        let line = format!(
            "{{\"time\":\"1970-01-01T00:16:40.000Z\",\"request_id\":\"r\",\"endpoint\":\"a\",\"total_ms\":2000.0,\
             \"attempts\":1,\"outcome\":\"{outcome}\",\"status\":502,\"route\":\"m\"}}\n"
        );
        let mut tap = Tap::new(ledger.clone());
        let (first, second) = line.split_at(40);
        tap.write_all(first.as_bytes()).unwrap();
        tap.write_all(second.as_bytes()).unwrap();
        let book = ledger.book();
        assert_eq!((book.requests, book.failed(), book.failures.len()), (1, 1, 1));
        assert_eq!(book.unexplained, u64::from(!book.failures[0].engine_died));
        book.failures[0].engine_died
    }

    #[test]
    fn a_failure_is_explained_by_a_death_under_it_and_by_nothing_else() {
        assert!(explained("upstream_error", &[kill("a", 1001.0, Some(1001.1))]));
        assert!(explained("upstream_stream_error", &[kill("a", 1001.0, None)]));
        assert!(!explained("upstream_error", &[]));
        assert!(!explained("upstream_error", &[kill("b", 1001.0, Some(1001.1))]));
        assert!(
            !explained("upstream_error", &[kill("a", 1003.0, None)]),
            "it died after"
        );
        assert!(
            !explained("upstream_error", &[kill("a", 990.0, Some(990.1))]),
            "it was dead before"
        );
        assert!(
            !explained("unavailable", &[kill("a", 1001.0, None)]),
            "no engine had it"
        );
    }

    #[test]
    fn only_failures_of_ours_are_failures() {
        assert!(
            ["ok", "client_closed", "client_error"]
                .iter()
                .all(|word| !is_failure(word))
        );
        assert!(is_failure("upstream_truncated") && is_failure("timeout"));
    }
}
