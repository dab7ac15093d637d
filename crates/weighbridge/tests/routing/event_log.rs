//! The event log of a running gateway, replayed through the scheduler alone, gives the same actions.

use crate::held::hold;
use crate::shared::{SOON, ask, gateway, options, pool, send, state};
use serde::Deserialize;
use weighbridge_core::event::Outcome;
use weighbridge_core::replay::replay;
use weighbridge_core::{Action, Event, Time};
use weighbridge_test_engine::client::{Request, chat_stream, messages};
use weighbridge_test_engine::harness::{Gateway, Signal};
use weighbridge_test_engine::{Upstream, eventually, par};

#[derive(Clone, Deserialize)]
struct Line {
    now: Time,
    event: Event,
    actions: Vec<Action>,
}

type Log = Vec<(Time, Event, Vec<Action>)>;

fn read(text: &str) -> Log {
    let line = |line: &str| {
        let Line { now, event, actions } =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        (now, event, actions)
    };
    text.lines().map(line).collect()
}

fn yaml([a, b, c]: [&Upstream; 3]) -> String {
    let health = "health: {path: /health, interval: 100ms, unhealthy_after: 2, healthy_after: 1}";
    let breaker = "breaker: {consecutive: 2, open_for: 300ms}";
    // Short waits, so that most requests find an engine.
    let cooldown = "cooldown: {default: 5ms, max: 20ms}";
    let pools = pool("A", &[a], &[breaker, cooldown])
        + &pool("B", &[b], &[health, "breaker: false", cooldown])
        + &pool("C", &[c], &["max_inflight: 2", cooldown]);
    format!(
        "pools:\n{pools}  - {{name: two, kind: openai, endpoints: [\"{}\", \"{}\"], api_keys: [one, two], {cooldown}}}\n\
         routes:\n  \
         - {{name: bare, targets: [A, B, C]}}\n  \
         - {{name: turns, targets: [A, B, C], route_by: round_robin, retry: {{on: [connect, \"429\", \"500\", timeout], move_on_after: 200ms}}}}\n  \
         - {{name: shares, targets: [{{pool: A, weight: 2}}, {{pool: B, weight: 1}}, {{pool: C, weight: 0.5}}]}}\n  \
         - {{name: sums, targets: [A, B, two], policies: {{session_affinity: {{}}, least_inflight: {{weight: 1.5}}}}, fallback: [turns]}}\n  \
         - {{name: keys, targets: [two], fallback: [shares]}}\n",
        a.url(),
        b.url()
    )
}

const MODES: [&str; 12] = [
    "",
    "status=429,retry_after=1",
    "",
    "status=500",
    "drop",
    "delay=0.02",
    "cut=2",
    "",
    "status=503",
    "status=400",
    "error_event=0",
    "",
];

fn mixed_load(gateway: &Gateway) {
    par(6, |client| {
        for (round, mode) in (0..).zip(MODES.iter().cycle().take(36)) {
            let model = ["turns", "shares", "sums", "keys", "bare"][(client + round) % 5];
            let text = format!("[[mock:{mode}]]");
            let url = gateway.url("/v1/chat/completions");
            let request = match round % 3 {
                0 => Request::post(&url, chat_stream(model, &text)),
                1 => Request::post(&url, weighbridge_test_engine::client::chat(model, &text)),
                _ => Request::post(&gateway.url("/v1/messages"), messages(model, &text)),
            };
            let session = format!("s{}", round % 7);
            request.header("x-session-id", &session).try_send().unwrap();
        }
    });
}

/// Everything that a scheduler may be told happens once at least. The log's text.
fn record() -> String {
    let upstreams = Upstream::start_all(["A", "B", "C"]);
    let mut options = options(&yaml(upstreams.each_ref()));
    options
        .args
        .extend(["--event-log".to_owned(), "events.jsonl".to_owned()]);
    let mut gateway = Gateway::start_with(&options);
    // Two that move on from a slow engine and are left in the middle of a later attempt.
    let held: Vec<_> = (0..2).map(|_| hold(&gateway, "turns", &[])).collect();
    let moved = || {
        gateway
            .metrics()
            .sum("weighbridge_attempts_total", &[("outcome", "timeout")])
    };
    assert!(eventually(SOON, || moved() > 0.0));
    drop(held);
    mixed_load(&gateway);
    upstreams[1].set_health(503);
    assert!(eventually(SOON, || state(&gateway, "B") == "unhealthy"));
    let refusing = upstreams[0].refuse_until();
    mixed_load(&gateway);
    drop(refusing);
    gateway.write_config(&yaml([&upstreams[0], &upstreams[2], &upstreams[1]]));
    gateway.signal(Signal::HUP);
    assert!(eventually(SOON, || gateway.stderr().contains("config reloaded")));
    mixed_load(&gateway);
    let idle = eventually(SOON, || gateway.metrics().sum("weighbridge_inflight", &[]) == 0.0);
    assert!(idle);
    gateway.sigterm();
    assert_eq!(gateway.wait_exit(SOON), Some(0));
    std::fs::read_to_string(gateway.dir().join("events.jsonl")).unwrap()
}

/// `weighbridge simulate --replay` of this log with these options: exit code, standard output and error.
fn simulate(log: &str, options: &[&str]) -> (Option<i32>, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("events.jsonl");
    std::fs::write(&file, log).unwrap();
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_weighbridge"))
        .args(["simulate", "--replay"])
        .arg(&file)
        .args(options)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

/// The command gives the same actions, and says of every decision where it went and why.
fn the_command_replays_it(text: &str, log: &Log) {
    let dispatches = log
        .iter()
        .flat_map(|(_, _, actions)| actions)
        .filter(|action| word(action) == "dispatch")
        .count();
    let (code, out, err) = simulate(text, &[]);
    assert_eq!(code, Some(0), "{err}");
    let same = format!(
        "{} steps, {dispatches} decisions: every action was the same.",
        log.len()
    );
    assert_eq!(out.lines().last(), Some(same.as_str()));
    assert_eq!(
        out.matches(" → ").count(),
        dispatches,
        "each decision has its line"
    );
    for said in [
        "candidates live",
        "dropped by ",
        "status 429",
        "connection refused",
        "falls back to route",
        "a probe failed",
        "is unhealthy",
        "no first byte within move_on_after",
        "the client left",
    ] {
        assert!(out.contains(said), "{said}");
    }

    // One request alone, with every candidate.
    let retried = log
        .iter()
        .flat_map(|(_, _, actions)| actions)
        .find_map(|action| match action {
            Action::Dispatch(dispatch) if dispatch.attempt == 2 => Some(dispatch.request.0),
            _ => None,
        });
    let only = retried.unwrap().to_string();
    let (_, out, _) = simulate(text, &["--only", &only]);
    assert!(
        out.contains("CANDIDATE") && out.contains("arrives at route"),
        "{out}"
    );
    let of = |line: &str| {
        let (_, rest) = line.split_once("  request ")?;
        Some(rest.chars().take_while(char::is_ascii_digit).collect::<String>())
    };
    let other = out.lines().filter_map(of).find(|request| *request != only);
    assert_eq!(other, None);

    let (_, out, _) = simulate(text, &["--json"]);
    let lines: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.last().unwrap()["same"], true);
    let decisions = lines
        .iter()
        .filter(|line| line["decision"]["explanation"].is_array())
        .count();
    assert_eq!(decisions, dispatches, "each is explained candidate by candidate");
}

/// A log with a line less, or that is none, is refused with its place.
fn the_command_finds_what_differs(text: &str) {
    let place = text
        .lines()
        .position(|line| line.contains("\"dispatch\""))
        .unwrap();
    let without: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(at, _)| *at != place)
        .map(|(_, line)| line)
        .collect();
    let (code, _, err) = simulate(&without.join("\n"), &["--quiet"]);
    assert_eq!(code, Some(1), "{err}");
    assert!(
        err.contains("came out differently") && err.contains("the log says: "),
        "{err}"
    );

    // The gateway was killed while it wrote.
    let cut = &text[..text.len() - 20];
    let (code, out, err) = simulate(cut, &["--quiet"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("its last line is unfinished"), "{out}");

    let (code, _, err) = simulate("{\"time\":\"2026-05-04T10:00:00Z\"}\n", &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("line 1 is not what `weighbridge serve --event-log FILE` writes"),
        "{err}"
    );
    assert_eq!(simulate("", &[]).0, Some(2));
}

#[test]
fn the_event_log_replays_to_the_same_actions_and_a_changed_one_does_not() {
    let text = record();
    let log = read(&text);
    let has = |what: &str, wanted: &dyn Fn(&Event) -> bool| {
        assert!(
            log.iter().any(|(_, event, _)| wanted(event)),
            "{what} is in the log"
        );
    };
    has("an arrival", &|event| matches!(event, Event::Arrive(_)));
    has("a leaving client", &|event| matches!(event, Event::Withdraw(_)));
    has("a slow attempt", &|event| matches!(event, Event::MoveOn { .. }));
    has("a probe", &|event| {
        matches!(event, Event::Probed { healthy: false, .. })
    });
    let configures = log
        .iter()
        .filter(|(_, event, _)| matches!(event, Event::Configure(_)))
        .count();
    // The start, and the signal; where the test stalls between file and signal, the file was taken before it.
    assert!((2..=3).contains(&configures), "{configures} configs");
    for kind in ["dispatch", "fallback", "finish", "probe", "changed", "abort"] {
        let found = log
            .iter()
            .flat_map(|(_, _, actions)| actions)
            .any(|action| word(action) == kind);
        assert!(found, "the log has an action {kind}");
    }
    assert!(log.len() > 1_000, "{} events", log.len());
    replay(log.iter().cloned(), 0).unwrap_or_else(|divergence| panic!("{divergence}"));
    the_command_replays_it(&text, &log);
    the_command_finds_what_differs(&text);

    // The first success becomes a request to wait.
    let mut changed = log.clone();
    let place = changed
        .iter()
        .position(|(_, event, _)| is_success(event))
        .unwrap();
    if let Event::Ended(ended) = &mut changed[place].1 {
        ended.outcome = Outcome::Status {
            code: 429,
            retry_after: None,
        };
    }
    let divergence = replay(changed.into_iter(), 0).expect_err("a changed event changes what follows");
    assert!(divergence.step >= place, "not before it: {divergence}");

    // The same events without one of the arrivals.
    let mut shorter = log.clone();
    let sent = |(_, event, actions): &(Time, Event, Vec<Action>)| {
        matches!(event, Event::Arrive(_)) && actions.iter().any(|action| word(action) == "dispatch")
    };
    let place = shorter.iter().rposition(sent).unwrap();
    shorter.remove(place);
    assert!(replay(shorter.into_iter(), 0).is_err());
}

fn is_success(event: &Event) -> bool {
    matches!(event, Event::Ended(ended) if ended.outcome == Outcome::Complete)
}

fn word(action: &Action) -> &'static str {
    match action {
        Action::Configured(_) => "configured",
        Action::Dispatch(_) => "dispatch",
        Action::Abort { .. } => "abort",
        Action::Fallback { .. } => "fallback",
        Action::Finish { .. } => "finish",
        Action::Probe(_) => "probe",
        Action::Changed { .. } => "changed",
    }
}

#[test]
fn the_event_log_holds_no_secret_and_no_prompt_and_ends_at_its_bound() {
    let [a] = Upstream::start_all(["A"]);
    let pool = pool("A", &[&a], &["api_key: UPSECRET123"]);
    let yaml = format!("auth: keys\nkeys: [{{name: k, key: CLIENTSECRET456}}]\npools:\n{pool}");
    let mut options = options(&yaml);
    options
        .args
        .extend(["--event-log", "events.jsonl", "--event-log-max", "6000"].map(str::to_owned));
    let mut gateway = Gateway::start_with(&options);
    for _ in 0..30 {
        let request = ask(&gateway, "A").header("x-api-key", "CLIENTSECRET456");
        assert_eq!(request.header("x-session-id", "SESSION789").send().status, 200);
    }
    gateway.sigterm();
    assert_eq!(gateway.wait_exit(SOON), Some(0));
    let text = std::fs::read_to_string(gateway.dir().join("events.jsonl")).unwrap();
    assert!(text.len() <= 6_100, "{} bytes", text.len());
    assert_eq!(text.lines().last(), Some("{\"full\":true}"));
    for secret in ["UPSECRET123", "CLIENTSECRET456", "SESSION789", "hello"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn the_event_log_that_cannot_be_written_is_bad_input() {
    let [a] = Upstream::start_all(["A"]);
    let yaml = format!("pools:\n{}", pool("A", &[&a], &[]));
    let mut options = options(&yaml);
    options
        .args
        .extend(["--event-log", "no/such/directory/events"].map(str::to_owned));
    let failure = Gateway::try_start(&options).err().unwrap();
    assert_eq!(failure.code, Some(2));
    assert!(
        failure.output.contains("--event-log no/such/directory/events"),
        "{}",
        failure.output
    );
    let works = gateway(&yaml);
    assert_eq!(send(&works, "A").status, 200);
}
