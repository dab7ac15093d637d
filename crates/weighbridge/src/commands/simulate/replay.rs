//! `weighbridge simulate --replay`: an event log through a fresh scheduler, every decision explained.

mod names;
mod words;

use crate::commands::admin::table::printable;
use crate::commands::{count, explain, output};
use crate::exit::Failure;
use names::Known;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::BufRead;
use std::path::Path;
use weighbridge_core::action::Dispatch;
use weighbridge_core::{Action, Event, RequestId, Scheduler, Time};
use weighbridge_gateway::admin_view::explained;

/// Seed of the gateway's scheduler; its fleet brings a seed of its own.
const SEED: u64 = 0;

/// What is shown of a replay.
pub(super) struct Shown {
    /// Only what is about this request.
    pub(super) only: Option<u64>,
    /// As JSON, one line per step that is shown.
    pub(super) json: bool,
    /// Only the result.
    pub(super) quiet: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Step {
        now: Time,
        event: Box<Event>,
        actions: Vec<Action>,
    },
    /// The last line of a log that reached its bound.
    Full {
        #[expect(dead_code, reason = "tells the line")]
        full: bool,
    },
}

/// Replays the log at `path` and prints what is asked for.
pub(super) fn run(path: &Path, shown: &Shown) -> Result<(), Failure> {
    let bad = |what: String| Failure::BadInput(format!("--replay {}: {what}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| bad(error.to_string()))?;
    let mut replay = Replay::new(shown);
    let mut lines = std::io::BufReader::with_capacity(1 << 16, file)
        .split(b'\n')
        .enumerate()
        .peekable();
    while let Some((at, line)) = lines.next() {
        let line = line.map_err(|error| bad(error.to_string()))?;
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(Line::Step { now, event, actions }) => replay.step(now, *event, actions)?,
            Ok(Line::Full { .. }) => {
                replay.ending = Some("the log reached its bound (--event-log-max) and ends there")
            }
            // A gateway that was killed leaves its last line unfinished.
            Err(_) if lines.peek().is_none() && replay.steps > 0 => {
                replay.ending =
                    Some("its last line is unfinished and left out: the gateway was stopped while it wrote");
            }
            Err(error) => {
                let what = "is not what `weighbridge serve --event-log FILE` writes";
                return Err(bad(format!("line {} {what}: {error}", at + 1)));
            }
        }
    }
    if replay.steps == 0 {
        return Err(bad("it holds no event".to_owned()));
    }
    replay.finish()
}

/// A replay under way.
struct Replay<'a> {
    shown: &'a Shown,
    scheduler: Scheduler,
    known: Known,
    steps: u64,
    decisions: u64,
    /// Why the log ends where it does, where that is not the gateway's end.
    ending: Option<&'static str>,
}

impl<'a> Replay<'a> {
    fn new(shown: &'a Shown) -> Self {
        Self {
            shown,
            scheduler: Scheduler::new(SEED),
            known: Known::default(),
            steps: 0,
            decisions: 0,
            ending: None,
        }
    }

    /// One step: the same event must lead to the same actions.
    fn step(&mut self, now: Time, event: Event, recorded: Vec<Action>) -> Result<(), Failure> {
        let event = asking(event);
        let mut actions = Vec::new();
        self.scheduler.step(now, event.clone(), &mut actions);
        self.known.note(&event, &actions);
        let bare: Vec<Action> = actions.iter().cloned().map(without_explanation).collect();
        let recorded: Vec<Action> = recorded.into_iter().map(without_explanation).collect();
        if bare != recorded {
            return Err(self.differs(now, &event, (&recorded, &bare)));
        }
        self.steps += 1;
        self.decisions += actions
            .iter()
            .filter(|action| matches!(action, Action::Dispatch(_)))
            .count() as u64;
        if self.shown.quiet {
            return Ok(());
        }
        match self.shown.json {
            true => self.print_json(now, &event, &actions),
            false => self.print(now, &event, &actions),
        }
    }

    fn print(&self, now: Time, event: &Event, actions: &[Action]) -> Result<(), Failure> {
        let mut text = String::new();
        let mut say = |what: &str| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}  {}", words::clock(now), printable(what));
        };
        if self.wanted(words::request_of(event)) {
            // The arrival is told with the decision about it, unless one request alone is looked at.
            let told = self.shown.only.is_some() || !matches!(event, Event::Arrive(_));
            if let Some(what) = words::event(&self.known, event).filter(|_| told) {
                say(&what);
            }
        }
        let mut tables = String::new();
        for action in actions {
            if !self.wanted(words::request_of_action(action)) {
                continue;
            }
            match action {
                Action::Dispatch(dispatch) => {
                    let shown = self.explanation(dispatch);
                    say(&words::dispatched(dispatch, &shown));
                    if self.shown.only.is_some() {
                        tables.push_str(&indented(&explain::shown::table(&shown)));
                    }
                }
                other => words::action(&self.known, other)
                    .iter()
                    .for_each(|what| say(what)),
            }
        }
        text.push_str(&tables);
        output(&text)
    }

    fn print_json(&self, now: Time, event: &Event, actions: &[Action]) -> Result<(), Failure> {
        let mut text = String::new();
        for action in actions {
            if !self.wanted(words::request_of_action(action)) {
                continue;
            }
            let line = match action {
                Action::Dispatch(dispatch) => json!({
                    "now_ns": now, "step": self.steps - 1, "request": dispatch.request, "attempt": dispatch.attempt,
                    "decision": self.explanation(dispatch),
                }),
                Action::Configured(_) => continue,
                other => json!({"now_ns": now, "step": self.steps - 1, "action": other}),
            };
            let _ = writeln!(text, "{line}");
        }
        if let Event::Ended(ended) = event
            && self.wanted(Some(ended.request))
        {
            let _ = writeln!(
                text,
                "{}",
                json!({"now_ns": now, "step": self.steps - 1, "event": event})
            );
        }
        output(&text)
    }

    /// Whether what is about this request, or about none, is shown.
    fn wanted(&self, request: Option<RequestId>) -> bool {
        self.shown
            .only
            .is_none_or(|only| request == Some(RequestId(only)))
    }

    /// The decision as `weighbridge explain` shows it.
    fn explanation(&self, dispatch: &Dispatch) -> Value {
        let names = self.known.of_request(dispatch.request);
        let shown = dispatch
            .explanation
            .as_ref()
            .map(|explanation| explained(&names, explanation));
        serde_json::to_value(shown).unwrap_or_default()
    }

    fn differs(&self, now: Time, event: &Event, (recorded, replayed): (&[Action], &[Action])) -> Failure {
        let told = words::event(&self.known, event).unwrap_or_else(|| "a tick of the clock".to_owned());
        let list = |actions: &[Action]| match actions {
            [] => "nothing".to_owned(),
            _ => serde_json::to_string(actions).unwrap_or_default(),
        };
        Failure::Failed(format!(
            "step {} at {} came out differently, after {} that {} the same\n  event: {}\n  the log says: {}\n  this version does: {}\n\
             The log is of another version of weighbridge, was changed, or has lost a line.",
            self.steps,
            words::clock(now).trim_start(),
            count(self.steps, "step"),
            if self.steps == 1 { "was" } else { "were" },
            printable(&told),
            printable(&list(recorded)),
            printable(&list(replayed)),
        ))
    }

    fn finish(&self) -> Result<(), Failure> {
        if self.shown.json {
            let result = json!({
                "same": true, "steps": self.steps, "decisions": self.decisions, "note": self.ending,
            });
            return output(&format!("{result}\n"));
        }
        let ending = self
            .ending
            .map(|ending| format!("; {ending}"))
            .unwrap_or_default();
        output(&format!(
            "{}, {}: every action was the same{ending}.\n",
            count(self.steps, "step"),
            count(self.decisions, "decision")
        ))
    }
}

/// The event with the full explanation asked for, which changes no decision.
fn asking(event: Event) -> Event {
    match event {
        Event::Arrive(mut arrival) => {
            arrival.explain = true;
            Event::Arrive(arrival)
        }
        other => other,
    }
}

fn without_explanation(mut action: Action) -> Action {
    if let Action::Dispatch(dispatch) = &mut action {
        dispatch.explanation = None;
    }
    action
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}\n").replace("    \n", "\n"))
        .collect()
}
