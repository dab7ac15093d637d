//! A quiet engine against an ordinary one: the same events at the same nanosecond, the same state whenever asked.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Submit {
        prompt: u32,
        output: u32,
        family: u64,
        later_ms: u64,
    },
    Cancel {
        index: usize,
    },
    Speed {
        factor: f64,
    },
    /// Nobody calls in between.
    Wait {
        us: u64,
    },
    /// The driver calls at each time that the engine names.
    Follow {
        calls: u32,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1u32..300, 0u32..150, 0u64..3, prop_oneof![3 => Just(0u64), 1 => 0u64..700])
            .prop_map(|(prompt, output, family, later_ms)| Step::Submit { prompt, output, family, later_ms }),
        1 => (0usize..40).prop_map(|index| Step::Cancel { index }),
        1 => prop_oneof![Just(3.0), Just(0.5), Just(1.0), Just(f64::NAN)].prop_map(|factor| Step::Speed { factor }),
        3 => (0u64..900_000).prop_map(|us| Step::Wait { us }),
        2 => (1u32..6).prop_map(|calls| Step::Follow { calls }),
    ];
    prop::collection::vec(step, 1..70)
}

fn work(id: u64, family: u64, prompt_tokens: u32, output_tokens: u32) -> Work {
    let blocks = u64::from((prompt_tokens + output_tokens) / 16);
    Work {
        id: WorkId(id),
        blocks: (0..blocks).map(|block| (family << 32) + block).collect(),
        prompt_tokens,
        output_tokens,
    }
}

/// An ordinary engine and a quiet one that are told the same.
struct Pair {
    loud: BatchingEngine,
    quiet: BatchingEngine,
    /// Events of both so far, without those that a quiet engine does not tell of.
    events: (Vec<Event>, Vec<Event>),
    calls: (u64, u64),
}

impl Pair {
    fn new(settings: &Settings) -> Self {
        Self {
            loud: BatchingEngine::new(settings.clone()),
            quiet: BatchingEngine::quiet(settings.clone()),
            events: Default::default(),
            calls: (0, 0),
        }
    }

    fn advance(&mut self, now: Time) {
        self.loud.advance(now, &mut self.events.0);
        self.quiet.advance(now, &mut self.events.1);
        self.events.0.retain(|event| event.kind != EventKind::Token);
        assert_eq!(self.events.0, self.events.1);
        assert_eq!(self.loud.stats(), self.quiet.stats());
        self.quiet.pool.check();
    }

    /// Calls the quiet engine when it asks for it, and the ordinary one until then whenever that one does.
    fn follow(&mut self) -> Option<Time> {
        let next = self.quiet.next_event_time();
        let Some(next) = next else {
            assert_eq!(self.loud.next_event_time(), None);
            return None;
        };
        while let Some(at) = self.loud.next_event_time().filter(|at| *at <= next) {
            self.calls.0 += 1;
            let before = self.events.0.len();
            self.loud.advance(at, &mut self.events.0);
            let told = self.events.0[before..]
                .iter()
                .any(|event| event.kind != EventKind::Token);
            assert!(!told || at == next, "the quiet engine asks too late");
        }
        self.calls.1 += 1;
        self.advance(next);
        Some(next)
    }

    fn step(&mut self, now: Time, index: usize, step: &Step) -> Time {
        match *step {
            Step::Submit {
                prompt,
                output,
                family,
                later_ms,
            } => {
                let at = now + Time::from_millis(later_ms);
                let work = work(index as u64, family, prompt, output);
                let answers = (self.loud.submit(at, work.clone()), self.quiet.submit(at, work));
                assert_eq!(answers.0, answers.1);
            }
            Step::Cancel { index } => {
                let id = WorkId(index as u64);
                assert_eq!(self.loud.cancel(id), self.quiet.cancel(id));
            }
            Step::Speed { factor } => {
                self.loud.set_speed(now, factor);
                self.quiet.set_speed(now, factor);
            }
            Step::Wait { us } => {
                self.advance(now + Time::from_micros(us));
                return now + Time::from_micros(us);
            }
            Step::Follow { calls } => {
                return (0..calls)
                    .filter_map(|_| self.follow())
                    .last()
                    .unwrap_or(now)
                    .max(now);
            }
        }
        now
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_quiet_engine_tells_the_same(
        steps in steps(),
        (kv_blocks, seqs, budget) in (30u32..120, 1u32..9, 1u32..200),
        block_size in prop_oneof![Just(16u32), Just(1), Just(64), 2u32..40],
    ) {
        let kv_blocks = (kv_blocks * 16).div_ceil(block_size);
        let settings = Settings { block_size, kv_blocks, max_num_seqs: seqs, max_num_batched_tokens: budget, ..Settings::default() };
        let mut pair = Pair::new(&settings);
        let mut now = Time::ZERO;
        for (index, step) in steps.iter().enumerate() {
            now = pair.step(now, index, step);
        }
        while pair.follow().is_some() {}
        prop_assert_eq!(pair.quiet.pool.holds(), 0);
    }
}

#[test]
fn a_run_of_decoding_is_one_call() {
    let mut pair = Pair::new(&Settings::default());
    for id in 0..20 {
        let work = work(id, id, 700, 600 + 10 * id as u32);
        pair.loud.submit(Time::ZERO, work.clone()).unwrap();
        pair.quiet.submit(Time::ZERO, work).unwrap();
    }
    while pair.follow().is_some() {}
    assert!(pair.calls.0 > 780 && pair.calls.1 < 40, "{:?}", pair.calls);
}

#[test]
fn an_arrival_during_a_run_waits_for_the_iteration_in_flight_only() {
    let mut engine = BatchingEngine::quiet(Settings::default());
    let mut events = Vec::new();
    engine.submit(Time::ZERO, work(1, 1, 100, 1000)).unwrap();
    engine.advance(Time::from_secs(2), &mut events);
    let far = engine.next_event_time().unwrap();
    engine.submit(Time::from_secs(2), work(2, 2, 100, 1)).unwrap();
    let near = engine.next_event_time().unwrap();
    assert!(
        far > Time::from_secs(10) && near < Time::from_millis(2020),
        "{far:?} {near:?}"
    );
    while let Some(next) = engine.next_event_time() {
        engine.advance(next, &mut events);
    }
    let scheduled = events.iter().find_map(|event| match event.kind {
        EventKind::FirstToken { scheduled, .. } if event.id == WorkId(2) => Some(scheduled),
        _ => None,
    });
    assert_eq!(scheduled, Some(near));
}

#[test]
fn a_slow_engine_takes_its_factor_longer() {
    let time = |factor: f64| {
        let mut engine = BatchingEngine::quiet(Settings::default());
        engine.set_speed(Time::ZERO, factor);
        engine.submit(Time::ZERO, work(1, 1, 100, 100)).unwrap();
        let mut events = Vec::new();
        engine.advance(Time::from_secs(60), &mut events);
        assert_eq!(engine.stats().busy, events[1].at);
        events[1].at.as_secs_f64()
    };
    assert!((time(3.0) / time(1.0) - 3.0).abs() < 1e-6);
}

#[test]
fn the_cache_says_what_it_holds() {
    let mut engine = BatchingEngine::quiet(Settings::default());
    let asked = work(1, 1, 100, 30);
    assert_eq!(engine.cached(&asked.blocks), 0);
    engine.submit(Time::ZERO, asked.clone()).unwrap();
    engine.advance(Time::from_secs(60), &mut Vec::new());
    assert_eq!(engine.cached(&asked.blocks), 8);
    assert_eq!(
        (engine.stats().uncached_tokens(), engine.stats().prefill_tokens),
        (100, 100)
    );
}
