//! Something else than the scheduler may choose.

use crate::fleet::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weighbridge_sim::drive::{Baseline, Chooser, DriveError, FaultKind, Seen, run};
use weighbridge_sim::outcome::Fate;
use weighbridge_sim::workload::Request;

/// Takes the candidate with this place, and writes down what it is told.
struct Fixed {
    choice: usize,
    told: Arc<Mutex<Vec<(Duration, u64, u32)>>>,
    began: Arc<Mutex<usize>>,
}

impl Baseline for Fixed {
    fn choose(&mut self, _now: Duration, _request: (usize, &Request), candidates: &[Seen<'_>]) -> usize {
        if let Some(seen) = candidates.get(self.choice) {
            let entry = (seen.read_at, seen.running + seen.waiting, seen.inflight);
            self.told.lock().unwrap().push(entry);
        }
        self.choice
    }

    fn began(&mut self, _now: Duration, _index: usize, _endpoint: usize) {
        *self.began.lock().unwrap() += 1;
    }
}

#[test]
fn a_yardstick_sees_its_own_counts_at_once_and_metrics_as_they_were_read() {
    let mut setup = setup(pool("p", 2), route(least_inflight()));
    setup.faults = vec![fault(3.5, "e2", FaultKind::StaleMetrics { lasts: seconds(60.0) })];
    let (told, began) = (Arc::default(), Arc::default());
    let fixed = Fixed {
        choice: 1,
        told: Arc::clone(&told),
        began: Arc::clone(&began),
    };
    let chooser = Chooser::Baseline(vec![Box::new(fixed)]);
    let run = run(&setup, &steady(80, 0.1), chooser, &mut |_| {}).unwrap();
    assert_eq!((with(&run, Fate::Answered), *began.lock().unwrap()), (80, 80));
    assert!(run.records.iter().all(|record| record.endpoint == Some(1)));
    let told = told.lock().unwrap();
    for (number, (read_at, metrics, inflight)) in told.iter().enumerate() {
        let now = number as u64 / 10;
        assert_eq!(read_at.as_secs(), now.min(3), "request {number}");
        assert!(*metrics <= 10 + u64::from(*inflight));
    }
    let moved = told
        .iter()
        .any(|(_, metrics, inflight)| *metrics != u64::from(*inflight));
    assert!(moved, "metrics are as old as their reading");
}

#[test]
fn a_choice_that_is_none_is_an_error() {
    let setup = setup(pool("p", 2), route(least_inflight()));
    let fixed = Fixed {
        choice: 2,
        told: Arc::default(),
        began: Arc::default(),
    };
    let chooser = Chooser::Baseline(vec![Box::new(fixed)]);
    let error = run(&setup, &steady(1, 0.1), chooser, &mut |_| {}).unwrap_err();
    assert!(matches!(error, DriveError::Invariant { .. }), "{error}");
}

#[test]
fn with_every_engine_gone_a_yardstick_is_not_asked() {
    let mut setup = setup(pool("p", 1), route(least_inflight()));
    setup.faults = vec![fault(0.0, "e1", FaultKind::Die { down: None })];
    let fixed = Fixed {
        choice: 0,
        told: Arc::default(),
        began: Arc::default(),
    };
    let mut workload = steady(3, 0.1);
    workload.requests.remove(0);
    let chooser = Chooser::Baseline(vec![Box::new(fixed)]);
    let run = run(&setup, &workload, chooser, &mut |_| {}).unwrap();
    assert_eq!(with(&run, Fate::Unavailable), 2);
}
