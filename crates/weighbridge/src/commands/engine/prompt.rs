//! From a request's messages to tokens: tools first, then the system prompt, then the turns, each between marks, as chat
//! templates lay them out. Equal beginnings of two conversations are equal beginnings of their tokens.

use serde::Deserialize;
use serde_json::Value;
use weighbridge_sim::text::{Tokenizer, mix};

/// Tokens that one image, sound or file counts for.
const ATTACHMENT_TOKENS: u64 = 576;

const END_OF_TURN: u8 = 0;
const TOOLS: u8 = 1;

/// Who speaks, as the mark before a turn.
fn role_mark(role: &str) -> u8 {
    match role {
        "system" | "developer" => 2,
        "user" => 3,
        "assistant" => 4,
        "tool" | "function" => 5,
        _ => 6,
    }
}

/// A message of either dialect. What it holds beside text is counted by its JSON.
#[derive(Deserialize)]
pub(super) struct Message {
    pub(super) role: String,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    tool_calls: Option<Value>,
}

/// A prompt under construction.
pub(super) struct Prompt(Tokenizer);

impl Prompt {
    /// Prompts share cache blocks only under the same `cache_salt`.
    pub(super) fn new(block_size: u32, cache_salt: Option<&str>) -> Self {
        let salt = cache_salt.map_or(0, |salt| {
            let mut tokenizer = Tokenizer::new(1, 1);
            tokenizer.text(salt);
            tokenizer.fingerprint()
        });
        Self(Tokenizer::new(block_size, salt))
    }

    /// Adds the definitions of tools, if there are any.
    pub(super) fn tools(&mut self, tools: Option<&Value>) {
        if let Some(tools) = tools.filter(|tools| tools.as_array().is_some_and(|list| !list.is_empty())) {
            self.0.special(TOOLS);
            self.0.text(&tools.to_string());
            self.0.special(END_OF_TURN);
        }
    }

    /// Adds one turn.
    pub(super) fn turn(&mut self, role: &str, content: &Value, tool_calls: Option<&Value>) {
        self.0.special(role_mark(role));
        self.content(content);
        if let Some(calls) = tool_calls.filter(|calls| !calls.is_null()) {
            self.0.text(&calls.to_string());
        }
        self.0.special(END_OF_TURN);
    }

    /// Adds one message.
    pub(super) fn message(&mut self, message: &Message) {
        self.turn(&message.role, &message.content, message.tool_calls.as_ref());
    }

    fn content(&mut self, content: &Value) {
        match content {
            Value::Null => {}
            Value::String(text) => self.0.text(text),
            Value::Array(parts) => parts.iter().for_each(|part| self.part(part)),
            other => self.0.text(&other.to_string()),
        }
    }

    fn part(&mut self, part: &Value) {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        match (kind, part.get("text").and_then(Value::as_str)) {
            (_, Some(text)) => self.0.text(text),
            (
                "image" | "image_url" | "input_image" | "input_audio" | "audio_url" | "video_url" | "file"
                | "document",
                _,
            ) => {
                let mut content = Tokenizer::new(1, 0);
                content.text(&part.to_string());
                let identity = content.fingerprint();
                (0..ATTACHMENT_TOKENS).for_each(|index| self.0.token(mix(identity ^ index)));
            }
            ("tool_result", _) => self.content(part.get("content").unwrap_or(&Value::Null)),
            _ => self.0.text(&part.to_string()),
        }
    }

    /// Adds bare text, as of a completion.
    pub(super) fn text(&mut self, text: &str) {
        self.0.text(text);
    }

    /// Adds tokens by number.
    pub(super) fn numbered(&mut self, tokens: &[u32]) {
        tokens.iter().for_each(|token| self.0.token(u64::from(*token)));
    }

    /// Ends a conversation with the mark after which the assistant speaks.
    pub(super) fn for_an_answer(mut self) -> Tokenizer {
        self.0.special(role_mark("assistant"));
        self.0
    }

    /// Ends a prompt that is not a conversation.
    pub(super) fn bare(self) -> Tokenizer {
        self.0
    }
}

/// Adds the answer after its prompt, as the next turn's prompt will hold it.
pub(super) fn with_answer(prompt: &Tokenizer, text: &str) -> Tokenizer {
    let mut whole = prompt.clone();
    whole.text(text);
    whole.special(END_OF_TURN);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tokens(messages: Value) -> Tokenizer {
        let mut prompt = Prompt::new(4, None);
        let messages: Vec<Message> = serde_json::from_value(messages).unwrap();
        messages.iter().for_each(|message| prompt.message(message));
        prompt.for_an_answer()
    }

    #[test]
    fn the_next_turn_begins_with_the_last_turn_and_its_answer() {
        let question =
            json!({"role": "user", "content": "Where does the river meet the road by the old mill?"});
        let first = with_answer(&tokens(json!([question])), "Near the bridge.");
        let answer = json!({"role": "assistant", "content": "Near the bridge."});
        let second = tokens(json!([question, answer, {"role": "user", "content": "And then?"}]));
        assert!(first.blocks().len() >= 4);
        assert!(second.blocks().starts_with(first.blocks()));
    }

    #[test]
    fn parts_and_plain_text_are_the_same_prompt() {
        let plain = tokens(json!([{"role": "user", "content": "one two three four five"}]));
        let parts = tokens(
            json!([{"role": "user", "content": [{"type": "text", "text": "one two three four five"}]}]),
        );
        assert_eq!(plain.fingerprint(), parts.fingerprint());
    }

    #[test]
    fn roles_tools_and_images_count() {
        let user = tokens(json!([{"role": "user", "content": "one"}]));
        let system = tokens(json!([{"role": "system", "content": "one"}]));
        assert_ne!(user.fingerprint(), system.fingerprint());
        let image = tokens(
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}]),
        );
        assert!(u64::from(image.tokens()) > ATTACHMENT_TOKENS);
        let mut prompt = Prompt::new(4, None);
        prompt.tools(Some(
            &json!([{"type": "function", "function": {"name": "clock"}}]),
        ));
        assert!(prompt.bare().tokens() > 5);
    }
}
