//! The shapes of whole answers, and the parts that whole answers and streams share.

use super::answer::Request;
use super::events::Dialect;
use super::mode::Mode;
use crate::json::{Obj, array};

pub(crate) const CREATED: i64 = 1_700_000_000;
pub(crate) const THOUGHT: &str = "some thoughts first";
/// Larger than what a JSON number in a double can hold exactly.
pub(crate) const BIG: &str = "9007199254740993";

/// One call of a tool.
pub(crate) struct ToolCall {
    pub(crate) index: i64,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

/// Everything an answer's body is made from.
pub(crate) struct Shapes<'a> {
    pub(crate) name: &'a str,
    pub(crate) mode: &'a Mode,
    pub(crate) request: &'a Request,
    pub(crate) text: &'a str,
    pub(crate) dialect: Dialect,
}

impl Shapes<'_> {
    /// The body of an answer in one piece.
    pub(crate) fn whole(&self) -> String {
        match self.dialect {
            Dialect::Chat => self.chat(),
            Dialect::Text => self.completion(),
            Dialect::Responses => self.response().end(),
            Dialect::Anthropic => self.message(),
            // In one piece they have been answered before.
            Dialect::Media => String::new(),
        }
    }

    /// The model as the client named it, as JSON.
    pub(crate) fn model(&self) -> String {
        self.request.json["model"].to_string()
    }

    /// Prompt and completion tokens.
    pub(crate) fn tokens(&self) -> (i64, i64) {
        let words = i64::try_from(self.text.chars().count() / 4).unwrap_or(i64::MAX);
        (
            self.mode.int("usage_in", 11),
            self.mode.int("usage_out", words.max(1)),
        )
    }

    /// Usage as chat and text completions have it.
    pub(crate) fn usage(&self) -> Obj {
        let (input, output) = self.tokens();
        let usage = Obj::new()
            .int("prompt_tokens", input)
            .int("completion_tokens", output);
        usage
            .int("total_tokens", input + output)
            .when(self.mode.has("cached"), |u| {
                u.obj(
                    "prompt_tokens_details",
                    Obj::new().int("cached_tokens", self.mode.int("cached", 0)),
                )
            })
    }

    pub(crate) fn tools(&self) -> Vec<ToolCall> {
        let m = self.mode;
        let mut count = m.int("tool", 0);
        if m.has("tool_noargs") || m.has("tool_args") {
            count = count.max(1);
        }
        let default = format!("{{\"city\":\"Lisbon\",\"id\":{BIG}}}");
        let arguments = m.get("tool_args").map_or(default, str::to_owned);
        let call = |i: i64| ToolCall {
            index: i,
            id: format!("call_{}_{i}", self.name),
            name: if i == 0 {
                "get_weather".to_owned()
            } else {
                format!("tool_{i}")
            },
            arguments: if m.has("tool_noargs") {
                String::new()
            } else {
                arguments.clone()
            },
        };
        (0..count).map(call).collect()
    }

    /// Why the model stopped, in OpenAI's words.
    pub(crate) fn finish(&self, tools: bool) -> &str {
        self.mode
            .get("finish")
            .unwrap_or(if tools { "tool_calls" } else { "stop" })
    }

    /// Why the model stopped, in Anthropic's words.
    pub(crate) fn stop_reason(&self, tools: bool) -> &str {
        let natural = if tools { "tool_use" } else { "end_turn" };
        let natural = if self.mode.has("stop_hit") {
            "stop_sequence"
        } else {
            natural
        };
        self.mode.get("finish").unwrap_or(natural)
    }

    fn with_usage(&self, object: Obj, usage: Obj) -> Obj {
        object.when(!self.mode.has("nousage"), |o| o.obj("usage", usage))
    }

    fn chat(&self) -> String {
        let (m, tools) = (self.mode, self.tools());
        let content = (!self.text.is_empty() || tools.is_empty()).then_some(self.text);
        let call = |t: &ToolCall| {
            let function = Obj::new().str("name", &t.name).str("arguments", &t.arguments);
            Obj::new()
                .str("id", &t.id)
                .str("type", "function")
                .obj("function", function)
                .end()
        };
        let message = Obj::new()
            .str("role", "assistant")
            .opt("content", content)
            .when(m.has("refusal"), |o| o.str("refusal", "that is refused"))
            .when(m.has("reasoning"), |o| o.str("reasoning_content", THOUGHT))
            .when(!tools.is_empty(), |o| o.arr("tool_calls", tools.iter().map(call)));
        let nan = r#"{"content":[{"token":"a","logprob":NaN,"bytes":null,"top_logprobs":[]}]}"#;
        let choice = Obj::new()
            .int("index", 0)
            .obj("message", message)
            .str("finish_reason", self.finish(!tools.is_empty()))
            .raw("logprobs", if m.has("nan") { nan } else { "null" })
            .when(m.has("stop_hit"), |o| o.opt("stop_reason", m.get("stop_hit")));
        let answer = Obj::new()
            .str("id", &format!("chatcmpl-{}", self.name))
            .str("object", "chat.completion")
            .int("created", CREATED)
            .raw("model", self.model())
            .arr("choices", [choice.end()]);
        self.with_usage(answer, self.usage())
            .str("system_fingerprint", self.name)
            .obj("x_vendor_extra", Obj::new().str("keep", "me"))
            .when(m.has("bigint"), |o| o.raw("x_big", BIG))
            .end()
    }

    fn completion(&self) -> String {
        let choice = Obj::new()
            .int("index", 0)
            .str("text", self.text)
            .str("finish_reason", self.finish(!self.tools().is_empty()))
            .null("logprobs");
        let answer = Obj::new()
            .str("id", &format!("cmpl-{}", self.name))
            .str("object", "text_completion")
            .int("created", CREATED)
            .raw("model", self.model())
            .arr("choices", [choice.end()]);
        self.with_usage(answer, self.usage()).end()
    }

    /// A finished response of the responses API.
    pub(crate) fn response(&self) -> Obj {
        let (input, output) = self.tokens();
        let text = Obj::new()
            .str("type", "output_text")
            .str("text", self.text)
            .raw("annotations", "[]");
        let message = Obj::new()
            .str("type", "message")
            .str("id", "msg_1")
            .str("role", "assistant")
            .str("status", "completed")
            .arr("content", [text.end()]);
        let answer = Obj::new()
            .str("id", &format!("resp_{}", self.name))
            .str("object", "response")
            .str("status", "completed")
            .raw("model", self.model())
            .arr("output", [message.end()]);
        let usage = Obj::new().int("input_tokens", input).int("output_tokens", output);
        self.with_usage(answer, usage.int("total_tokens", input + output))
    }

    /// Usage as messages have it.
    pub(crate) fn message_usage(&self, output: i64) -> Obj {
        let cached = self.mode.has("cached");
        Obj::new()
            .int("input_tokens", self.tokens().0)
            .int("output_tokens", output)
            .when(cached, |u| {
                u.int("cache_read_input_tokens", self.mode.int("cached", 0))
            })
    }

    fn message(&self) -> String {
        let (m, tools) = (self.mode, self.tools());
        let mut blocks = Vec::new();
        if m.has("reasoning") {
            let block = Obj::new().str("type", "thinking").str("thinking", THOUGHT);
            blocks.push(block.str("signature", "sig==").end());
        }
        if !self.text.is_empty() {
            blocks.push(Obj::new().str("type", "text").str("text", self.text).end());
        }
        for tool in &tools {
            let input = if tool.arguments.is_empty() {
                "{}"
            } else {
                &tool.arguments
            };
            let block = Obj::new()
                .str("type", "tool_use")
                .str("id", &format!("toolu_{}", tool.id));
            blocks.push(block.str("name", &tool.name).raw("input", input).end());
        }
        let answer = Obj::new()
            .str("id", &format!("msg_{}", self.name))
            .str("type", "message")
            .str("role", "assistant")
            .raw("model", self.model())
            .raw("content", array(blocks))
            .str("stop_reason", self.stop_reason(!tools.is_empty()))
            .opt("stop_sequence", m.get("stop_hit"));
        self.with_usage(answer, self.message_usage(self.tokens().1)).end()
    }
}
