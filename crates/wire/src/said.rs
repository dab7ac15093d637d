//! What a server says went wrong, in whatever shape it says it.

use std::borrow::Cow;

use crate::fields::{Malformed, each_field, each_item, integer, text};

/// The longest text kept of what a server says, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 2048;
/// The longest type, code or parameter name kept.
const WORD_BYTES_MAX: usize = 128;

/// An error found inside a response whose status said success.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InBandError {
    /// The status that the error stands for, where it says or implies one; 400 to 599.
    pub status: Option<u16>,
    /// Its type, as said: `overloaded_error`, `BadRequestError`.
    pub kind: Option<String>,
    /// Its code, as said, where it is a word.
    pub code: Option<String>,
    /// The request field it names.
    pub param: Option<String>,
    /// Its text, at most 2 KiB; never empty.
    pub message: String,
}

/// Everything found in an error object, before it is judged.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) message: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) code: Option<String>,
    pub(crate) param: Option<String>,
    pub(crate) number: Option<u16>,
}

impl Said {
    /// Reads a body or event that may be an error: `{"error": …}` of any kind, `{"object": "error", …}` of
    /// older vLLM and SGLang. None for anything else. The second value says whether it also holds an answer.
    pub(crate) fn from_answer(json: &str) -> Result<(Option<Self>, bool), Malformed> {
        let (mut error, mut kind) = (None, None);
        let (mut is_error_object, mut answers) = (false, false);
        each_field(json, |key, value| match key {
            r#""error""# => error = Some(value),
            // text-generation-inference: {"error": "Model is overloaded", "error_type": "overloaded"}.
            r#""error_type""# => kind = word(value),
            r#""object""# => is_error_object = value == r#""error""#,
            r#""choices""# | r#""output""# | r#""content""# | r#""data""# | r#""id""# => answers = true,
            _ => {}
        })?;
        let said = match error.and_then(Self::from_error) {
            Some(said) => Some(Self {
                kind: said.kind.or(kind),
                ..said
            }),
            None => is_error_object.then(|| Self::from_object(json)),
        };
        Ok((said, answers))
    }

    /// Reads the value of an `error` key: an object, or a bare text. None for null.
    pub(crate) fn from_error(raw: &str) -> Option<Self> {
        match raw.as_bytes().first()? {
            _ if raw == "null" => None,
            b'{' => Some(Self::from_object(raw)),
            _ => Some(Self {
                message: sentence(raw),
                ..Self::default()
            }),
        }
    }

    /// Reads the object that holds the error's own fields, such as `{"message", "type", "code"}` or
    /// `{"detail"}`.
    pub(crate) fn from_object(raw: &str) -> Self {
        let mut said = Self::default();
        let mut detail = None;
        // Whatever is read before a fault in the JSON still stands.
        let _ = each_field(raw, |key, value| {
            let Some(key) = text(key) else { return };
            match &*key {
                "message" | "msg" => said.message = sentence(value).or(said.message.take()),
                "detail" | "error_description" => detail = details(value),
                // The type of the envelope says nothing of the error.
                "type" => said.kind = word(value).filter(|kind| kind != "error"),
                "code" | "status" | "status_code" => said.take_code(value),
                "param" => said.param = word(value),
                _ => {}
            }
        });
        said.message = said.message.take().or(detail);
        said
    }

    /// Takes a text for the message.
    pub(crate) fn from_text(text: &str) -> Self {
        let text = text.trim();
        Self {
            message: (!text.is_empty()).then(|| cut(text)),
            ..Self::default()
        }
    }

    /// A code is a status as a number or as digits (vLLM and the like), or a word (OpenAI).
    fn take_code(&mut self, raw: &str) {
        let Some(said) = text(raw).or_else(|| integer(raw).map(|_| Cow::Borrowed(raw))) else {
            return;
        };
        match said.parse::<u16>() {
            Ok(number) if (400..600).contains(&number) => self.number = Some(number),
            _ => self.code = word(raw).or(self.code.take()),
        }
    }

    /// The status that the error stands for: its number, else what its type or code implies.
    pub(crate) fn status(&self) -> Option<u16> {
        self.number.or_else(|| {
            let words = [self.kind.as_deref(), self.code.as_deref()];
            words.into_iter().flatten().find_map(status_of_word)
        })
    }

    pub(crate) fn into_in_band(self) -> InBandError {
        InBandError {
            status: self.status(),
            message: self
                .message
                .unwrap_or_else(|| "The upstream reported an error without saying which.".to_owned()),
            kind: self.kind,
            code: self.code,
            param: self.param,
        }
    }
}

/// The status that an error's type or code stands for: Anthropic's types, OpenAI's types and codes, and the
/// words of vLLM, SGLang and their kin.
fn status_of_word(word: &str) -> Option<u16> {
    Some(match word {
        "invalid_request_error"
        | "context_length_exceeded"
        | "invalid_prompt"
        | "BadRequestError"
        | "validation" => 400,
        "authentication_error" | "invalid_api_key" | "AuthenticationError" => 401,
        "billing_error" => 402,
        "permission_error" | "PermissionDeniedError" => 403,
        "not_found_error" | "model_not_found" | "NotFoundError" => 404,
        "request_too_large" => 413,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "insufficient_quota"
        | "RateLimitError"
        | "tokens"
        | "requests" => 429,
        "api_error" | "server_error" | "internal_error" | "internal_server_error" | "InternalServerError" => {
            500
        }
        "service_unavailable" | "service_unavailable_error" | "ServiceUnavailableError" | "overloaded" => 503,
        "timeout_error" | "timeout" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

/// A text, or whatever else stands in a message's place; None for null and for nothing but space.
fn sentence(raw: &str) -> Option<String> {
    if raw == "null" {
        return None;
    }
    let said = text(raw).map_or_else(|| cut(raw), |text| cut(text.trim()));
    (!said.is_empty()).then_some(said)
}

/// FastAPI's `detail`: a text, an object with a message, or a list of `{"loc": […], "msg": …}`.
fn details(raw: &str) -> Option<String> {
    match raw.as_bytes().first()? {
        b'{' => {
            let mut inner = None;
            let _ = each_field(raw, |key, value| {
                if text(key).is_some_and(|key| matches!(&*key, "message" | "msg" | "error")) {
                    inner = sentence(value).or(inner.take());
                }
            });
            inner.or_else(|| sentence(raw))
        }
        b'[' => {
            let mut all = Vec::new();
            let mut len = 0;
            let _ = each_item(raw, |item| {
                if len < MESSAGE_BYTES_MAX
                    && let Some(one) = validation_error(item)
                {
                    len += one.len();
                    all.push(one);
                }
            });
            (!all.is_empty()).then(|| cut(&all.join("; ")))
        }
        _ => sentence(raw),
    }
}

fn validation_error(raw: &str) -> Option<String> {
    if !raw.starts_with('{') {
        return sentence(raw);
    }
    let mut message = None;
    let mut place = Vec::new();
    let _ = each_field(raw, |key, value| {
        let Some(key) = text(key) else { return };
        match &*key {
            "msg" | "message" => message = sentence(value),
            "loc" => {
                let _ = each_item(value, |part| {
                    if place.len() < 16 {
                        place.push(text(part).map_or_else(|| cut(part), |part| cut(&part)));
                    }
                });
            }
            _ => {}
        }
    });
    let message = message?;
    Some(if place.is_empty() {
        message
    } else {
        format!("{}: {message}", place.join("."))
    })
}

/// A short word such as a type or code; numbers count as words too.
fn word(raw: &str) -> Option<String> {
    let said = match text(raw) {
        Some(said) => said,
        None => Cow::Owned(integer(raw)?.to_string()),
    };
    let said = said.trim();
    (!said.is_empty()).then(|| cut_at(said, WORD_BYTES_MAX).to_owned())
}

/// The text, at most [`MESSAGE_BYTES_MAX`] of it, cut between characters.
pub(crate) fn cut(text: &str) -> String {
    cut_at(text, MESSAGE_BYTES_MAX).to_owned()
}

fn cut_at(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

/// The error that a 200 answer in one piece amounts to, when it holds an error and no answer. An answer of
/// the Responses API that failed keeps its fields and is not one.
#[must_use]
pub fn body_error(body: &[u8]) -> Option<InBandError> {
    // Every shape of an error has this token; an answer hardly ever does, so few are read through.
    memchr::memmem::find(body, b"\"error\"")?;
    match Said::from_answer(std::str::from_utf8(body).ok()?) {
        Ok((Some(said), false)) => Some(said.into_in_band()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expect: Option<(Option<u16>, &str)>) {
        let got = body_error(body.as_bytes());
        assert_eq!(
            got.as_ref().map(|error| (error.status, error.message.as_str())),
            expect,
            "{body}"
        );
    }

    #[test]
    fn bodies_that_hold_only_an_error() {
        check(
            r#"{"error":{"message":"no","type":"server_error","code":null}}"#,
            Some((Some(500), "no")),
        );
        check(
            r#"{"error":{"message":"no","type":"BadRequestError","code":400}}"#,
            Some((Some(400), "no")),
        );
        check(
            r#"{"error":{"message":"no","code":"429"}}"#,
            Some((Some(429), "no")),
        );
        check(r#"{"error":"out of memory"}"#, Some((None, "out of memory")));
        check(
            r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
            Some((Some(529), "busy")),
        );
        check(
            r#"{"object":"error","message":"too long","type":"x","code":400}"#,
            Some((Some(400), "too long")),
        );
        check(
            r#"{"error":"Model is overloaded","error_type":"overloaded"}"#,
            Some((Some(503), "Model is overloaded")),
        );
        check(
            r#"{"error":{}}"#,
            Some((None, "The upstream reported an error without saying which.")),
        );
    }

    #[test]
    fn answers_are_not_errors() {
        check(r#"{"id":"resp_1","error":null,"output":[]}"#, None);
        check(r#"{"choices":[],"error":{"message":"x"}}"#, None);
        check(r#"{"error":null}"#, None);
        check(r#"{"error":{"message":"cut"#, None);
        check("[]", None);
        check("", None);
    }

    #[test]
    fn texts_are_cut_between_characters() {
        let error = body_error(format!(r#"{{"error":"a{}"}}"#, "é".repeat(5000)).as_bytes()).unwrap();
        assert_eq!(error.message.len(), MESSAGE_BYTES_MAX - 1);
        let long =
            body_error(format!(r#"{{"error":{{"type":"{}"}}}}"#, "x".repeat(5000)).as_bytes()).unwrap();
        assert_eq!(long.kind.unwrap().len(), WORD_BYTES_MAX);
    }
}
