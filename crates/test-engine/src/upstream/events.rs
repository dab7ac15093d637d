//! The events of a streamed answer, in each dialect.

use super::shapes::{BIG, CREATED, Shapes, THOUGHT, ToolCall};
use crate::json::{Obj, quote};

/// Characters of tool arguments per event.
const ARGUMENTS_STEP: usize = 7;
const CHUNKS: i64 = 8;

/// Which API a path belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Chat,
    Text,
    Responses,
    Anthropic,
    /// Audio and images: typed events.
    Media,
}

impl Dialect {
    pub(crate) fn of_path(path: &str) -> Option<Dialect> {
        let ends = |end: &str| path.ends_with(end);
        match path {
            _ if ends("/chat/completions") => Some(Dialect::Chat),
            _ if ends("/completions") => Some(Dialect::Text),
            _ if ends("/responses") => Some(Dialect::Responses),
            _ if ends("/messages") => Some(Dialect::Anthropic),
            _ if super::media::has_events(path) => Some(Dialect::Media),
            _ => None,
        }
    }
}

/// One event of a stream.
pub(crate) struct Event {
    pub(crate) name: Option<&'static str>,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn unnamed(data: String) -> Event {
        Event { name: None, data }
    }

    /// An event whose data repeats its name as `type`.
    pub(crate) fn typed(name: &'static str, fields: impl FnOnce(Obj) -> Obj) -> Event {
        Event {
            name: Some(name),
            data: fields(Obj::new().str("type", name)).end(),
        }
    }
}

/// Cuts text into pieces of `step` characters.
fn pieces(text: &str, step: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(step.max(1)).map(|c| c.iter().collect()).collect()
}

impl Shapes<'_> {
    /// All events of the answer.
    pub(crate) fn events(&self) -> Vec<Event> {
        let wanted = usize::try_from(self.mode.int("chunks", CHUNKS))
            .unwrap_or(1)
            .max(1);
        let parts = pieces(self.text, self.text.chars().count().div_ceil(wanted));
        let mut events = match self.dialect {
            Dialect::Chat | Dialect::Text => self.completion_events(&parts),
            Dialect::Responses => self.response_events(&parts),
            Dialect::Anthropic => self.message_events(&parts),
            Dialect::Media => self.media_events(&parts),
        };
        if self.mode.has("bigint")
            && let Some(event) = events.get_mut(1).filter(|e| e.data.ends_with('}'))
        {
            event.data.pop();
            event.data += &format!(",\"x_big\":{BIG}}}");
        }
        events
    }

    fn has_done(&self) -> bool {
        !self.mode.has("nodone")
    }

    fn response_events(&self, parts: &[String]) -> Vec<Event> {
        let id = format!("resp_{}", self.name);
        let begun = Obj::new().str("id", &id).str("status", "in_progress");
        let mut events = vec![Event::typed("response.created", |o| o.obj("response", begun))];
        events.extend(
            parts
                .iter()
                .map(|p| Event::typed("response.output_text.delta", |o| o.str("delta", p))),
        );
        if self.has_done() {
            events.push(Event::typed("response.completed", |o| {
                o.obj("response", self.response())
            }));
        }
        events
    }

    fn message_events(&self, parts: &[String]) -> Vec<Event> {
        let (m, tools) = (self.mode, self.tools());
        let message = Obj::new()
            .str("id", &format!("msg_{}", self.name))
            .str("type", "message")
            .str("role", "assistant")
            .raw("model", self.model())
            .raw("content", "[]")
            .null("stop_reason")
            .null("stop_sequence")
            .when(!m.has("nousage"), |o| o.obj("usage", self.message_usage(1)));
        let mut events = vec![
            Event::typed("message_start", |o| o.obj("message", message)),
            Event::typed("ping", |o| o),
        ];
        let mut blocks = Blocks {
            events: &mut events,
            index: 0,
        };
        if m.has("reasoning") {
            let start = Obj::new().str("type", "thinking").str("thinking", "");
            let thought = Obj::new().str("type", "thinking_delta").str("thinking", THOUGHT);
            let signature = Obj::new()
                .str("type", "signature_delta")
                .str("signature", "sig==");
            blocks.add(start, vec![thought, signature]);
        }
        if !parts.is_empty() {
            let deltas = parts
                .iter()
                .map(|p| Obj::new().str("type", "text_delta").str("text", p));
            blocks.add(Obj::new().str("type", "text").str("text", ""), deltas.collect());
        }
        for tool in &tools {
            let start = Obj::new()
                .str("type", "tool_use")
                .str("id", &format!("toolu_{}", tool.id));
            let pieces = std::iter::once(String::new()).chain(pieces(&tool.arguments, ARGUMENTS_STEP));
            let deltas = pieces.map(|p| Obj::new().str("type", "input_json_delta").str("partial_json", &p));
            blocks.add(start.str("name", &tool.name).raw("input", "{}"), deltas.collect());
        }
        if !m.has("no_terminal") {
            let reason = self.stop_reason(!tools.is_empty());
            let delta = Obj::new()
                .str("stop_reason", reason)
                .opt("stop_sequence", m.get("stop_hit"));
            let usage = Obj::new().int("output_tokens", self.tokens().1);
            let event = |o: Obj| {
                o.obj("delta", delta)
                    .when(!m.has("nousage"), |o| o.obj("usage", usage))
            };
            events.push(Event::typed("message_delta", event));
        }
        if self.has_done() {
            events.push(Event::typed("message_stop", |o| o));
        }
        events
    }

    fn completion_events(&self, parts: &[String]) -> Vec<Event> {
        let (m, tools) = (self.mode, self.tools());
        let asked = self.request.json["stream_options"]["include_usage"].as_bool() == Some(true);
        let chunk = Chunks {
            shapes: self,
            null_usage: m.has("usage_null") || m.has("usage") || asked,
        };
        let mut events = Vec::new();
        if m.has("empty_choices") {
            events.push(
                chunk
                    .base()
                    .raw("choices", "[]")
                    .raw("prompt_filter_results", "[]"),
            );
        }
        events.push(chunk.delta(Obj::new().str("role", "assistant").str("content", ""), ""));
        if m.has("reasoning") {
            let thoughts = pieces(THOUGHT, 5);
            events.extend(
                thoughts
                    .iter()
                    .map(|p| chunk.delta(Obj::new().str("reasoning_content", p), "")),
            );
        }
        events.extend(parts.iter().map(|p| chunk.delta(Obj::new().str("content", p), p)));
        if m.has("late_reasoning") {
            events.push(chunk.delta(Obj::new().str("reasoning_content", "an afterthought"), ""));
            events.push(chunk.delta(Obj::new().str("content", "the rest"), "the rest"));
        }
        events.extend(tools.iter().flat_map(|t| chunk.tool(t)));
        if !m.has("no_terminal") {
            events.push(chunk.finish(self.finish(!tools.is_empty())));
        }
        if (m.has("usage") || asked) && !m.has("nousage") {
            events.push(chunk.base().raw("choices", "[]").obj("usage", self.usage()));
        }
        let mut events: Vec<Event> = events.into_iter().map(|o| Event::unnamed(o.end())).collect();
        if self.has_done() {
            events.push(Event::unnamed("[DONE]".to_owned()));
        }
        events
    }
}

/// Writes content blocks of a message stream, numbered in order.
struct Blocks<'a> {
    events: &'a mut Vec<Event>,
    index: i64,
}

impl Blocks<'_> {
    fn add(&mut self, start: Obj, deltas: Vec<Obj>) {
        let i = self.index;
        self.index += 1;
        self.events.push(Event::typed("content_block_start", |o| {
            o.int("index", i).obj("content_block", start)
        }));
        for delta in deltas {
            self.events.push(Event::typed("content_block_delta", |o| {
                o.int("index", i).obj("delta", delta)
            }));
        }
        self.events
            .push(Event::typed("content_block_stop", |o| o.int("index", i)));
    }
}

/// Writes chunks of a chat or text completion stream.
struct Chunks<'a, 'b> {
    shapes: &'a Shapes<'b>,
    /// Every chunk carries `"usage": null`.
    null_usage: bool,
}

impl Chunks<'_, '_> {
    fn base(&self) -> Obj {
        let s = self.shapes;
        let object = if s.dialect == Dialect::Chat {
            "chat.completion.chunk"
        } else {
            "text_completion"
        };
        Obj::new()
            .str("id", &format!("chatcmpl-{}", s.name))
            .str("object", object)
            .int("created", CREATED)
            .raw("model", s.model())
            .str("system_fingerprint", s.name)
    }

    /// A chunk with a delta (chat) or a text.
    fn delta(&self, delta: Obj, text: &str) -> Obj {
        self.choice(self.content(delta, text), "null", None)
    }

    fn tool(&self, tool: &ToolCall) -> Vec<Obj> {
        let call = |o: Obj| self.delta(Obj::new().arr("tool_calls", [o.end()]), "");
        let function = Obj::new().str("name", &tool.name).str("arguments", "");
        let first = Obj::new()
            .int("index", tool.index)
            .str("id", &tool.id)
            .str("type", "function");
        let mut chunks = vec![call(first.obj("function", function))];
        for piece in pieces(&tool.arguments, ARGUMENTS_STEP) {
            let function = Obj::new().str("arguments", &piece);
            chunks.push(call(
                Obj::new().int("index", tool.index).obj("function", function),
            ));
        }
        chunks
    }

    fn finish(&self, why: &str) -> Obj {
        self.choice(
            self.content(Obj::new(), ""),
            &quote(why),
            self.shapes.mode.get("stop_hit"),
        )
    }

    fn content(&self, delta: Obj, text: &str) -> Obj {
        match self.shapes.dialect {
            Dialect::Text => Obj::new().int("index", 0).str("text", text),
            _ => Obj::new().int("index", 0).obj("delta", delta),
        }
    }

    fn choice(&self, content: Obj, finish: &str, stop: Option<&str>) -> Obj {
        let choice = content.raw("finish_reason", finish).null("logprobs");
        let choice = choice.when(stop.is_some(), |o| o.opt("stop_reason", stop));
        self.base()
            .arr("choices", [choice.end()])
            .when(self.null_usage, |o| o.null("usage"))
    }
}
