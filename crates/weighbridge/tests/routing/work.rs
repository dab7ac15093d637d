//! What the scheduler is told of a request's work: nothing where no policy looks at it.

use crate::shared::{SOON, options, pool};
use serde::Deserialize;
use weighbridge_core::Event;
use weighbridge_core::event::{Ended, Spent};
use weighbridge_test_engine::Upstream;
use weighbridge_test_engine::client::{Request, chat, chat_stream, messages_stream};
use weighbridge_test_engine::harness::Gateway;

#[derive(Deserialize)]
struct Line {
    event: Event,
}

/// What the scheduler is told of these requests, which are sent one after the other; all must be answered well.
fn told(yaml: &str, requests: impl Fn(&Gateway) -> Vec<Request>) -> Vec<Event> {
    let mut options = options(yaml);
    options
        .args
        .extend(["--event-log".to_owned(), "events.jsonl".to_owned()]);
    let mut gateway = Gateway::start_with(&options);
    for request in requests(&gateway) {
        let answer = request.send();
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    }
    gateway.sigterm();
    assert_eq!(gateway.wait_exit(SOON), Some(0));
    let log = std::fs::read_to_string(gateway.dir().join("events.jsonl")).unwrap();
    let event = |line: &str| serde_json::from_str::<Line>(line).map(|line| line.event);
    log.lines().map(|line| event(line).unwrap()).collect()
}

fn first_tokens(events: &[Event]) -> usize {
    let first = |event: &&Event| matches!(event, Event::FirstToken { .. });
    events.iter().filter(first).count()
}

fn spent(events: &[Event]) -> Vec<Option<Spent>> {
    let ended = events.iter().filter_map(|event| match event {
        Event::Ended(Ended { spent, .. }) => Some(*spent),
        _ => None,
    });
    ended.collect()
}

fn asked(gateway: &Gateway) -> Vec<Request> {
    let url = gateway.url("/v1/chat/completions");
    vec![
        Request::post(&url, chat("r", "[[mock:usage_in=40,usage_out=9]]")),
        // Says what it cost only where it is asked to.
        Request::post(&url, chat_stream("r", "[[mock:usage_in=40,usage_out=9,usage]]")),
        Request::post(&url, chat_stream("r", "[[mock:chunks=3]]")),
        Request::post(
            &gateway.url("/v1/messages"),
            messages_stream("r", "[[mock:usage_in=40,usage_out=9]]"),
        ),
    ]
}

#[test]
fn first_tokens_and_costs_are_told_where_a_policy_learns_from_them() {
    let upstream = Upstream::start("A");
    let pool = pool("p", &[&upstream], &[]);
    let yaml =
        format!("pools:\n{pool}routes: [{{name: r, targets: [p], policies: {{queue_depth: {{}}}}}}]\n");
    let events = told(&yaml, asked);
    assert_eq!(first_tokens(&events), 3, "each stream has one");
    let spent = spent(&events);
    let said = |spent: &Option<Spent>| spent.map(|spent| (spent.prompt, spent.output));
    assert_eq!(said(&spent[0]), Some((40, 9)));
    assert_eq!(said(&spent[1]), Some((40, 9)));
    let estimated = spent[2].unwrap();
    assert!(estimated.output > 0 && estimated.prompt > 0 && estimated.cached.is_none());
    assert_eq!(said(&spent[3]), Some((40, 9)));
    // Each first token comes after its arrival and before its end.
    let word = |event: &Event| match event {
        Event::Arrive(_) => 'a',
        Event::FirstToken { .. } => 'f',
        Event::Ended(_) => 'e',
        _ => '.',
    };
    let order: String = events.iter().map(word).filter(|word| *word != '.').collect();
    assert_eq!(order, "aeafeafeafe");
}

#[test]
fn nothing_is_told_where_no_policy_looks() {
    let upstream = Upstream::start("A");
    let pool = pool("p", &[&upstream], &[]);
    let yaml =
        format!("pools:\n{pool}routes: [{{name: r, targets: [p], policies: {{least_inflight: {{}}}}}}]\n");
    let events = told(&yaml, asked);
    assert_eq!(first_tokens(&events), 0);
    assert_eq!(spent(&events), [None; 4]);
    let works = events
        .iter()
        .filter(|event| matches!(event, Event::Arrive(arrival) if arrival.work.is_some()));
    assert_eq!(works.count(), 0);
}
