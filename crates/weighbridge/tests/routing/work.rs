//! What the scheduler is told of a request's work: nothing where no policy looks at it.

use crate::prefix::{self, conversation};
use crate::shared::{SOON, options, pool};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use weighbridge_core::Event;
use weighbridge_core::event::{Ended, Spent};
use weighbridge_core::work::Work;
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

/// What the scheduler is told of the work of these bodies.
fn works(bodies: &[String]) -> Vec<Arc<Work>> {
    let upstream = Upstream::start("A");
    let events = told(&prefix::yaml(&[&upstream]), |gateway| {
        bodies.iter().map(|body| prefix::ask(gateway, body)).collect()
    });
    let arrived = events.into_iter().filter_map(|event| match event {
        Event::Arrive(arrival) => Some(arrival.work.unwrap()),
        _ => None,
    });
    arrived.collect()
}

#[test]
fn a_turn_more_keeps_all_blocks_and_other_tools_none() {
    let mut bodies: Vec<_> = (1..=10).map(|turns| conversation(3, turns)).collect();
    let tool = |name: &str| json!([{"type": "function", "function": {"name": name, "description": format!("{name}: {}", prefix::page(1))}}]);
    for name in ["weather", "whether"] {
        let mut with = conversation(3, 10);
        with["tools"] = tool(name);
        with["max_completion_tokens"] = json!(77);
        bodies.push(with);
    }
    let bodies: Vec<_> = bodies.iter().map(|body| body.to_string()).collect();
    let works = works(&bodies);
    for (turn, later) in works[..10].iter().zip(&works[1..10]) {
        assert!(turn.blocks.len() > 5 && later.blocks.len() > turn.blocks.len() + 5);
        assert!(later.blocks.starts_with(&turn.blocks));
        assert!(later.prompt_tokens > turn.prompt_tokens);
    }
    for work in &works {
        let in_blocks = u64::from(work.block_tokens) * work.blocks.len() as u64;
        let of = u64::from(work.prompt_tokens);
        assert!(in_blocks.abs_diff(of) * 10 < of, "{in_blocks} of {of} tokens");
    }
    let [.., without, one, other] = &works[..] else {
        panic!("{} requests", works.len());
    };
    assert_ne!(one.blocks[0], other.blocks[0]);
    assert_ne!(one.blocks[0], without.blocks[0]);
    assert_eq!((without.max_tokens, one.max_tokens), (None, Some(77)));
}
