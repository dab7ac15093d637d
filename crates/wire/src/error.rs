//! Errors in the client's own protocol.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use crate::api::{Api, Protocol, comes_later};
use crate::form::FormError;
use crate::peek::{PeekError, PeekErrorKind};
use crate::said::{InBandError, cut};

mod upstream;

pub use upstream::{client_status, passes_untouched, upstream_error};

/// An error as a client gets it. Made by a constructor below, or from what an upstream said by
/// [`upstream_error`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorBody {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The `type` word. None: the word of the client's protocol for the status.
    pub kind: Option<Cow<'static, str>>,
    /// The `code` word of OpenAI's shape.
    pub code: Option<Cow<'static, str>>,
    /// What went wrong and how to mend it, for a person.
    pub message: String,
    /// The request field at fault.
    pub param: Option<String>,
    /// When to come back, for the `retry-after` header.
    pub retry_after: Option<Duration>,
    /// The request's id. Anthropic's shape carries it in the body.
    pub request_id: Option<String>,
}

/// What is wrong with the key of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFault {
    /// None was sent.
    Missing,
    /// It is not one of ours.
    Unknown,
    /// It is past its day.
    Expired,
}

/// The clock that ran out, by its name in a pool's `timeouts`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timeout {
    /// `connect`
    Connect,
    /// `first_byte`
    FirstByte,
    /// `idle`
    Idle,
    /// `total`
    Total,
    /// `stream_total`
    StreamTotal,
    /// The client's own `x-request-timeout-ms`.
    Client,
}

impl Timeout {
    /// Where its length is set: a config key of pools, or the client's header.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "timeouts.connect",
            Self::FirstByte => "timeouts.first_byte",
            Self::Idle => "timeouts.idle",
            Self::Total => "timeouts.total",
            Self::StreamTotal => "timeouts.stream_total",
            Self::Client => "x-request-timeout-ms",
        }
    }
}

impl ErrorBody {
    /// An error of `status`, with no code of its own.
    #[must_use]
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            kind: None,
            code: None,
            message: message.into(),
            param: None,
            retry_after: None,
            request_id: None,
        }
    }

    fn coded(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: Some(Cow::Borrowed(code)),
            ..Self::new(status, message)
        }
    }

    /// The error with the request's id.
    #[must_use]
    pub fn with_request_id(self, request_id: impl Into<String>) -> Self {
        Self {
            request_id: Some(request_id.into()),
            ..self
        }
    }

    /// The error with the time to come back.
    #[must_use]
    pub fn with_retry_after(self, retry_after: Duration) -> Self {
        Self {
            retry_after: Some(retry_after),
            ..self
        }
    }

    /// 400: a body that [`Peek`](crate::Peek) refuses.
    #[must_use]
    pub fn bad_json(error: &PeekError) -> Self {
        let code = match error.kind {
            PeekErrorKind::DuplicateModel => "duplicate_parameter",
            PeekErrorKind::ModelNotAString | PeekErrorKind::StreamNotABoolean => "invalid_type",
            _ => "invalid_json",
        };
        Self {
            param: error.param().map(str::to_owned),
            ..Self::coded(400, code, error.to_string())
        }
    }

    /// 400: no model in the body, and none in the header.
    #[must_use]
    pub fn no_model() -> Self {
        let message = "The request names no model: set \"model\" in the body, or the header \"x-model\".";
        Self {
            param: Some("model".to_owned()),
            ..Self::coded(400, "missing_required_parameter", message)
        }
    }

    /// 400: the headers that may name the model name several.
    #[must_use]
    pub fn two_model_headers() -> Self {
        let message = "The headers \"x-model\" and \"x-model-name\" name the model more than once: send one.";
        Self {
            param: Some("x-model".to_owned()),
            ..Self::coded(400, "duplicate_parameter", message)
        }
    }

    /// 400: the header that names the model holds no text.
    #[must_use]
    pub fn bad_model_header() -> Self {
        let message = "The header \"x-model\" (or \"x-model-name\") is not text in UTF-8.";
        Self {
            param: Some("x-model".to_owned()),
            ..Self::coded(400, "invalid_value", message)
        }
    }

    /// 400: `what`, a full sentence, is not something the gateway or any target can do.
    #[must_use]
    pub fn unsupported(what: impl Into<String>) -> Self {
        Self::coded(400, "unsupported", what)
    }

    /// 401: no key, or one that opens nothing.
    #[must_use]
    pub fn unauthorized(fault: KeyFault) -> Self {
        match fault {
            KeyFault::Missing => Self::coded(
                401,
                "missing_api_key",
                "No API key was sent: put it in the header \"Authorization: Bearer KEY\" or \"x-api-key: KEY\".",
            ),
            KeyFault::Unknown => Self::coded(401, "invalid_api_key", "The API key is not known here."),
            KeyFault::Expired => Self::coded(401, "invalid_api_key", "The API key has expired."),
        }
    }

    /// 403: `what`, a full sentence, is not for this key.
    #[must_use]
    pub fn forbidden(what: impl Into<String>) -> Self {
        Self::coded(403, "forbidden", what)
    }

    /// 404: no such route, or one this key may not use; the answer does not tell which.
    #[must_use]
    pub fn unknown_model(model: &str) -> Self {
        let message = format!(
            "The model {:?} does not exist here, or this key may not use it. GET /v1/models lists them.",
            cut(model)
        );
        Self {
            param: Some("model".to_owned()),
            ..Self::coded(404, "model_not_found", message)
        }
    }

    /// 400: no model in the request to a path that the config names, and more than one route that may be meant.
    #[must_use]
    pub fn no_model_named() -> Self {
        let message = "The request names no model, and several are served: set \"model\" in a JSON body, or the header \"x-model\".";
        Self {
            param: Some("model".to_owned()),
            ..Self::coded(400, "missing_required_parameter", message)
        }
    }

    /// 400: a form that cannot be taken.
    #[must_use]
    pub fn bad_form(error: &FormError) -> Self {
        let code = match error {
            FormError::DuplicateModel => "duplicate_parameter",
            _ => "invalid_form",
        };
        let param = matches!(error, FormError::DuplicateModel | FormError::BadModel(_));
        Self {
            param: param.then(|| "model".to_owned()),
            ..Self::coded(400, code, error.to_string())
        }
    }

    /// 404: a response that is not known here, or that another key made; the answer does not tell which.
    #[must_use]
    pub fn no_such_response(id: &str) -> Self {
        Self::coded(404, "response_not_found", unknown_response(id))
    }

    /// 400: the same of a response that a new one is to go on from.
    #[must_use]
    pub fn no_previous_response(id: &str) -> Self {
        Self {
            param: Some("previous_response_id".to_owned()),
            ..Self::coded(400, "previous_response_not_found", unknown_response(id))
        }
    }

    /// 503: the engine that holds the response cannot be asked now.
    #[must_use]
    pub fn home_unavailable(retry_after: Option<Duration>) -> Self {
        let message = "The engine that holds this response is not in service, and no other has it.";
        Self {
            retry_after,
            ..Self::coded(503, "service_unavailable", message)
        }
    }

    /// 404: nothing is served under the path; what a later version serves is refused by name.
    #[must_use]
    pub fn no_such_path(path: &str) -> Self {
        let shown = cut(path);
        let message = if comes_later(path) {
            format!("The path {shown:?} is not supported yet.")
        } else {
            format!("Nothing is served under the path {shown:?}.")
        };
        Self::coded(404, "unknown_url", message)
    }

    /// 405: the path takes other methods; `allow` names them.
    #[must_use]
    pub fn method_not_allowed(allow: &str) -> Self {
        Self::coded(
            405,
            "method_not_allowed",
            format!("This path takes {allow} only."),
        )
    }

    /// 408: the client took too long to send its request.
    #[must_use]
    pub fn slow_request() -> Self {
        Self::coded(408, "request_timeout", "The request did not arrive in time.")
    }

    /// 503: the gateway has no memory left for another request's body.
    #[must_use]
    pub fn no_room() -> Self {
        Self::coded(
            503,
            "overloaded",
            "The gateway has no memory left for the request's body (server.body_memory).",
        )
        .with_retry_after(Duration::from_secs(1))
    }

    /// 413: a body over `bytes_max`, the limit of `server.max_body`.
    #[must_use]
    pub fn too_large(bytes_max: u64) -> Self {
        Self::coded(
            413,
            "request_too_large",
            format!("The body is larger than {bytes_max} bytes, the limit of the gateway's server.max_body."),
        )
    }

    /// 415: a body in a form the gateway does not read, such as a content encoding.
    #[must_use]
    pub fn unsupported_media(what: impl Into<String>) -> Self {
        Self::coded(415, "unsupported_media_type", what)
    }

    /// 422: an idempotency key used again with another body.
    #[must_use]
    pub fn idempotency_mismatch() -> Self {
        Self::coded(
            422,
            "idempotency_key_reused",
            "This idempotency key came before with another body: use a new key for a new request.",
        )
    }

    /// 429: `what`, a full sentence, says which limit or that all are busy.
    #[must_use]
    pub fn busy(what: impl Into<String>, retry_after: Option<Duration>) -> Self {
        Self {
            retry_after,
            ..Self::coded(429, "rate_limit_exceeded", what)
        }
    }

    /// 431: headers over the limit.
    #[must_use]
    pub fn headers_too_large() -> Self {
        Self::coded(
            431,
            "headers_too_large",
            "The request's headers are larger than the limit here.",
        )
    }

    /// 500: a fault of the gateway.
    #[must_use]
    pub fn internal() -> Self {
        Self::coded(
            500,
            "internal_error",
            "The gateway failed at this request. Its log, under the request's id, says why.",
        )
    }

    /// 502: `what`, a full sentence, says how the upstream failed.
    #[must_use]
    pub fn bad_gateway(what: impl Into<String>) -> Self {
        Self::coded(502, "bad_gateway", what)
    }

    /// 502: the upstream's stream ended before the answer did; sent as an event.
    #[must_use]
    pub fn stream_cut() -> Self {
        Self::coded(
            502,
            "stream_interrupted",
            "The upstream's stream ended before the answer was complete.",
        )
    }

    /// 503: `what`, a full sentence, says why nothing can take the request.
    #[must_use]
    pub fn unavailable(what: impl Into<String>, retry_after: Option<Duration>) -> Self {
        Self {
            retry_after,
            ..Self::coded(503, "service_unavailable", what)
        }
    }

    /// 503: the gateway is about to stop.
    #[must_use]
    pub fn draining() -> Self {
        let message = "The gateway is stopping and takes no new requests: send it again.";
        Self {
            retry_after: Some(Duration::from_secs(1)),
            ..Self::coded(503, "draining", message)
        }
    }

    /// 503: the gateway is about to stop, and this request had all the time that it may have.
    #[must_use]
    pub fn drain_over() -> Self {
        let message = "The gateway is stopping, and this request was cut: it had not ended within server.drain_timeout.";
        Self {
            retry_after: Some(Duration::from_secs(1)),
            ..Self::coded(503, "draining", message)
        }
    }

    /// 504: a clock ran out.
    #[must_use]
    pub fn timeout(which: Timeout) -> Self {
        let message = match which {
            Timeout::Connect => "No connection to the upstream in time (timeouts.connect).",
            Timeout::FirstByte => "The upstream sent no first byte in time (timeouts.first_byte).",
            Timeout::Idle => "The upstream's stream stood still for too long (timeouts.idle).",
            Timeout::Total => "The upstream did not finish its answer in time (timeouts.total).",
            Timeout::StreamTotal => "The upstream's stream took too long (timeouts.stream_total).",
            Timeout::Client => "The answer took longer than the request's x-request-timeout-ms allows.",
        };
        Self::coded(504, "timeout", message)
    }

    /// What an error inside a stream or a 200 answer stands for: 502 where it says no status.
    #[must_use]
    pub fn in_band(protocol: Protocol, error: &InBandError) -> Self {
        Self {
            kind: error.kind.clone().map(Cow::Owned),
            code: error.code.clone().map(Cow::Owned),
            param: error.param.clone(),
            ..Self::new(
                client_status(protocol, error.status.unwrap_or(502)),
                error.message.clone(),
            )
        }
    }

    /// The body of the answer, `application/json`.
    #[must_use]
    pub fn render(&self, protocol: Protocol) -> Bytes {
        self.render_with(protocol, self.request_id.as_deref())
    }

    /// The error as an event that ends a stream: OpenAI's bare `data`, Anthropic's `event: error`. Without
    /// `request_id` the error's own is used.
    #[must_use]
    pub fn sse_event(&self, protocol: Protocol, request_id: Option<&str>) -> Bytes {
        let body = self.render_with(protocol, request_id.or(self.request_id.as_deref()));
        let head: &[u8] = match protocol {
            Protocol::OpenAi => b"data: ",
            Protocol::Anthropic => b"event: error\ndata: ",
        };
        Bytes::from([head, &body, b"\n\n"].concat())
    }

    /// As [`ErrorBody::sse_event`], in the form of the call's own streams: the Responses API has typed
    /// events. Its error event carries the fields both bare, as documented, and under `error`, where clients
    /// look.
    #[must_use]
    pub fn sse_event_for(&self, api: Api, request_id: Option<&str>) -> Bytes {
        if !matches!(api, Api::Responses | Api::Response) {
            return self.sse_event(api.protocol(), request_id);
        }
        let error = self.openai();
        let event = ResponsesError {
            r#type: "error",
            code: error.code,
            message: error.message,
            param: error.param,
            error: self.openai(),
        };
        Bytes::from([b"event: error\ndata: ".as_slice(), &to_json(&event), b"\n\n"].concat())
    }

    fn render_with(&self, protocol: Protocol, request_id: Option<&str>) -> Bytes {
        Bytes::from(match protocol {
            Protocol::OpenAi => to_json(&OpenAiEnvelope { error: self.openai() }),
            Protocol::Anthropic => to_json(&AnthropicEnvelope {
                r#type: "error",
                error: AnthropicError {
                    r#type: self.anthropic_kind(),
                    message: &self.message,
                },
                request_id,
            }),
        })
    }

    fn openai(&self) -> OpenAiError<'_> {
        OpenAiError {
            message: &self.message,
            r#type: self.openai_kind(),
            param: self.param.as_deref(),
            code: self.code.as_deref(),
        }
    }

    fn openai_kind(&self) -> &str {
        match self.kind.as_deref() {
            Some(kind) if !ANTHROPIC_ONLY_KINDS.contains(&kind) => kind,
            _ => openai_kind(self.status),
        }
    }

    fn anthropic_kind(&self) -> &str {
        match self.kind.as_deref() {
            Some(kind) if ANTHROPIC_KINDS.contains(&kind) => kind,
            _ => anthropic_kind(self.status),
        }
    }
}

fn unknown_response(id: &str) -> String {
    format!(
        "The response {:?} is not known here: it was deleted, has expired, was made with another key or through \
         another gateway, or its engine has gone or the gateway has restarted since.",
        cut(id)
    )
}

/// The words Anthropic's API documents.
const ANTHROPIC_KINDS: [&str; 10] = [
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
    "request_too_large",
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "overloaded_error",
];

/// Those of them that no OpenAI client knows.
const ANTHROPIC_ONLY_KINDS: [&str; 5] = [
    "billing_error",
    "request_too_large",
    "api_error",
    "timeout_error",
    "overloaded_error",
];

/// OpenAI's `type` word for a status.
fn openai_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// Anthropic's `type` word for a status.
fn anthropic_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// Texts and options only: writing them as JSON cannot fail, and if it did the body would be empty.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

#[derive(Serialize)]
struct OpenAiEnvelope<'a> {
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    message: &'a str,
    r#type: &'a str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

#[derive(Serialize)]
struct ResponsesError<'a> {
    r#type: &'static str,
    code: Option<&'a str>,
    message: &'a str,
    param: Option<&'a str>,
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct AnthropicEnvelope<'a> {
    r#type: &'static str,
    error: AnthropicError<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'a str,
    message: &'a str,
}

#[cfg(test)]
mod tests;
