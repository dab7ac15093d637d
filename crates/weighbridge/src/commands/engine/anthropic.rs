//! `/v1/messages` and `/v1/messages/count_tokens` in Anthropic's form.

use super::http::{Answer, Fault, json_answer, read, streamed};
use super::plan::{Finish, Limits, Plan, Tools};
use super::prompt::{Message, Prompt};
use super::server::{Server, unique_id};
use super::stream::{Script, TokenBody};
use hyper::StatusCode;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use weighbridge_sim::engine::EventKind;
use weighbridge_sim::text::Tokenizer;

/// The part of a request that makes up the prompt.
#[derive(Deserialize)]
struct Conversation {
    model: String,
    messages: Vec<Message>,
    system: Option<Value>,
    tools: Option<Value>,
}

impl Conversation {
    fn prompt(&self, server: &Server) -> Result<Tokenizer, Fault> {
        if self.messages.is_empty() {
            return Err(Fault::bad_request("messages: at least one message is required"));
        }
        if let Some(other) = self
            .messages
            .iter()
            .find(|m| !matches!(m.role.as_str(), "user" | "assistant" | "system"))
        {
            let message = format!("messages: role must be user or assistant, got {:?}", other.role);
            return Err(Fault::bad_request(message));
        }
        let mut prompt = Prompt::new(server.block_size(), None);
        prompt.tools(self.tools.as_ref());
        if let Some(system) = self.system.as_ref().filter(|system| !system.is_null()) {
            prompt.turn("system", system, None);
        }
        self.messages.iter().for_each(|message| prompt.message(message));
        Ok(prompt.for_an_answer())
    }
}

#[derive(Deserialize)]
struct MessagesRequest {
    max_tokens: u32,
    stop_sequences: Option<Vec<String>>,
    stream: Option<bool>,
    tool_choice: Option<Value>,
    #[serde(flatten)]
    conversation: Conversation,
}

/// `POST /v1/messages/count_tokens`
pub(super) async fn count_tokens(server: &Server, body: Incoming) -> Result<Answer, Fault> {
    let conversation: Conversation = read(body).await?;
    server.model(Some(&conversation.model))?;
    let tokens = conversation.prompt(server)?.tokens();
    Ok(json_answer(StatusCode::OK, &json!({"input_tokens": tokens})))
}

/// `POST /v1/messages`
pub(super) async fn messages(server: &Server, body: Incoming) -> Result<Answer, Fault> {
    let request: MessagesRequest = read(body).await?;
    let model = server.model(Some(&request.conversation.model))?;
    let limits = Limits {
        max_tokens: Some(request.max_tokens),
        stop: request.stop_sequences.unwrap_or_default(),
        ..Limits::default()
    };
    let tools = Tools {
        offered: request.conversation.tools.as_ref(),
        choice: request.tool_choice.as_ref(),
    };
    let plan = Plan::new(
        &server.config,
        request.conversation.prompt(server)?,
        &limits,
        &tools,
    )?;
    let ticket = server.engine.submit(plan.work(), plan.reason());
    let id = unique_id("msg_");
    if request.stream == Some(true) {
        let script = Events {
            plan,
            id,
            model,
            token: 0,
        };
        return Ok(streamed(TokenBody::new(ticket, Box::new(script))));
    }
    let cached = ticket.finished().await.ok_or_else(Fault::stopped)?;
    let (stop_reason, stop_sequence) = stopped(&plan);
    let mut body = message(&id, &model, usage(&plan, (cached, plan.output_tokens)));
    body["content"] = match &plan.tool {
        Some(name) => {
            // Arguments that the length cut are no JSON any more.
            let input: Value = serde_json::from_str(plan.text()).unwrap_or_else(|_| json!({}));
            json!([{"type": "tool_use", "id": unique_id("toolu_"), "name": name, "input": input}])
        }
        None => json!([{"type": "text", "text": plan.text()}]),
    };
    body["stop_reason"] = json!(stop_reason);
    body["stop_sequence"] = stop_sequence;
    Ok(json_answer(StatusCode::OK, &body))
}

fn message(id: &str, model: &str, usage: Value) -> Value {
    json!({
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": usage,
    })
}

/// `input_tokens` leaves out what came from the cache, as Anthropic counts.
fn usage(plan: &Plan, (cached, output): (u32, u32)) -> Value {
    json!({
        "input_tokens": plan.prompt_tokens - cached.min(plan.prompt_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
    })
}

fn stopped(plan: &Plan) -> (&'static str, Value) {
    match &plan.finish {
        Finish::Stop if plan.tool.is_some() => ("tool_use", Value::Null),
        Finish::Stop => ("end_turn", Value::Null),
        Finish::Length => ("max_tokens", Value::Null),
        Finish::Sequence(stop) => ("stop_sequence", json!(stop)),
    }
}

/// The events of a stream.
struct Events {
    plan: Plan,
    id: String,
    model: String,
    token: u32,
}

fn event(name: &str, data: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("event: {name}\ndata: {data}\n\n").as_bytes());
}

impl Events {
    fn start(&self, cached: u32, out: &mut Vec<u8>) {
        let message = message(&self.id, &self.model, usage(&self.plan, (cached, 1)));
        event(
            "message_start",
            &json!({"type": "message_start", "message": message}),
            out,
        );
        let block = match &self.plan.tool {
            Some(name) => json!({"type": "tool_use", "id": unique_id("toolu_"), "name": name, "input": {}}),
            None => json!({"type": "text", "text": ""}),
        };
        event(
            "content_block_start",
            &json!({"type": "content_block_start", "index": 0, "content_block": block}),
            out,
        );
        event("ping", &json!({"type": "ping"}), out);
    }

    fn next_token(&mut self, out: &mut Vec<u8>) {
        let text = self.plan.token(self.token);
        if !text.is_empty() {
            let delta = match &self.plan.tool {
                Some(_) => json!({"type": "input_json_delta", "partial_json": text}),
                None => json!({"type": "text_delta", "text": text}),
            };
            let data = json!({"type": "content_block_delta", "index": 0, "delta": delta});
            event("content_block_delta", &data, out);
        }
        self.token += 1;
    }

    fn end(&self, out: &mut Vec<u8>) {
        event(
            "content_block_stop",
            &json!({"type": "content_block_stop", "index": 0}),
            out,
        );
        let (stop_reason, stop_sequence) = stopped(&self.plan);
        let data = json!({
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": stop_sequence},
            "usage": {"output_tokens": self.plan.output_tokens},
        });
        event("message_delta", &data, out);
        event("message_stop", &json!({"type": "message_stop"}), out);
    }
}

impl Script for Events {
    fn write(&mut self, kind: EventKind, out: &mut Vec<u8>) {
        match kind {
            EventKind::FirstToken { cached_tokens, .. } => {
                self.start(cached_tokens, out);
                self.next_token(out);
            }
            EventKind::Token => self.next_token(out),
            EventKind::Finished => self.end(out),
        }
    }
}
