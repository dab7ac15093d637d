//! What became of each request: as its client saw it, as the gateway logged it, as the engines received it.

use crate::clients::Habit;
use crate::faults::{ATTEMPTS, Fleet, Outages, Route};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use weighbridge_test_engine::eventually;
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::upstream::Record;

/// What a client saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Saw {
    /// All of a good answer.
    Whole,
    /// A stream that ended with one error event.
    Error,
    /// An answer that began well and was cut.
    Cut,
    /// An error, with its status.
    Refused(u16),
    /// It left and does not know.
    Left,
    /// No answer, or one that makes no sense: never allowed.
    Nothing(String),
}

/// A request and what became of it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) route: &'static Route,
    /// What the request itself asked of whoever serves it; empty: a good answer.
    pub(crate) fault: &'static str,
    pub(crate) habit: Habit,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    pub(crate) saw: Saw,
}

#[derive(Default)]
pub(crate) struct Ledger {
    requests: Mutex<Vec<Request>>,
}

impl Ledger {
    pub(crate) fn note(&self, request: Request) {
        self.requests.lock().unwrap().push(request);
    }

    /// Checks every request against the gateway's log and counters and the engines' own records.
    pub(crate) fn check(&self, gateway: &Gateway, fleet: &Fleet) {
        let requests = self.requests.lock().unwrap();
        // Others than ours: those that closed the breakers again.
        let others = gateway
            .log_lines()
            .iter()
            .filter(|line| {
                line["request_id"]
                    .as_str()
                    .is_none_or(|id| !id.starts_with("chaos-"))
            })
            .count();
        let counted = || gateway.metrics().sum("weighbridge_requests_total", &[]) - others as f64;
        let logged = eventually(crate::PATIENCE, || {
            counted() >= requests.len() as f64 && gateway.log_lines().len() >= requests.len() + others
        });
        assert!(
            logged && counted() == requests.len() as f64,
            "{} requests were sent, {} counted, {} logged",
            requests.len(),
            counted(),
            gateway.log_lines().len()
        );
        let lines = by_id(gateway.log_lines(), |line| {
            line["request_id"].as_str().map(str::to_owned)
        });
        let posts = fleet.upstreams().iter().flat_map(|engine| engine.posts());
        let deliveries = by_id(posts.collect(), |record: &Record| {
            record.header("x-request-id").map(str::to_owned)
        });
        let mut wrong = Vec::new();
        for request in &*requests {
            let lines = lines.get(&request.id).map_or(&[][..], Vec::as_slice);
            let deliveries = deliveries.get(&request.id).map_or(&[][..], Vec::as_slice);
            let faults = [check_log(request, lines), check_deliveries(request, deliveries)];
            for fault in faults.into_iter().flatten() {
                wrong.push(format!(
                    "{fault}; the client {:?}\n  {request:?}\n  {lines:?}\n  {}",
                    request.habit,
                    shown(deliveries)
                ));
            }
        }
        assert!(
            wrong.is_empty(),
            "{} of {} requests went wrong:\n{}",
            wrong.len(),
            requests.len(),
            wrong[..wrong.len().min(10)].join("\n")
        );
    }

    /// Prints what was measured, and fails where hardly anything that could be served was.
    pub(crate) fn report(&self, outages: &Outages) {
        let requests = self.requests.lock().unwrap();
        let servable: Vec<_> = requests
            .iter()
            .filter(|request| request.fault.is_empty() && request.saw != Saw::Left)
            .collect();
        let undisturbed: Vec<_> = servable
            .iter()
            .filter(|request| Fleet::could_serve(outages, request.route, (request.began, request.ended)))
            .collect();
        let served = |saw: &Saw| *saw == Saw::Whole;
        let all = servable.iter().filter(|request| served(&request.saw)).count();
        let calm = undisturbed.iter().filter(|request| served(&request.saw)).count();
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for request in &*requests {
            *ends.entry(format!("{:?}", request.saw)).or_default() += 1;
        }
        println!(
            "chaos: {} requests, {} things done to engines; {ends:?}",
            requests.len(),
            outages.len()
        );
        println!(
            "chaos: availability of servable requests: {:.2} % of {} while engines died, {:.2} % of {} with an engine \
             that nothing was done to",
            percent(all, servable.len()),
            servable.len(),
            percent(calm, undisturbed.len()),
            undisturbed.len()
        );
        assert!(percent(all, servable.len()) >= 70.0, "hardly anything was served");
        assert!(
            percent(calm, undisturbed.len()) >= 95.0,
            "requests that could be served were not"
        );
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        100.0
    } else {
        part as f64 * 100.0 / whole as f64
    }
}

fn by_id<T>(items: Vec<T>, id: impl Fn(&T) -> Option<String>) -> HashMap<String, Vec<T>> {
    let mut found: HashMap<String, Vec<T>> = HashMap::new();
    for item in items {
        if let Some(id) = id(&item) {
            found.entry(id).or_default().push(item);
        }
    }
    found
}

fn shown(deliveries: &[Record]) -> String {
    let show = |record: &Record| {
        format!(
            "{}: status {:?}, {:?}, mode {:?}, request {} of its connection, {:.3} s to {:.3?}",
            record.replica,
            record.status,
            record.outcome,
            record.mode,
            record.nreq_on_conn,
            record.t,
            record.t_end
        )
    };
    deliveries.iter().map(show).collect::<Vec<_>>().join("; ")
}

/// Whether the log tells what the client saw.
fn check_log(request: &Request, lines: &[Value]) -> Option<String> {
    let [line] = lines else {
        return Some(format!("{} log lines", lines.len()));
    };
    let outcome = line["outcome"].as_str().unwrap_or_default();
    let status = line["status"].as_u64().unwrap_or_default();
    let agrees = match &request.saw {
        Saw::Whole => outcome == "ok" && status == 200,
        // Behind a sign of life every failure is an event.
        Saw::Error => !["ok", "client_closed"].contains(&outcome) && status == 200,
        Saw::Cut => ["upstream_stream_error", "timeout", "upstream_truncated"].contains(&outcome),
        Saw::Refused(code) => u64::from(*code) == status && refusals(*code).contains(&outcome),
        // It may have left when all was written, or when an error was.
        Saw::Left => !outcome.is_empty(),
        Saw::Nothing(_) => false,
    };
    (!agrees).then(|| {
        format!(
            "the client saw {:?}, the log says {outcome} {status}",
            request.saw
        )
    })
}

/// Outcomes that a client sees as this status.
fn refusals(status: u16) -> &'static [&'static str] {
    match status {
        429 => &["upstream_rate_limited", "rejected"],
        502 => &["upstream_error"],
        503 => &[
            "unavailable",
            "connect_error",
            "upstream_error",
            "upstream_rate_limited",
        ],
        529 => &["upstream_rate_limited", "upstream_error"],
        504 => &["timeout"],
        400..=499 => &["client_error"],
        _ => &[],
    }
}

/// Whether the engines got the request no more often than they may.
fn check_deliveries(request: &Request, deliveries: &[Record]) -> Option<String> {
    let mut sorted: Vec<_> = deliveries.iter().collect();
    sorted.sort_by(|a, b| a.t.total_cmp(&b.t));
    // Each attempt may be sent once more.
    if sorted.len() > ATTEMPTS * 2 {
        return Some(format!("{} deliveries", sorted.len()));
    }
    for pair in sorted.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let in_band = first.ended_as("in_band_error") && first.mode.contains("error_event=0");
        let said_no = |status| in_band || request.route.retries.contains(&status);
        let refused = first.status.is_some_and(said_no);
        if request.route.again || refused {
            continue;
        }
        if !(request.route.resend && swallowed(first, second)) {
            return Some(format!(
                "delivered to {} and again to {}",
                first.replica, second.replica
            ));
        }
    }
    let mut engines: Vec<_> = sorted.iter().map(|record| &record.replica).collect();
    engines.dedup();
    engines.sort();
    let visits = engines.len();
    engines.dedup();
    (engines.len() < visits).then(|| "an engine that had failed was tried again".to_owned())
}

/// Whether `first` ended on a connection that its engine seemed to have closed while idle, so that `second` may be the same
/// request once more, to the same engine on a new connection.
fn swallowed(first: &Record, second: &Record) -> bool {
    // 50 ms by the gateway's clock; the engine's own takes longer to notice on a busy machine.
    const MOMENT: Duration = Duration::from_millis(500);
    first.replica == second.replica
        && first.status.is_none()
        && first.nreq_on_conn > 1
        && first.conn != second.conn
        && second.t - first.t <= MOMENT.as_secs_f64()
}
