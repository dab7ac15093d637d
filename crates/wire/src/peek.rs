//! What the gateway must know of a request's body, found without building a tree.
//!
//! The body is checked to be UTF-8 and read once, whatever it holds; only the objects that a wanted path
//! leads through are read again, once a level. Everything else is skipped, so the cost grows with the length
//! and with nothing else, and nesting neither recurses nor allocates more than a byte per level.

use std::borrow::Cow;
use std::ops::Range;

use crate::fields::{Malformed, each_field, integer, is_key, refusal, says_something, text};

mod error;
mod path;
mod rewrite;

pub use error::{PeekError, PeekErrorKind};
pub use path::{BodyPath, BodyPathError};
pub use rewrite::{rewrite, rewrite_model};

use error::Position;

/// The facts of one request body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peek {
    /// The value of `model`, if there is one.
    pub model: Option<String>,
    /// Whether `stream` is true; absent and null are false.
    pub stream: bool,
    /// `stream_options.include_usage`, where it is a boolean.
    pub include_usage: Option<bool>,
    /// The most output tokens the request allows: `max_completion_tokens`, else `max_tokens`, else
    /// `max_output_tokens`. None where it is absent or no whole number.
    pub max_tokens: Option<u64>,
    /// `previous_response_id`, where it is a string.
    pub previous_response: Option<String>,
    /// For each wanted path, in order, the trimmed string found there; None where there is none, an empty
    /// one, or a value of another type.
    pub found: Vec<Option<String>>,
    /// Where the raw token of `model` stands in the body, quotes included.
    model_token: Option<Range<usize>>,
    /// What has to be written where so that the stream's usage is asked for; None where it is already, where the
    /// answer is no stream, and where `stream_options` is nothing that can be mended.
    usage_splice: Option<(Range<usize>, &'static str)>,
    /// Just after the opening brace, where a field can be added, and whether others follow.
    head: usize,
    has_fields: bool,
}

impl Peek {
    /// Looks into `body`, which must be one JSON object. Where a key appears twice the last one counts, as
    /// with nearly every JSON reader, except that two `model` keys are an error: which model is meant decides
    /// where the request goes.
    ///
    /// # Errors
    /// [`PeekError`] with the place and a message for a person: not UTF-8, not JSON, not an object, `model`
    /// twice or no string, `stream` no boolean.
    pub fn new(body: &[u8], wanted: &[BodyPath]) -> Result<Self, PeekError> {
        let json = std::str::from_utf8(body).map_err(|error| {
            PeekError::new(PeekErrorKind::NotUtf8, Position::of(body, error.valid_up_to()))
        })?;
        let start = json
            .bytes()
            .position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
        match start.map(|at| (at, body[at])) {
            Some((at, b'{')) => Fields::read(json, wanted)?.into_peek(at + 1),
            Some((at, _)) => Err(PeekError::new(PeekErrorKind::NotAnObject, Position::of(body, at))),
            None => Err(PeekError::new(PeekErrorKind::Empty, Position::of(body, 0))),
        }
    }

    /// What is known of a request whose body is no JSON: `model` as named elsewhere, and whether a stream is wanted.
    #[must_use]
    pub fn outside(model: Option<String>, stream: bool) -> Self {
        Self {
            model,
            stream,
            ..Self::default()
        }
    }

    /// Where the raw token of `model` stands in the body, quotes included.
    #[must_use]
    pub fn model_token(&self) -> Option<Range<usize>> {
        self.model_token.clone()
    }

    /// Whether [`rewrite`] can ask for the usage of the stream: the body asks for a stream, and does not ask for its
    /// usage yet.
    #[must_use]
    pub fn can_ask_for_usage(&self) -> bool {
        self.usage_splice.is_some()
    }
}

/// The raw texts of the top level's fields that matter; the last of each name.
struct Fields<'a> {
    json: &'a str,
    wanted: &'a [BodyPath],
    count: usize,
    model: Option<&'a str>,
    second_model: Option<&'a str>,
    stream: Option<&'a str>,
    stream_options: Option<&'a str>,
    max_completion_tokens: Option<&'a str>,
    max_tokens: Option<&'a str>,
    max_output_tokens: Option<&'a str>,
    previous_response: Option<&'a str>,
    /// For each wanted path, the value of its first key.
    roots: Vec<Option<&'a str>>,
}

impl<'a> Fields<'a> {
    fn read(json: &'a str, wanted: &'a [BodyPath]) -> Result<Self, PeekError> {
        let mut fields = Self {
            json,
            wanted,
            count: 0,
            model: None,
            second_model: None,
            stream: None,
            stream_options: None,
            max_completion_tokens: None,
            max_tokens: None,
            max_output_tokens: None,
            previous_response: None,
            roots: vec![None; wanted.len()],
        };
        each_field(json, |key, value| fields.take(key, value))
            .map_err(|Malformed| PeekError::syntax(&refusal(json)))?;
        Ok(fields)
    }

    fn take(&mut self, key: &'a str, value: &'a str) {
        self.count += 1;
        let Some(key) = text(key) else { return };
        match &*key {
            "model" if self.model.is_some() => self.second_model = self.second_model.or(Some(value)),
            "model" => self.model = Some(value),
            "stream" => self.stream = Some(value),
            "stream_options" => self.stream_options = Some(value),
            "max_completion_tokens" => self.max_completion_tokens = Some(value),
            "max_tokens" => self.max_tokens = Some(value),
            "max_output_tokens" => self.max_output_tokens = Some(value),
            "previous_response_id" => self.previous_response = Some(value),
            _ => {}
        }
        for (root, path) in self.roots.iter_mut().zip(self.wanted) {
            if path.first() == key {
                *root = Some(value);
            }
        }
    }

    fn into_peek(self, head: usize) -> Result<Peek, PeekError> {
        if let Some(second) = self.second_model {
            return Err(self.error(PeekErrorKind::DuplicateModel, second));
        }
        let model = match self.model {
            None => None,
            Some(raw) => match text(raw) {
                Some(model) => Some(model.into_owned()),
                None => return Err(self.error(PeekErrorKind::ModelNotAString, raw)),
            },
        };
        let stream = match self.stream {
            None | Some("null" | "false") => false,
            Some("true") => true,
            Some(raw) => return Err(self.error(PeekErrorKind::StreamNotABoolean, raw)),
        };
        let limits = [
            self.max_completion_tokens,
            self.max_tokens,
            self.max_output_tokens,
        ];
        Ok(Peek {
            model,
            stream,
            include_usage: self.stream_options.and_then(include_usage),
            usage_splice: stream.then(|| self.usage_splice(head)).flatten(),
            max_tokens: limits.into_iter().flatten().find_map(integer),
            previous_response: self.previous_response.and_then(text).map(Cow::into_owned),
            found: self
                .roots
                .iter()
                .zip(self.wanted)
                .map(|(root, path)| root.and_then(|root| string_at(root, path.rest())))
                .collect(),
            model_token: self.model.map(|raw| {
                let start = self.offset(raw);
                start..start + raw.len()
            }),
            head,
            has_fields: self.count > 0,
        })
    }

    /// See [`Peek::usage_splice`]. A value that is neither object nor null, and an `include_usage` that is neither
    /// boolean nor null, is the client's fault to hear of from the engine.
    fn usage_splice(&self, head: usize) -> Option<(Range<usize>, &'static str)> {
        let span = |raw: &str| {
            let start = self.offset(raw);
            start..start + raw.len()
        };
        let options = match self.stream_options {
            // `stream` itself is a field, so another one follows.
            None => return Some((head..head, r#""stream_options":{"include_usage":true},"#)),
            Some(null @ "null") => return Some((span(null), r#"{"include_usage":true}"#)),
            Some(options) if options.starts_with('{') => options,
            Some(_) => return None,
        };
        match last_field(options, "include_usage") {
            Some(value @ ("false" | "null")) => Some((span(value), "true")),
            Some(_) => None,
            None => {
                let inside = self.offset(options) + 1;
                let insert = if says_something(options) {
                    r#""include_usage":true,"#
                } else {
                    r#""include_usage":true"#
                };
                Some((inside..inside, insert))
            }
        }
    }

    /// Where a raw value, which is a slice of the body, starts in it.
    fn offset(&self, raw: &str) -> usize {
        raw.as_ptr().addr() - self.json.as_ptr().addr()
    }

    fn error(&self, kind: PeekErrorKind, raw: &str) -> PeekError {
        PeekError::new(kind, Position::of(self.json.as_bytes(), self.offset(raw)))
    }
}

fn include_usage(stream_options: &str) -> Option<bool> {
    match last_field(stream_options, "include_usage")? {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

fn string_at(root: &str, rest: &[String]) -> Option<String> {
    let raw = rest
        .iter()
        .try_fold(root, |object, key| last_field(object, key))?;
    let string = text(raw)?;
    let trimmed = string.trim();
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

fn last_field<'a>(raw: &'a str, name: &str) -> Option<&'a str> {
    let mut last = None;
    each_field(raw, |key, value| {
        if is_key(key, name) {
            last = Some(value);
        }
    })
    .ok()?;
    last
}

#[cfg(test)]
mod tests;
