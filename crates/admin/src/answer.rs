//! What a handler gives back.

use axum::body::Body;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

/// Content type of JSON.
pub(crate) const JSON: &str = "application/json";

/// An answer that is good.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) media: &'static str,
    pub(crate) body: Bytes,
}

impl Answer {
    /// 200 with JSON.
    pub(crate) fn json(value: &impl Serialize) -> Result<Self> {
        let body = serde_json::to_vec(value).map_err(|error| Failure {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: format!(
                "the answer cannot be written as JSON, which is a fault of the gateway: {error}"
            ),
            problems: None,
        })?;
        Ok(Self {
            status: StatusCode::OK,
            media: JSON,
            body: body.into(),
        })
    }
}

/// A refusal, in JSON: what is wrong and how to mend it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
    /// Problems of a config, where that is what is wrong.
    pub(crate) problems: Option<Value>,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            problems: None,
        }
    }

    /// 400.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// 404.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
}

/// What handlers give back.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// The answer, whichever it is, with the headers that keep browsers and caches from doing more with it than meant.
pub(crate) fn respond(result: Result<Answer>) -> Response<Body> {
    let answer = result.unwrap_or_else(|failure| {
        let mut error = json!({"error": {"message": failure.message}});
        if let Some(problems) = failure.problems {
            error["error"]["problems"] = problems;
        }
        Answer {
            status: failure.status,
            media: JSON,
            body: error.to_string().into(),
        }
    });
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = answer.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.media));
    if answer.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    for (name, value) in [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}
