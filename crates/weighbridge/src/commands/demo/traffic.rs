//! The demo's own traffic: a few conversations that grow, at a bounded rate.

use super::Args;
use super::chaos::Draws;
use super::chat::{Answer, Question, ask};
use super::show::{Stage, told};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use weighbridge_sim::text::mix;

/// Who talks to which model.
const PEOPLE: [(&str, &str); 6] = [
    ("anna", "llama-8b"),
    ("ben", "llama-8b"),
    ("chloe", "llama-8b"),
    ("dev", "llama-8b"),
    ("emil", "mini"),
    ("fatima", "llama-8b"),
];
/// What they ask, in turn.
const QUESTIONS: [&str; 8] = [
    "Write a few sentences about the sea, the way it looks from a small boat at dawn.",
    "And how does that change when the wind comes from the north?",
    "Put the same into the words of somebody who has never seen water.",
    "Which of these versions would you read to a child, and why?",
    "Shorten it until only what matters is left.",
    "Now make a list of the things that you left out.",
    "Explain to a sailor what is wrong with the list.",
    "Sum up our conversation.",
];
/// Longest answer asked for, in tokens.
const TOKENS_MAX: u32 = 120;

/// What the traffic needs to know.
pub(super) struct Client {
    gateway: SocketAddr,
    rate: f64,
    seed: u64,
}

/// A conversation.
struct Session {
    who: &'static str,
    model: &'static str,
    /// Counts up with every new conversation.
    number: u64,
    messages: Vec<Value>,
}

/// A chat that has ended.
pub(super) struct Told {
    pub(super) who: &'static str,
    /// 1 for the first question of a conversation.
    pub(super) turn: usize,
    pub(super) model: &'static str,
    pub(super) request_id: String,
    pub(super) answer: Result<Answer, String>,
}

impl Client {
    pub(super) fn of(args: &Args, listen: SocketAddr) -> Self {
        let mut gateway = listen;
        if listen.ip().is_unspecified() {
            gateway.set_ip(match listen {
                SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
            });
        }
        Self {
            gateway,
            rate: args.rate,
            seed: args.seed,
        }
    }
}

/// Asks for ever. A question that is due while everybody waits for an answer is left out.
pub(super) async fn run(stage: &Stage<'_>, client: Client) {
    if client.rate <= 0.0 {
        return std::future::pending().await;
    }
    let mut draws = Draws(mix(client.seed ^ 1));
    let mut idle: Vec<Session> = PEOPLE
        .iter()
        .map(|&(who, model)| Session {
            who,
            model,
            number: 1,
            messages: Vec::new(),
        })
        .collect();
    let mut asked: u64 = 0;
    let mut waiting = JoinSet::new();
    let mut due = interval(Duration::from_secs_f64(1.0 / client.rate));
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = due.tick(), if !idle.is_empty() => {
                asked += 1;
                let session = idle.swap_remove(draws.below(idle.len()));
                waiting.spawn(turn(client.gateway, session, format!("demo-{asked}")));
            }
            Some(ended) = waiting.join_next() => if let Ok((session, chat)) = ended {
                idle.push(session);
                told(stage, &chat);
            }
        }
    }
}

/// One question and its answer, which become part of the conversation; a question that failed is asked again.
async fn turn(gateway: SocketAddr, mut session: Session, request_id: String) -> (Session, Told) {
    let turn = session.messages.len() / 2;
    let asked = QUESTIONS.get(turn).copied().unwrap_or_default();
    session.messages.push(json!({"role": "user", "content": asked}));
    let question = Question {
        request_id,
        session: format!("{}-{}", session.who, session.number),
        model: session.model.to_owned(),
        messages: session.messages.clone(),
        max_tokens: TOKENS_MAX,
    };
    let answer = ask(gateway, &question).await;
    match &answer {
        Ok(answer) if turn + 1 < QUESTIONS.len() => {
            session
                .messages
                .push(json!({"role": "assistant", "content": answer.text}));
        }
        Ok(_) => {
            session.messages.clear();
            session.number += 1;
        }
        Err(_) => {
            session.messages.pop();
        }
    }
    let told = Told {
        who: session.who,
        turn: turn + 1,
        model: session.model,
        request_id: question.request_id,
        answer,
    };
    (session, told)
}
