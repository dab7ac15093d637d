//! The usage of an answer in one piece that is too large to be held back, found while it passes.

use crate::api::{Api, Protocol};
use crate::usage::{Tally, Usage, spends_tokens};

/// Longest `usage` that is looked into, bytes.
const USAGE_MAX: usize = 4096;
/// Longest key that is kept to be compared, quotes aside.
const KEY_MAX: usize = 8;

/// Looks for the `usage` of one JSON object, fed in pieces cut anywhere. Keeps no more of it than that value.
#[derive(Debug)]
pub struct PassingUsage {
    api: Api,
    tally: Tally,
    /// Objects and lists that are open.
    depth: u32,
    text: Text,
    /// At the top level, what comes next is a key.
    at_key: bool,
    key: Vec<u8>,
    /// The value of `usage` so far.
    value: Option<Vec<u8>>,
}

/// Where the scan is with regard to strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Outside,
    Inside,
    /// Just after a backslash.
    Escaped,
}

impl PassingUsage {
    /// Of an answer to `api` that begins with `start`, which is to be fed too; none where it holds no JSON object, or
    /// costs no tokens.
    #[must_use]
    pub fn of(api: Api, start: &[u8]) -> Option<Self> {
        (spends_tokens(api) && start.trim_ascii_start().starts_with(b"{")).then(|| Self {
            api,
            tally: Tally::default(),
            depth: 0,
            text: Text::Outside,
            at_key: true,
            key: Vec::new(),
            value: None,
        })
    }

    /// Takes the next piece.
    pub fn feed(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let used = match self.text {
                Text::Outside => self.outside(piece),
                Text::Inside => self.inside(piece),
                Text::Escaped => {
                    self.text = Text::Inside;
                    self.keep(&piece[..1]);
                    1
                }
            };
            piece = &piece[used..];
        }
    }

    /// What the answer has reported so far.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.tally.usage()
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(value) = &mut self.value {
            if value.len() + bytes.len() > USAGE_MAX {
                self.value = None;
            } else {
                value.extend_from_slice(bytes);
            }
        } else if self.depth == 1 && self.at_key && self.key.len() <= KEY_MAX {
            let room = KEY_MAX + 1 - self.key.len();
            self.key.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    fn inside(&mut self, piece: &[u8]) -> usize {
        let Some(end) = memchr::memchr2(b'"', b'\\', piece) else {
            self.keep(piece);
            return piece.len();
        };
        self.text = if piece[end] == b'"' {
            Text::Outside
        } else {
            Text::Escaped
        };
        // The closing quote is none of a key's text, but one of the value's.
        let kept = if self.value.is_some() || self.text == Text::Escaped {
            end + 1
        } else {
            end
        };
        self.keep(&piece[..kept]);
        end + 1
    }

    fn outside(&mut self, piece: &[u8]) -> usize {
        let byte = piece[0];
        let top = self.depth == 1;
        match byte {
            b'"' => {
                self.text = Text::Inside;
                if top && self.at_key {
                    self.key.clear();
                }
            }
            b':' if top && self.at_key => {
                self.at_key = false;
                self.value = (self.key == b"usage").then(Vec::new);
                return 1;
            }
            b',' | b'}' if top => {
                self.take();
                self.at_key = true;
            }
            _ => {}
        }
        if self.value.is_some() {
            self.keep(&piece[..1]);
        }
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        1
    }

    /// The value of a key has ended.
    fn take(&mut self) {
        let Some(value) = self.value.take() else { return };
        let Ok(value) = std::str::from_utf8(&value) else {
            return;
        };
        match self.api.protocol() {
            Protocol::OpenAi => self.tally.take_openai(value.trim()),
            Protocol::Anthropic => self.tally.take_anthropic(value.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::body_usage;

    fn passing(api: Api, body: &str, cut: usize) -> Option<Usage> {
        let (first, rest) = body.as_bytes().split_at(cut);
        let mut passing = PassingUsage::of(api, body.as_bytes())?;
        passing.feed(first);
        passing.feed(rest);
        passing.usage()
    }

    #[test]
    fn it_finds_what_a_look_at_the_whole_finds() {
        let usage = r#"{"input_tokens": 3, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2, "x": "},\""}}"#;
        let bodies = [
            format!(r#"{{"data":[{{"b64_json":"aa\\\"}}","usage":{{"input_tokens":9}}}}],"usage":{usage}}}"#),
            format!(r#" {{ "usage" : {usage} , "data" : [1.5e3, -2, [true], null] }} "#),
            format!(r#"{{"usage":null,"a":"usage","usage":{usage},"usage2":{{"input_tokens":8}}}}"#),
            r#"{"data":{"usage":{"input_tokens":9}},"usage":{"total_tokens":5}}"#.to_owned(),
            r#"{"data":"no usage"}"#.to_owned(),
            r#"["usage"]"#.to_owned(),
        ];
        for body in &bodies {
            let expect = body_usage(Api::ImageGenerations, body.as_bytes());
            for cut in 0..=body.len() {
                assert_eq!(
                    passing(Api::ImageGenerations, body, cut),
                    expect,
                    "cut at {cut} of {body}"
                );
            }
        }
        let anthropic =
            r#"{"content":[],"usage":{"input_tokens":1,"cache_read_input_tokens":2,"output_tokens":3}}"#;
        assert_eq!(
            passing(Api::Messages, anthropic, 0),
            body_usage(Api::Messages, anthropic.as_bytes())
        );
        assert_eq!(passing(Api::Response, &bodies[0], 0), None);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut passing = PassingUsage::of(Api::Embeddings, b"{").unwrap();
        passing.feed(b"{\"");
        passing.feed(&vec![b'k'; 100_000]);
        passing.feed(b"\":1,\"usage\":{\"");
        passing.feed(&vec![b'k'; 100_000]);
        assert!(passing.key.capacity() < 1000 && passing.value.is_none());
        passing.feed(b"\":1},\"usage\":{\"prompt_tokens\":7}}");
        assert_eq!(passing.usage().unwrap().prompt_tokens, 7);
    }
}
