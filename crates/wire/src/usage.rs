//! Token counts as the dialects report them.

use crate::api::{Api, Protocol};
use crate::fields::{each_field, integer, text};
use memchr::memmem;
use serde_json::value::RawValue;

/// The tokens of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the prompt, those read from or written to a prompt cache included.
    pub prompt_tokens: u64,
    /// Tokens the model wrote, reasoning included.
    pub completion_tokens: u64,
    /// Those of the prompt that came from a prompt cache; None where the answer does not say.
    pub cached_tokens: Option<u64>,
}

/// What has been said so far; a stream may spread it over events, and the last word on each number counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
    /// Anthropic counts tokens read from and written to its cache apart from `input_tokens`.
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
}

impl Tally {
    /// Takes one `usage` value of an OpenAI dialect. A new one replaces the old; null and an empty object say
    /// nothing.
    pub(crate) fn take_openai(&mut self, raw: &str) {
        let mut said = Self::default();
        let mut total = None;
        // A value of another type says nothing.
        let _ = each_field(raw, |key, value| {
            let Some(key) = text(key) else { return };
            match &*key {
                "prompt_tokens" | "input_tokens" => said.input = integer(value),
                "completion_tokens" | "output_tokens" => said.output = integer(value),
                "prompt_tokens_details" | "input_tokens_details" => {
                    said.cached = cached(value).or(said.cached)
                }
                "total_tokens" => total = integer(value),
                // DeepSeek's word, beside or instead of the details.
                "prompt_cache_hit_tokens" => said.cached = said.cached.or(integer(value)),
                _ => {}
            }
        });
        // What only reads, as rerankers and scorers do, may say no more than the sum.
        said.input = said.input.or(total.filter(|_| said.output.is_none()));
        if said.input.is_some() || said.output.is_some() {
            *self = said;
        }
    }

    /// Takes one `usage` value of Anthropic's: `message_start` says the input, `message_delta` the output so
    /// far and sometimes the input again.
    pub(crate) fn take_anthropic(&mut self, raw: &str) {
        let mut said = *self;
        let _ = each_field(raw, |key, value| {
            let (Some(key), Some(tokens)) = (text(key), integer(value)) else {
                return;
            };
            match &*key {
                "input_tokens" => said.input = Some(tokens),
                "output_tokens" => said.output = Some(tokens),
                "cache_read_input_tokens" => said.cache_read = Some(tokens),
                "cache_creation_input_tokens" => said.cache_creation = Some(tokens),
                _ => {}
            }
        });
        *self = said;
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        if self.input.is_none() && self.output.is_none() {
            return None;
        }
        let parts = [self.input, self.cache_read, self.cache_creation];
        Some(Usage {
            prompt_tokens: parts.into_iter().flatten().fold(0, u64::saturating_add),
            completion_tokens: self.output.unwrap_or(0),
            cached_tokens: self.cached.or(self.cache_read),
        })
    }
}

fn cached(details: &str) -> Option<u64> {
    let mut cached = None;
    let _ = each_field(details, |key, value| {
        if text(key).is_some_and(|key| key == "cached_tokens") {
            cached = integer(value);
        }
    });
    cached
}

/// Whether an answer's usage is one that its request caused.
pub(crate) fn spends_tokens(api: Api) -> bool {
    !matches!(api, Api::CountTokens | Api::Models | Api::Model | Api::Response)
}

/// The usage that an answer in one piece reports. None where it reports none, is cut or is no JSON object,
/// and for calls that spend no tokens (counting, models, responses that were made and counted before).
#[must_use]
pub fn body_usage(api: Api, body: &[u8]) -> Option<Usage> {
    if !spends_tokens(api) {
        return None;
    }
    let mut tally = Tally::default();
    each_field(std::str::from_utf8(body).ok()?, |key, value| {
        if text(key).is_some_and(|key| key == "usage") {
            match api.protocol() {
                Protocol::OpenAi => tally.take_openai(value),
                Protocol::Anthropic => tally.take_anthropic(value),
            }
        }
    })
    .ok()?;
    tally.usage()
}

/// The usage that an answer in one piece reports, where no more than its end is at hand: servers say it last.
#[must_use]
pub fn end_usage(api: Api, end: &[u8]) -> Option<Usage> {
    if !spends_tokens(api) {
        return None;
    }
    // Inside a text the quotes would be escaped.
    let at = memmem::rfind(end, USAGE)?;
    let rest = std::str::from_utf8(end.get(at + USAGE.len()..)?).ok()?;
    let value = rest.trim_start().strip_prefix(':')?;
    let raw = serde_json::Deserializer::from_str(value)
        .into_iter::<&RawValue>()
        .next()?
        .ok()?
        .get();
    let mut tally = Tally::default();
    match api.protocol() {
        Protocol::OpenAi => tally.take_openai(raw),
        Protocol::Anthropic => tally.take_anthropic(raw),
    }
    tally.usage()
}

const USAGE: &[u8] = b"\"usage\"";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_answer_says_what_it_cost() {
        let said = |api, end: &str| {
            end_usage(api, end.as_bytes()).map(|usage| (usage.prompt_tokens, usage.completion_tokens))
        };
        let embeddings = r#"0.25,-1]}],"model":"m","usage":{"prompt_tokens":5,"total_tokens":5}}"#;
        assert_eq!(said(Api::Embeddings, embeddings), Some((5, 0)));
        let chat = r#"xx"}}],"usage" : {"prompt_tokens":3,"completion_tokens":4},"system_fingerprint":"f"}"#;
        assert_eq!(said(Api::ChatCompletions, chat), Some((3, 4)));
        let messages = r#"éé"}],"usage":{"input_tokens":1,"output_tokens":2}}"#;
        assert_eq!(said(Api::Messages, messages), Some((1, 2)));
        // Cut inside a character, and a text that quotes an answer.
        let cut = r#"é \"usage\": {\"prompt_tokens\":9}"}],"usage":null}"#;
        assert_eq!(end_usage(Api::ChatCompletions, &cut.as_bytes()[1..]), None);
        for none in ["", r#""usage":"#, r#""usage":{"prompt_tokens":1"#, r#""usage" 1"#] {
            assert_eq!(said(Api::ChatCompletions, none), None, "{none}");
        }
    }

    fn check(api: Api, body: &str, expect: Option<(u64, u64, Option<u64>)>) {
        let expect = expect.map(|(prompt_tokens, completion_tokens, cached_tokens)| Usage {
            prompt_tokens,
            completion_tokens,
            cached_tokens,
        });
        assert_eq!(body_usage(api, body.as_bytes()), expect, "{body}");
    }

    #[test]
    fn openai_answers() {
        let api = Api::ChatCompletions;
        check(
            api,
            r#"{"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}"#,
            Some((3, 4, None)),
        );
        check(
            api,
            r#"{"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":2}}}"#,
            Some((3, 4, Some(2))),
        );
        check(
            api,
            r#"{"usage":{"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":null,"prompt_cache_hit_tokens":1}}"#,
            Some((3, 4, Some(1))),
        );
        check(
            Api::Embeddings,
            r#"{"data":[],"usage":{"prompt_tokens":3,"total_tokens":3}}"#,
            Some((3, 0, None)),
        );
        check(
            Api::Responses,
            r#"{"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":0},"output_tokens":6}}"#,
            Some((5, 6, Some(0))),
        );
        check(
            Api::Rerank,
            r#"{"results":[],"usage":{"total_tokens":8}}"#,
            Some((8, 0, None)),
        );
        let image = r#"{"data":[],"usage":{"total_tokens":9,"input_tokens":2,"output_tokens":7,"input_tokens_details":{"text_tokens":2}}}"#;
        check(Api::ImageGenerations, image, Some((2, 7, None)));
        let seconds = r#"{"text":"","usage":{"type":"duration","seconds":3}}"#;
        check(Api::Transcriptions, seconds, None);
        check(
            Api::Response,
            r#"{"usage":{"input_tokens":2,"output_tokens":7}}"#,
            None,
        );
        for none in [
            "{}",
            r#"{"usage":null}"#,
            r#"{"usage":{}}"#,
            r#"{"usage":7}"#,
            "[]",
            "",
            r#"{"usage":{"prompt_tokens":1}"#,
        ] {
            check(api, none, None);
        }
    }

    #[test]
    fn anthropic_answers_count_the_cache_into_the_prompt() {
        check(
            Api::Messages,
            r#"{"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":4}}"#,
            Some((60, 4, Some(30))),
        );
        check(
            Api::Messages,
            r#"{"usage":{"input_tokens":1,"output_tokens":2}}"#,
            Some((1, 2, None)),
        );
        check(
            Api::CountTokens,
            r#"{"input_tokens":9,"usage":{"input_tokens":9}}"#,
            None,
        );
    }
}
