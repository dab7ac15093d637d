//! Requests and answers as every endpoint needs them: bodies, errors in the dialect's shape, the mark of a simulation.

use super::stream::TokenBody;
use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

/// Largest request body taken.
const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// On every answer, so that nobody takes it for a real engine's.
const MARK: HeaderName = HeaderName::from_static("x-simulated-engine");

/// An answer: whole, or a stream of tokens.
pub(super) type Answer = Response<Either<Full<Bytes>, TokenBody>>;

/// Whose shape an error takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    OpenAi,
    Anthropic,
}

/// An error on its way to the client.
#[derive(Debug)]
pub(super) struct Fault {
    status: StatusCode,
    message: String,
    param: Option<&'static str>,
}

impl Fault {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
        }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// Names the parameter that is wrong.
    pub(super) fn about(self, param: &'static str) -> Self {
        Self {
            param: Some(param),
            ..self
        }
    }

    pub(super) fn unknown_model(name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            format!("The model `{name}` does not exist."),
        )
        .about("model")
    }

    /// The engine went away under the request.
    pub(super) fn stopped() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "The engine is stopping.")
    }

    pub(super) fn answer(self, dialect: Dialect) -> Answer {
        let body = match dialect {
            Dialect::OpenAi => json!({"error": {
                "message": self.message,
                "type": self.openai_type(),
                "param": self.param,
                "code": self.status.as_u16(),
            }}),
            Dialect::Anthropic => json!({"type": "error", "error": {
                "type": self.anthropic_type(),
                "message": self.message,
            }}),
        };
        json_answer(self.status, &body)
    }

    fn openai_type(&self) -> &'static str {
        match self.status.as_u16() {
            404 => "NotFoundError",
            400..=499 => "BadRequestError",
            503 => "ServiceUnavailableError",
            _ => "InternalServerError",
        }
    }

    fn anthropic_type(&self) -> &'static str {
        match self.status.as_u16() {
            404 => "not_found_error",
            413 => "request_too_large",
            400..=499 => "invalid_request_error",
            503 => "overloaded_error",
            _ => "api_error",
        }
    }
}

/// An answer in one piece.
pub(super) fn whole(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    answer(status, content_type, Either::Left(Full::new(body.into())))
}

/// An answer of one JSON value.
pub(super) fn json_answer(status: StatusCode, body: &impl Serialize) -> Answer {
    match serde_json::to_vec(body) {
        Ok(bytes) => whole(status, "application/json", bytes),
        Err(_) => whole(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            "cannot write the answer\n",
        ),
    }
}

/// A stream of server-sent events.
pub(super) fn streamed(body: TokenBody) -> Answer {
    let mut answer = answer(
        StatusCode::OK,
        "text/event-stream; charset=utf-8",
        Either::Right(body),
    );
    answer
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

fn answer(status: StatusCode, content_type: &'static str, body: Either<Full<Bytes>, TokenBody>) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(MARK, HeaderValue::from_static("weighbridge"));
    answer
}

/// Reads a whole body and parses it.
pub(super) async fn read<T: DeserializeOwned>(body: Incoming) -> Result<T, Fault> {
    let bytes = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("The body is larger than {BODY_BYTES_MAX} bytes.");
            return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, message));
        }
        Err(error) => return Err(Fault::bad_request(format!("The body ends early: {error}"))),
    };
    serde_json::from_slice(&bytes)
        .map_err(|error| Fault::bad_request(format!("The body is not valid: {error}")))
}
