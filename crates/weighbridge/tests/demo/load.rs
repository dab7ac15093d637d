//! Mixed load: every path, streamed and in one piece, conversations, and clients that leave.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weighbridge_test_engine::client::{Request, StreamClient};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Questions of one conversation.
const TURNS: usize = 6;

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Chat,
    ChatStream,
    Completion,
    CompletionStream,
    Embedding,
    Messages,
    MessagesStream,
    /// A stream whose client leaves in the middle.
    Leaving,
    /// The next question of a conversation, streamed.
    Session,
}

pub(crate) const KINDS: [Kind; 9] = [
    Kind::Session,
    Kind::ChatStream,
    Kind::Embedding,
    Kind::MessagesStream,
    Kind::Leaving,
    Kind::Chat,
    Kind::CompletionStream,
    Kind::Messages,
    Kind::Completion,
];

/// How a request ended, as its client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Whole,
    Left,
    Failed(String),
}

/// One request of a client.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) id: String,
    pub(crate) kind: Kind,
    pub(crate) seen: Seen,
}

/// A client that asks until told to stop.
pub(crate) struct Client {
    pub(crate) gateway: String,
    pub(crate) number: usize,
    conversation: Vec<Value>,
    conversations: usize,
}

impl Client {
    pub(crate) fn new(gateway: String, number: usize) -> Self {
        Self {
            gateway,
            number,
            conversation: Vec::new(),
            conversations: 0,
        }
    }

    pub(crate) fn run(mut self, stop: &AtomicBool) -> Vec<Sent> {
        let mut sent = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let count = sent.len();
            let kind = KINDS[(count + self.number) % KINDS.len()];
            let id = format!("client-{}-{count}", self.number);
            let seen = self.send(kind, &id);
            sent.push(Sent { id, kind, seen });
        }
        sent
    }

    fn send(&mut self, kind: Kind, id: &str) -> Seen {
        let session = format!("session-{}-{}", self.number, self.conversations);
        let request = self
            .request(kind, id)
            .header("x-request-id", id)
            .header("x-session-id", &session);
        let mut stream = match request.patience(PATIENCE).try_open() {
            Ok(stream) => stream,
            Err(failure) => return Seen::Failed(failure.to_string()),
        };
        if stream.status != 200 {
            stream.finish(PATIENCE);
            return Seen::Failed(format!("{}: {}", stream.status, stream.text()));
        }
        if kind == Kind::Leaving {
            stream.wait_events(3, PATIENCE);
            stream.abort();
            return Seen::Left;
        }
        let end = stream.finish(PATIENCE);
        let text = stream.text();
        if !end.is_whole() || !is_whole(kind, &stream, &text) {
            let last: String = text
                .chars()
                .rev()
                .take(200)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect();
            return Seen::Failed(format!("{end:?}: …{last}"));
        }
        if kind == Kind::Session {
            self.go_on(&stream);
        }
        Seen::Whole
    }

    fn request(&mut self, kind: Kind, id: &str) -> Request {
        let model = if id.len().is_multiple_of(2) || kind == Kind::Session {
            "llama-8b"
        } else {
            "mini"
        };
        let said = format!("This is {id}. Tell me about the sea, and then about the land behind it.");
        let stream = matches!(
            kind,
            Kind::ChatStream | Kind::CompletionStream | Kind::MessagesStream | Kind::Leaving | Kind::Session
        );
        let (path, body) = match kind {
            Kind::Chat | Kind::ChatStream | Kind::Leaving => (
                "chat/completions",
                json!({"messages": [{"role": "user", "content": said}]}),
            ),
            Kind::Session => {
                self.conversation.push(json!({"role": "user", "content": said}));
                ("chat/completions", json!({"messages": self.conversation}))
            }
            Kind::Completion | Kind::CompletionStream => ("completions", json!({"prompt": said})),
            Kind::Embedding => ("embeddings", json!({"input": [said, "another text"]})),
            Kind::Messages | Kind::MessagesStream => (
                "messages",
                json!({"messages": [{"role": "user", "content": said}]}),
            ),
        };
        let mut body = body;
        body["model"] = model.into();
        if kind != Kind::Embedding {
            body["max_tokens"] = 60.into();
            body["stream"] = stream.into();
        }
        Request::post(&format!("{}/v1/{path}", self.gateway), body.to_string())
    }

    /// Makes the answer a part of the conversation, or begins a new one.
    fn go_on(&mut self, stream: &StreamClient) {
        let events = stream.events();
        let said = events.iter().filter_map(|event| {
            event.json()["choices"][0]["delta"]["content"]
                .as_str()
                .map(str::to_owned)
        });
        self.conversation
            .push(json!({"role": "assistant", "content": said.collect::<String>()}));
        if self.conversation.len() >= 2 * TURNS {
            self.conversation.clear();
            self.conversations += 1;
        }
    }
}

/// Whether an answer is all there.
fn is_whole(kind: Kind, stream: &StreamClient, text: &str) -> bool {
    let json = || serde_json::from_str::<Value>(text).unwrap_or_default();
    match kind {
        Kind::Chat | Kind::Completion => json()["choices"][0]["finish_reason"].is_string(),
        Kind::Embedding => json()["data"].as_array().is_some_and(|data| data.len() == 2),
        Kind::Messages => json()["stop_reason"].is_string(),
        Kind::MessagesStream => stream
            .events()
            .last()
            .is_some_and(|last| last.name.as_deref() == Some("message_stop")),
        Kind::ChatStream | Kind::CompletionStream | Kind::Session | Kind::Leaving => {
            stream.data().last().is_some_and(|last| last == "[DONE]") && !text.contains("\"error\"")
        }
    }
}
