//! `/v1/chat/completions` and `/v1/completions`, in the form vLLM gives them.

use super::driver::Ticket;
use super::http::{Answer, Fault, json_answer, read, streamed};
use super::plan::{Finish, Limits, OneOrMany, Plan, Tools};
use super::prompt::{Message, Prompt};
use super::server::{Server, unique_id, unix_seconds};
use super::stream::{Script, TokenBody};
use hyper::StatusCode;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use weighbridge_sim::engine::EventKind;

/// Tokens of a completion that names no limit, as in OpenAI's API.
const COMPLETION_TOKENS: u32 = 16;

#[derive(Deserialize)]
struct StreamOptions {
    #[serde(default)]
    include_usage: Option<bool>,
}

/// What chat and plain completions have in common.
#[derive(Deserialize)]
struct Common {
    model: Option<String>,
    max_tokens: Option<u32>,
    max_completion_tokens: Option<u32>,
    min_tokens: Option<u32>,
    ignore_eos: Option<bool>,
    stop: Option<OneOrMany>,
    n: Option<u32>,
    best_of: Option<u32>,
    seed: Option<i64>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    cache_salt: Option<String>,
}

impl Common {
    /// The model's name; refuses what the engine cannot do.
    fn check(&self, server: &Server) -> Result<String, Fault> {
        for (name, value) in [("n", self.n), ("best_of", self.best_of)] {
            if value.is_some_and(|value| value != 1) {
                let message = format!("{name} must be 1: a simulated engine gives one answer per request.");
                return Err(Fault::bad_request(message).about(name));
            }
        }
        if self.stream_options.is_some() && self.stream != Some(true) {
            let message = "stream_options needs stream to be true.";
            return Err(Fault::bad_request(message).about("stream_options"));
        }
        server.model(self.model.as_deref())
    }

    fn limits(&mut self, default_max: Option<u32>) -> Limits {
        Limits {
            max_tokens: self.max_completion_tokens.or(self.max_tokens).or(default_max),
            min_tokens: self.min_tokens.unwrap_or_default(),
            ignore_eos: self.ignore_eos.unwrap_or_default(),
            stop: self.stop.take().map(OneOrMany::into_list).unwrap_or_default(),
            seed: self.seed.unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct ChatRequest {
    messages: Vec<Message>,
    tools: Option<Value>,
    tool_choice: Option<Value>,
    #[serde(flatten)]
    common: Common,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrTokens {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
    TokenLists(Vec<Vec<u32>>),
}

#[derive(Deserialize)]
struct CompletionRequest {
    prompt: TextOrTokens,
    echo: Option<bool>,
    #[serde(flatten)]
    common: Common,
}

/// `POST /v1/chat/completions`
pub(super) async fn chat(server: &Server, body: Incoming) -> Result<Answer, Fault> {
    let mut request: ChatRequest = read(body).await?;
    let model = request.common.check(server)?;
    if request.messages.is_empty() {
        return Err(Fault::bad_request("messages is empty.").about("messages"));
    }
    let mut prompt = Prompt::new(server.block_size(), request.common.cache_salt.as_deref());
    prompt.tools(request.tools.as_ref());
    request
        .messages
        .iter()
        .for_each(|message| prompt.message(message));
    let limits = request.common.limits(None);
    let tools = Tools {
        offered: request.tools.as_ref(),
        choice: request.tool_choice.as_ref(),
    };
    let plan = Plan::new(&server.config, prompt.for_an_answer(), &limits, &tools)?;
    reply(server, &Form::chat(model), (plan, request.common)).await
}

/// `POST /v1/completions`
pub(super) async fn completion(server: &Server, body: Incoming) -> Result<Answer, Fault> {
    let mut request: CompletionRequest = read(body).await?;
    let model = request.common.check(server)?;
    if request.echo == Some(true) {
        return Err(Fault::bad_request("echo is not supported by a simulated engine.").about("echo"));
    }
    let mut prompt = Prompt::new(server.block_size(), request.common.cache_salt.as_deref());
    match &request.prompt {
        TextOrTokens::Text(text) => prompt.text(text),
        TextOrTokens::Tokens(tokens) => prompt.numbered(tokens),
        TextOrTokens::Texts(texts) if texts.len() == 1 => texts.iter().for_each(|text| prompt.text(text)),
        TextOrTokens::TokenLists(lists) if lists.len() == 1 => {
            lists.iter().for_each(|list| prompt.numbered(list))
        }
        TextOrTokens::Texts(_) | TextOrTokens::TokenLists(_) => {
            let message = "prompt must be one prompt: a simulated engine gives one answer per request.";
            return Err(Fault::bad_request(message).about("prompt"));
        }
    }
    let limits = request.common.limits(Some(COMPLETION_TOKENS));
    let plan = Plan::new(&server.config, prompt.bare(), &limits, &Tools::default())?;
    reply(server, &Form::completion(model), (plan, request.common)).await
}

/// What differs between the two endpoints' answers.
struct Form {
    id: String,
    object: &'static str,
    chunk_object: &'static str,
    chat: bool,
    model: String,
    created: u64,
}

impl Form {
    fn chat(model: String) -> Self {
        Self {
            id: unique_id("chatcmpl-"),
            object: "chat.completion",
            chunk_object: "chat.completion.chunk",
            chat: true,
            model,
            created: unix_seconds(),
        }
    }

    fn completion(model: String) -> Self {
        let (id, object) = (unique_id("cmpl-"), "text_completion");
        Self {
            id,
            object,
            chunk_object: object,
            chat: false,
            ..Self::chat(model)
        }
    }

    /// Everything of a chunk before its choices.
    fn chunk_head(&self) -> String {
        let head = json!({
            "id": self.id, "object": self.chunk_object, "created": self.created, "model": self.model,
        })
        .to_string();
        format!("data: {},", head.trim_end_matches('}'))
    }
}

fn finish_reason(plan: &Plan) -> &'static str {
    match (&plan.finish, &plan.tool) {
        (Finish::Length, _) => "length",
        (_, Some(_)) => "tool_calls",
        (_, None) => "stop",
    }
}

fn stop_reason(finish: &Finish) -> Value {
    match finish {
        Finish::Sequence(stop) => json!(stop),
        Finish::Stop | Finish::Length => Value::Null,
    }
}

fn usage(plan: &Plan, cached: u32) -> Value {
    json!({
        "prompt_tokens": plan.prompt_tokens,
        "total_tokens": plan.prompt_tokens + plan.output_tokens,
        "completion_tokens": plan.output_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    })
}

async fn reply(server: &Server, form: &Form, (plan, common): (Plan, Common)) -> Result<Answer, Fault> {
    let ticket = server.engine.submit(plan.work(), plan.reason());
    if common.stream == Some(true) {
        let include_usage = common.stream_options.and_then(|options| options.include_usage) == Some(true);
        let script = Chunks {
            plan,
            include_usage,
            head: form.chunk_head(),
            chat: form.chat,
            cached: 0,
            token: 0,
        };
        return Ok(streamed(TokenBody::new(ticket, Box::new(script))));
    }
    in_one_piece(form, plan, ticket).await
}

async fn in_one_piece(form: &Form, plan: Plan, ticket: Ticket) -> Result<Answer, Fault> {
    let cached = ticket.finished().await.ok_or_else(Fault::stopped)?;
    let mut choice = json!({
        "index": 0,
        "logprobs": null,
        "finish_reason": finish_reason(&plan),
        "stop_reason": stop_reason(&plan.finish),
    });
    if let Some(name) = &plan.tool {
        let function = json!({"name": name, "arguments": plan.text()});
        let call = json!({"id": unique_id("call_"), "type": "function", "function": function});
        choice["message"] =
            json!({"role": "assistant", "content": null, "refusal": null, "tool_calls": [call]});
    } else if form.chat {
        choice["message"] =
            json!({"role": "assistant", "content": plan.text(), "refusal": null, "tool_calls": []});
    } else {
        choice["text"] = json!(plan.text());
    }
    let body = json!({
        "id": form.id,
        "object": form.object,
        "created": form.created,
        "model": form.model,
        "choices": [choice],
        "usage": usage(&plan, cached),
    });
    Ok(json_answer(StatusCode::OK, &body))
}

/// The chunks of a stream. The part that all share is written once.
struct Chunks {
    plan: Plan,
    include_usage: bool,
    head: String,
    chat: bool,
    cached: u32,
    token: u32,
}

impl Chunks {
    fn chunk(&self, rest: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(self.head.as_bytes());
        out.extend_from_slice(rest.as_bytes());
        out.extend_from_slice(b"}\n\n");
    }

    fn delta(&self, delta: &Value, out: &mut Vec<u8>) {
        let rest = r#""logprobs":null,"finish_reason":null"#;
        self.chunk(
            &format!(r#""choices":[{{"index":0,"delta":{delta},{rest}}}]"#),
            out,
        );
    }

    fn next_token(&mut self, out: &mut Vec<u8>) {
        let text = Value::from(self.plan.token(self.token));
        self.token += 1;
        let last = self.token == self.plan.output_tokens;
        if !last && text == "" {
            return;
        }
        let content = match (&self.plan.tool, self.chat) {
            (Some(_), _) if text == "" => r#""delta":{}"#.to_owned(),
            (Some(_), _) => {
                format!(r#""delta":{{"tool_calls":[{{"index":0,"function":{{"arguments":{text}}}}}]}}"#)
            }
            (None, true) => format!(r#""delta":{{"content":{text}}}"#),
            (None, false) => format!(r#""text":{text}"#),
        };
        let end = if last {
            let (finish, stop) = (finish_reason(&self.plan), stop_reason(&self.plan.finish));
            format!("\"finish_reason\":\"{finish}\",\"stop_reason\":{stop}")
        } else {
            "\"finish_reason\":null".to_owned()
        };
        self.chunk(
            &format!("\"choices\":[{{\"index\":0,{content},\"logprobs\":null,{end}}}]"),
            out,
        );
    }
}

impl Script for Chunks {
    fn write(&mut self, event: EventKind, out: &mut Vec<u8>) {
        match event {
            EventKind::FirstToken { cached_tokens, .. } => {
                self.cached = cached_tokens;
                if self.chat {
                    self.delta(&json!({"role": "assistant", "content": ""}), out);
                }
                if let Some(name) = &self.plan.tool {
                    let function = json!({"name": name, "arguments": ""});
                    let call = json!({"index": 0, "id": unique_id("call_"), "type": "function", "function": function});
                    self.delta(&json!({"tool_calls": [call]}), out);
                }
                self.next_token(out);
            }
            EventKind::Token => self.next_token(out),
            EventKind::Finished => {
                if self.include_usage {
                    let usage = usage(&self.plan, self.cached);
                    self.chunk(&format!("\"choices\":[],\"usage\":{usage}"), out);
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
            }
        }
    }
}
