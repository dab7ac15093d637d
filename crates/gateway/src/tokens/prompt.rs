//! The prompt of a request, as far as it can be tokenised.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use weighbridge_wire::Api;

/// What is to become tokens.
pub(super) struct Asked<'a> {
    pub(super) what: What<'a>,
    /// What keeps its cache apart from others'.
    pub(super) salt: Option<Cow<'a, str>>,
}

/// A prompt.
pub(super) enum What<'a> {
    /// Tokens already.
    Tokens(Vec<u32>),
    /// Text, to which the tokenizer adds what begins a text.
    Text(Cow<'a, str>),
    /// The body of a chat.
    Chat(&'a [u8]),
}

/// What is looked at in any body.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    prompt: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_salt: Option<Cow<'a, str>>,
    add_special_tokens: Option<bool>,
}

impl<'a> Asked<'a> {
    /// Reads a body; none: it is of a kind of which the tokens are not known.
    pub(super) fn read(api: Api, json: &'a [u8]) -> Option<Self> {
        if !matches!(api, Api::Completions | Api::ChatCompletions) {
            return None;
        }
        let body: Body<'a> = serde_json::from_slice(json).ok()?;
        let what = match api {
            Api::ChatCompletions => What::Chat(json),
            // The tokens of a text without its beginning are not those that follow a beginning.
            _ if body.add_special_tokens == Some(false) => tokens(body.prompt?.get()).map(What::Tokens)?,
            _ => completion(body.prompt?.get())?,
        };
        Some(Self {
            what,
            salt: body.cache_salt,
        })
    }

    pub(super) fn is_tokens(&self) -> bool {
        matches!(self.what, What::Tokens(_))
    }
}

/// A prompt alone; several in one request are several prompts to the engine.
fn completion(prompt: &str) -> Option<What<'_>> {
    if prompt.starts_with('"') {
        return serde_json::from_str(prompt).ok().map(What::Text);
    }
    if let Some(tokens) = tokens(prompt) {
        return Some(What::Tokens(tokens));
    }
    let [text]: [&RawValue; 1] = serde_json::from_str(prompt).ok()?;
    serde_json::from_str(text.get()).ok().map(What::Text)
}

fn tokens(prompt: &str) -> Option<Vec<u32>> {
    if let Ok(tokens) = serde_json::from_str(prompt) {
        return Some(tokens);
    }
    let [tokens]: [Vec<u32>; 1] = serde_json::from_str(prompt).ok()?;
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(api: Api, json: &str) -> String {
        match Asked::read(api, json.as_bytes()) {
            None => "none".to_owned(),
            Some(asked) => {
                let what = match asked.what {
                    What::Tokens(tokens) => format!("{tokens:?}"),
                    What::Text(text) => format!("{text:?}"),
                    What::Chat(_) => "chat".to_owned(),
                };
                match asked.salt {
                    Some(salt) => format!("{what} with {salt}"),
                    None => what,
                }
            }
        }
    }

    #[test]
    fn prompts_are_tokens_texts_or_chats() {
        let completion = |json| read(Api::Completions, json);
        assert_eq!(completion(r#"{"prompt": [1, 2, 3]}"#), "[1, 2, 3]");
        assert_eq!(
            completion(r#"{"prompt": [[1, 2]], "cache_salt": "s\n"}"#),
            "[1, 2] with s\n"
        );
        assert_eq!(completion(r#"{"prompt": "a\tb"}"#), r#""a\tb""#);
        assert_eq!(completion(r#"{"prompt": ["a"], "x": {"prompt": 1}}"#), r#""a""#);
        assert_eq!(
            completion(r#"{"prompt": [1], "add_special_tokens": false}"#),
            "[1]"
        );
        assert_eq!(read(Api::ChatCompletions, r#"{"messages": []}"#), "chat");
    }

    #[test]
    fn others_have_no_tokens_that_are_known() {
        for json in [
            r#"{"prompt": ["a", "b"]}"#,
            r#"{"prompt": [[1], [2]]}"#,
            r#"{"prompt": [-1]}"#,
            r#"{"prompt": 5}"#,
            r#"{"prompt": "a", "add_special_tokens": false}"#,
            "{}",
            "[]",
            "{",
        ] {
            assert_eq!(read(Api::Completions, json), "none", "{json}");
        }
        assert_eq!(read(Api::Responses, r#"{"prompt": [1]}"#), "none");
    }
}
