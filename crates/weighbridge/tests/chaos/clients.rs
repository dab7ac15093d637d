//! Clients that ask for everything, and do not always stay for the answer.

use crate::dice::Dice;
use crate::faults::{FAULTS, ROUTES, Route};
use crate::ledger::{Ledger, Request, Saw};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{self, StreamClient};

/// Longest wait for an answer: beyond every clock of the gateway.
const PATIENCE: Duration = Duration::from_secs(30);

const PATHS: [&str; 5] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1/embeddings",
];

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Waits for the end.
    Stays,
    /// Half-closes its connection after the request, as some do, and waits for the end.
    HalfCloses,
    /// Speaks HTTP/1.0.
    Old,
    /// Sends its body in chunks.
    Chunks,
    /// Speaks HTTP/2.
    Two,
    /// Leaves after this time, answer or not.
    Leaves(Duration),
    /// Leaves after the first piece of the answer, with a reset.
    Resets,
}

pub(crate) struct Clients<'a> {
    pub(crate) base: String,
    pub(crate) ledger: &'a Ledger,
}

impl Clients<'_> {
    /// Runs `count` clients for some time.
    pub(crate) fn run(&self, dice: &Dice, count: usize, time: Duration) {
        let until = Instant::now() + time;
        std::thread::scope(|scope| {
            for index in 0..count {
                let dice = dice.split(index);
                scope.spawn(move || {
                    while Instant::now() < until {
                        self.one(&dice);
                    }
                });
            }
        });
    }

    /// Sends one request and notes what became of it.
    fn one(&self, dice: &Dice) {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let route: &Route = dice.one(&ROUTES);
        let path = *dice.one(&PATHS);
        let streams = path != "/v1/embeddings" && dice.chance(60);
        let fault = if dice.chance(25) { *dice.one(&FAULTS) } else { "" };
        let id = format!("chaos-{}", SERIAL.fetch_add(1, Ordering::Relaxed));
        let habit = match dice.below(20) {
            0 => Habit::HalfCloses,
            1 => Habit::Old,
            2 => Habit::Chunks,
            6..=9 => Habit::Two,
            3 | 4 => Habit::Leaves(dice.millis(0, 600)),
            5 => Habit::Resets,
            _ => Habit::Stays,
        };
        let mut body = body(path, route.name, &format!("{id} [[mock:{fault}]]"));
        if streams {
            body["stream"] = json!(true);
        }
        let mut request = client::Request::post(&format!("{}{path}", self.base), body.to_string())
            .header("x-request-id", &id)
            .header("session-id", &format!("s{}", dice.below(50)))
            .patience(PATIENCE);
        request = match habit {
            Habit::HalfCloses => request.half_close(),
            Habit::Old => request.http10(),
            Habit::Chunks => request.chunked(100),
            Habit::Two => request.over(client::Http::Two),
            _ => request,
        };
        let began = Instant::now();
        let saw = see(&request, habit, streams);
        let ended = Instant::now();
        if matches!(saw, Saw::Refused(429 | 503)) {
            std::thread::sleep(dice.millis(50, 300));
        }
        self.ledger.note(Request {
            id,
            route,
            fault,
            habit,
            began,
            ended,
            saw,
        });
    }
}

fn body(path: &str, model: &str, text: &str) -> Value {
    match path {
        "/v1/completions" => json!({"model": model, "prompt": text}),
        "/v1/responses" | "/v1/embeddings" => json!({"model": model, "input": text}),
        "/v1/messages" => {
            json!({"model": model, "max_tokens": 99, "messages": [{"role": "user", "content": text}]})
        }
        _ => json!({"model": model, "messages": [{"role": "user", "content": text}]}),
    }
}

fn see(request: &client::Request, habit: Habit, streams: bool) -> Saw {
    let pending = match request.begin() {
        Ok(pending) => pending,
        Err(failure) => return Saw::Nothing(failure.to_string()),
    };
    if let Habit::Leaves(after) = habit
        && !streams
    {
        std::thread::sleep(after);
        pending.abort();
        return Saw::Left;
    }
    let patience = match habit {
        Habit::Leaves(after) => after.max(Duration::from_millis(1)),
        _ => PATIENCE,
    };
    let mut answer = match pending.head(patience) {
        Ok(answer) => answer,
        Err(_) if matches!(habit, Habit::Leaves(_)) => return Saw::Left,
        Err(failure) => return Saw::Nothing(failure.to_string()),
    };
    match habit {
        Habit::Leaves(after) => {
            answer.finish(after);
            answer.abort();
            return Saw::Left;
        }
        Habit::Resets => {
            answer.read_more(PATIENCE);
            answer.abort_with_reset();
            return Saw::Left;
        }
        _ => answer.finish(PATIENCE),
    };
    seen(&answer, request)
}

/// What a client that stayed to the end makes of the answer.
fn seen(answer: &StreamClient, request: &client::Request) -> Saw {
    let is_stream = answer
        .header("content-type")
        .is_some_and(|kind| kind.starts_with("text/event-stream"));
    let whole = answer.end().is_whole();
    if answer.header("x-request-id").is_none() {
        return Saw::Nothing(format!("no x-request-id: {:?}", answer.headers));
    }
    if answer.status >= 400 {
        let error: Value = serde_json::from_slice(&answer.body()).unwrap_or_default();
        let told = error["error"]["message"]
            .as_str()
            .is_some_and(|text| !text.is_empty());
        return match (whole, told) {
            (true, true) => Saw::Refused(answer.status),
            _ => Saw::Nothing(format!("{} {:?} {}", answer.status, answer.end(), answer.text())),
        };
    }
    if !is_stream {
        return if whole { Saw::Whole } else { Saw::Cut };
    }
    let events = answer.events();
    let marks = events.iter().filter(|event| ends_well(event)).count();
    let errors = events.iter().filter(|event| is_error(event)).count();
    let finished = events.iter().any(|event| {
        event.data.contains("\"finish_reason\":\"") || event.data.contains("\"stop_reason\":\"")
    });
    match (whole, marks, errors) {
        (true, 0, 0) if finished => Saw::Whole,
        (true, 0, 1) if events.last().is_some_and(is_error) => Saw::Error,
        (_, 0, 0) => Saw::Cut,
        (true, 1, 0) if events.last().is_some_and(ends_well) => Saw::Whole,
        _ => Saw::Nothing(format!(
            "{request:?}: a stream that nobody understands: {}",
            answer.text()
        )),
    }
}

/// A finish reason ends a stream too: some engines leave the end mark out.
fn ends_well(event: &client::Event) -> bool {
    event.data == "[DONE]"
        || matches!(
            event.name.as_deref(),
            Some("message_stop" | "response.completed" | "response.incomplete")
        )
}

fn is_error(event: &client::Event) -> bool {
    event.data != "[DONE]" && {
        let json: Value = serde_json::from_str(&event.data).unwrap_or_default();
        json["error"].is_object() || json["type"] == "error"
    }
}
