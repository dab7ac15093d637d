//! The model that predicts times, on what modelled engines did: a yardstick writes down what it saw and what came of it.

use crate::fleet::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weighbridge_core::Time;
use weighbridge_core::engine::decay::{Average, Rate, fade};
use weighbridge_core::engine::{Facts, Forecast, Inputs, Model, pressure};
use weighbridge_sim::drive::{Baseline, Chooser, FaultKind, Seen, run};
use weighbridge_sim::workload::Request;

/// What was seen of a request, and the seconds to its first token.
type Sample = (Facts, f64);

/// Takes the endpoint with the fewest requests in flight, and keeps what a gateway would know.
struct Watched {
    speeds: Vec<Rate>,
    ahead: Vec<f64>,
    began: Vec<Duration>,
    under_way: Vec<Option<(Facts, Duration, f64)>>,
    samples: Arc<Mutex<Vec<Sample>>>,
    pool: Rate,
}

fn time(now: Duration) -> Time {
    Time::from_origin(now)
}

impl Baseline for Watched {
    fn choose(
        &mut self,
        now: Duration,
        (index, request): (usize, &Request),
        candidates: &[Seen<'_>],
    ) -> usize {
        let place = (0..candidates.len())
            .min_by_key(|place| candidates[*place].inflight)
            .unwrap();
        let seen = &candidates[place];
        let endpoint = seen.endpoint;
        let tokens = f64::from(request.prompt_tokens);
        let own = &self.speeds[endpoint];
        let pool = self.pool.per_second().unwrap_or(2000.0);
        let speed = own.toward(pool, fade(time(now), own.newest()));
        let facts = Facts {
            ahead: (self.ahead[endpoint] / speed) as f32,
            own: (tokens / speed) as f32,
            waiting: seen.waiting as f32,
            running: seen.running as f32,
            pressure: pressure(seen.kv_usage) as f32,
            ..Facts::default()
        };
        self.ahead[endpoint] += tokens;
        if self.under_way.len() <= index {
            self.under_way.resize(index + 1, None);
        }
        self.under_way[index] = Some((facts, now, tokens));
        place
    }

    fn began(&mut self, now: Duration, index: usize, endpoint: usize) {
        let Some((facts, sent, tokens)) = self.under_way[index].take() else {
            return;
        };
        let took = (now - sent.max(self.began[endpoint])).as_secs_f64();
        self.began[endpoint] = now;
        self.ahead[endpoint] -= tokens;
        self.speeds[endpoint].add(time(now), tokens, took);
        self.pool.add(time(now), tokens, took);
        self.samples
            .lock()
            .unwrap()
            .push((facts, (now - sent).as_secs_f64()));
    }
}

/// What ten engines do with the trace, all of them half as slow again in its second half.
fn samples() -> Vec<(Duration, Sample)> {
    let workload = at(0.6, 10.0);
    let mut setup = setup(10, least_inflight());
    let half = workload.requests.last().unwrap().at.as_secs() / 2;
    let kind = FaultKind::Slow {
        factor: 1.5,
        lasts: None,
    };
    setup.faults = (0..10)
        .map(|number| fault(half, &format!("e{number}"), kind))
        .collect();
    let samples = Arc::new(Mutex::new(Vec::new()));
    let watched = Watched {
        speeds: vec![Rate::default(); 10],
        ahead: vec![0.0; 10],
        began: vec![Duration::ZERO; 10],
        under_way: Vec::new(),
        samples: Arc::clone(&samples),
        pool: Rate::default(),
    };
    let chooser = Chooser::Baseline(vec![Box::new(watched)]);
    run(&setup, &workload, chooser, &mut |_| {}).unwrap();
    let samples = samples.lock().unwrap();
    let span = workload.requests.last().unwrap().at / samples.len() as u32;
    (0_u32..)
        .map(|number| span * number)
        .zip(samples.iter().copied())
        .collect()
}

/// Sums of absolute errors after the first 200 requests: of what a policy would go by, and of the pool's mean; and the model.
fn errors(samples: &[(Duration, (Inputs, f64))]) -> (f64, f64, Model) {
    let mut model = Forecast::default().first_token;
    let mut mean = Average::default();
    let (mut own, mut of_mean) = (0.0, 0.0);
    for (number, (now, (inputs, seconds))) in samples.iter().enumerate() {
        let usual = mean.mean().unwrap_or(*seconds);
        if number >= 200 {
            own += (model.predict(inputs).unwrap_or(usual) - seconds).abs();
            of_mean += (usual - seconds).abs();
        }
        model.learn(inputs, (*seconds, usual));
        mean.add(time(*now), *seconds);
    }
    (own, of_mean, model)
}

fn inputs() -> Vec<(Duration, (Inputs, f64))> {
    samples()
        .into_iter()
        .map(|(now, (facts, seconds))| (now, (facts.of_first_token(), seconds)))
        .collect()
}

#[test]
fn it_beats_the_mean_by_a_third_through_a_slow_down() {
    let inputs = inputs();
    assert!(inputs.len() > 5000);
    let (own, of_mean, model) = errors(&inputs);
    println!(
        "{:.3} of the error of the mean, {:?}",
        own / of_mean,
        model.trial()
    );
    assert!(own <= 0.7 * of_mean, "{own} {of_mean}");
    let (_, _, early) = errors(&inputs[..200]);
    assert!(early.trial().believed, "{:?}", early.trial());
}

#[test]
fn it_switches_itself_off_on_shuffled_labels() {
    let mut inputs = inputs();
    // Every label goes to the request 997 places on, whose inputs have nothing to do with it.
    let labels: Vec<f64> = inputs.iter().map(|(_, (_, seconds))| *seconds).collect();
    for (number, (_, (_, seconds))) in inputs.iter_mut().enumerate() {
        *seconds = labels[(number * 7919 + 997) % labels.len()];
    }
    let (own, of_mean, model) = errors(&inputs);
    println!(
        "{:.3} of the error of the mean, {:?}",
        own / of_mean,
        model.trial()
    );
    assert!(!model.trial().believed, "{:?}", model.trial());
    assert!(own < 1.05 * of_mean, "{own} {of_mean}");
}
