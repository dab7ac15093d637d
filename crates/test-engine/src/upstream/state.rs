//! What the connections, the control endpoints and the handle of one upstream share.

use super::http2::Http2;
use super::mode::Mode;
use super::record::Record;
use crate::clock;
use serde::Serialize;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tokio::sync::{mpsc, oneshot, watch};

/// Every upstream of this process, for `/__all`.
static ALL: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

/// Locks, and goes on if a thread panicked while holding the lock: a test that fails reports itself.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counters of an upstream. `peak`, `total`, `aborted` and `conns` count from the last reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Name of the upstream.
    pub name: String,
    /// Requests being answered now.
    pub in_flight: u64,
    /// Most requests answered at once.
    pub peak: u64,
    /// Requests, probes included.
    pub total: u64,
    /// Requests whose peer went away before the answer was complete.
    pub aborted: u64,
    /// Connections accepted.
    pub conns: u64,
    /// Connections open now.
    pub open: u64,
    /// Scripted modes not used yet.
    pub script_left: usize,
}

/// What the control endpoints and the handle set; applies until the next reset.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) mode: String,
    pub(crate) health: u16,
    pub(crate) metrics_status: u16,
    /// What `/metrics` says in place of its own few gauges.
    pub(crate) metrics: Option<String>,
    /// What `/metrics` and `/load` say; absent: the truth.
    pub(crate) running: Option<f64>,
    pub(crate) waiting: f64,
    pub(crate) kv: f64,
    pub(crate) models: Vec<String>,
    pub(crate) http2: Http2,
}

impl Settings {
    /// Whether the next stream of HTTP/2 is refused.
    pub(crate) fn refuses(&mut self) -> bool {
        let refuses = self.http2.refuse > 0;
        self.http2.refuse -= u64::from(refuses);
        refuses
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mode: String::new(),
            health: 200,
            metrics_status: 200,
            metrics: None,
            running: None,
            waiting: 0.0,
            kv: 0.1,
            models: vec!["mock-model".to_owned()],
            http2: Http2::default(),
        }
    }
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) log: Vec<Arc<Mutex<Record>>>,
    pub(crate) script: VecDeque<Option<String>>,
    pub(crate) settings: Settings,
    in_flight: u64,
    peak: u64,
    total: u64,
    aborted: u64,
    conns: u64,
    open: u64,
}

/// Orders to the task that listens. Each is answered when it has been carried out.
pub(crate) enum Order {
    /// Stop listening and close idle connections; with `kill`, reset every connection.
    Stop { kill: bool, done: oneshot::Sender<()> },
    /// Listen again on the same port.
    Listen { done: oneshot::Sender<()> },
    /// End the thread.
    Quit,
}

pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) addr: SocketAddr,
    /// Keys that apply to every answer, below the mode of the request.
    pub(crate) base: Mode,
    pub(crate) orders: mpsc::UnboundedSender<Order>,
    /// Counts the calls to close idle connections.
    pub(crate) close_idle: watch::Sender<u64>,
    /// Counts the calls to reset all connections.
    pub(crate) kill: watch::Sender<u64>,
    inner: Mutex<Inner>,
}

impl Shared {
    pub(crate) fn new(
        name: &str,
        addr: SocketAddr,
        base: Mode,
    ) -> (Arc<Shared>, mpsc::UnboundedReceiver<Order>) {
        let (orders, received) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            addr,
            base,
            orders,
            close_idle: watch::Sender::new(0),
            kill: watch::Sender::new(0),
            inner: Mutex::default(),
        });
        let mut all = lock(&ALL);
        all.retain(|s| s.strong_count() > 0);
        all.push(Arc::downgrade(&shared));
        (shared, received)
    }

    /// Never while a record is locked: some lock a record while they hold this.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    pub(crate) fn log(&self) -> Vec<Record> {
        let records = self.lock().log.clone();
        records.iter().map(|record| lock(record).clone()).collect()
    }

    pub(crate) fn stats(&self) -> Stats {
        let s = self.lock();
        Stats {
            name: self.name.clone(),
            in_flight: s.in_flight,
            peak: s.peak,
            total: s.total,
            aborted: s.aborted,
            conns: s.conns,
            open: s.open,
            script_left: s.script.len(),
        }
    }

    /// Forgets log, script, settings and counters; what is in flight stays counted.
    pub(crate) fn reset(&self) {
        let mut s = self.lock();
        *s = Inner {
            in_flight: s.in_flight,
            peak: s.in_flight,
            open: s.open,
            ..Inner::default()
        };
    }

    pub(crate) fn opened(&self) -> u64 {
        let mut s = self.lock();
        s.conns += 1;
        s.open += 1;
        CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn closed(&self) {
        self.lock().open -= 1;
    }

    /// Gives the record its number and puts it into the log.
    pub(crate) fn enter(&self, mut record: Record) -> Arc<Mutex<Record>> {
        let mut s = self.lock();
        s.total += 1;
        record.id = s.total;
        let record = Arc::new(Mutex::new(record));
        s.log.push(record.clone());
        record
    }

    /// Counts a request as being answered until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>, record: &Arc<Mutex<Record>>) -> Running {
        let mut s = self.lock();
        s.in_flight += 1;
        s.peak = s.peak.max(s.in_flight);
        lock(record).in_flight_at_start = s.in_flight;
        drop(s);
        Running {
            shared: self.clone(),
            record: record.clone(),
        }
    }

    pub(crate) fn aborted(&self) {
        self.lock().aborted += 1;
    }
}

/// The logs of all upstreams of this process, by time.
pub(crate) fn all_logs() -> Vec<Record> {
    let all: Vec<Arc<Shared>> = lock(&ALL).iter().filter_map(Weak::upgrade).collect();
    let mut records: Vec<Record> = all.iter().flat_map(|s| s.log()).collect();
    records.sort_by(|a, b| a.t.total_cmp(&b.t));
    records
}

/// A request being answered. Ends the record when dropped; whoever drops it without an outcome was killed.
pub(crate) struct Running {
    shared: Arc<Shared>,
    record: Arc<Mutex<Record>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.lock().in_flight -= 1;
        let mut record = lock(&self.record);
        record.outcome.get_or_insert("killed");
        record.t_end = Some(clock::now());
    }
}
