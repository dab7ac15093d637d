//! The paths the gateway serves, and which protocol and kind of work each stands for.

use std::borrow::Cow;

use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;

/// The dialect a client speaks, told by the path it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// OpenAI's: `/v1/chat/completions` and its siblings.
    OpenAi,
    /// Anthropic's: `/v1/messages` and its siblings.
    Anthropic,
}

/// One call of the data plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Api {
    /// `POST /v1/chat/completions`
    ChatCompletions,
    /// `POST /v1/completions`
    Completions,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/embeddings`
    Embeddings,
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`; the id comes from [`model_id_from_path`].
    Model,
}

/// Why a method and path are not a call the gateway serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// Nothing is served under this path (404).
    NotFound,
    /// The path is served, under another method (405).
    MethodNotAllowed {
        /// The value of the `allow` header of the answer.
        allow: &'static str,
    },
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such path"),
            Self::MethodNotAllowed { allow } => write!(f, "this path takes {allow} only"),
        }
    }
}

impl std::error::Error for PathError {}

/// Everything that is called by POST, with its path. The models calls are the only ones by GET.
const POSTED: [Api; 6] = [
    Api::ChatCompletions,
    Api::Completions,
    Api::Responses,
    Api::Embeddings,
    Api::Messages,
    Api::CountTokens,
];

const MODELS: &str = "/v1/models";

impl Api {
    /// The call that `method` on `path` (without a query) asks for. One trailing slash is tolerated.
    ///
    /// # Errors
    /// [`PathError::NotFound`] for an unknown path, [`PathError::MethodNotAllowed`] for a known one under a
    /// method it does not take.
    pub fn from_path(method: &Method, path: &str) -> Result<Self, PathError> {
        let trimmed = trim_slash(path);
        if let Some(api) = POSTED.into_iter().find(|api| api.path() == trimmed) {
            return if method == Method::POST {
                Ok(api)
            } else {
                Err(PathError::MethodNotAllowed { allow: "POST" })
            };
        }
        let api = if trimmed == MODELS {
            Self::Models
        } else if model_id_from_path(path).is_some() {
            Self::Model
        } else {
            return Err(PathError::NotFound);
        };
        if method == Method::GET || method == Method::HEAD {
            Ok(api)
        } else {
            Err(PathError::MethodNotAllowed { allow: "GET, HEAD" })
        }
    }

    /// The protocol of this call. The models calls belong to both protocols and count as OpenAI's here; with
    /// the request's headers at hand, [`Api::client_protocol`] tells them apart.
    #[must_use]
    pub fn protocol(self) -> Protocol {
        match self {
            Self::Messages | Self::CountTokens => Protocol::Anthropic,
            _ => Protocol::OpenAi,
        }
    }

    /// The protocol the answer must speak: as [`Api::protocol`], but a models call that carries an
    /// `anthropic-version` header comes from an Anthropic client.
    #[must_use]
    pub fn client_protocol(self, headers: &HeaderMap) -> Protocol {
        match self {
            Self::Models | Self::Model if headers.contains_key("anthropic-version") => Protocol::Anthropic,
            _ => self.protocol(),
        }
    }

    /// Whether the call makes a model write text, so that it streams, takes long and counts output tokens.
    #[must_use]
    pub fn generates_text(self) -> bool {
        matches!(
            self,
            Self::ChatCompletions | Self::Completions | Self::Responses | Self::Messages
        )
    }

    /// The path of the call; for [`Api::Model`] without the id.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Embeddings => "/v1/embeddings",
            Self::Messages => "/v1/messages",
            Self::CountTokens => "/v1/messages/count_tokens",
            Self::Models | Self::Model => MODELS,
        }
    }
}

/// Calls of later versions, each with what may follow it.
const LATER: [&str; 8] = [
    "/v1/audio",
    "/v1/batches",
    "/v1/files",
    "/v1/images",
    "/v1/moderations",
    "/v1/rerank",
    "/v1/responses",
    "/v1/score",
];

/// Whether a path that is not served belongs to a call of a later version.
#[must_use]
pub(crate) fn comes_later(path: &str) -> bool {
    LATER
        .iter()
        .filter_map(|later| path.strip_prefix(later))
        .any(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The id in `/v1/models/{id}`, percent-decoded. Ids such as `Qwen/Qwen3-0.6B` hold slashes, so all that
/// follows counts, but for one trailing slash. None where the path is another, the id is empty or does not
/// decode to UTF-8.
#[must_use]
pub fn model_id_from_path(path: &str) -> Option<Cow<'_, str>> {
    let id = trim_slash(path).strip_prefix(MODELS)?.strip_prefix('/')?;
    let id = percent_decode_str(id).decode_utf8().ok()?;
    (!id.is_empty()).then_some(id)
}

fn trim_slash(path: &str) -> &str {
    path.strip_suffix('/').unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_found_with_and_without_a_trailing_slash() {
        for api in POSTED {
            assert_eq!(Api::from_path(&Method::POST, api.path()), Ok(api));
            assert_eq!(
                Api::from_path(&Method::POST, &format!("{}/", api.path())),
                Ok(api)
            );
            assert_eq!(
                Api::from_path(&Method::GET, api.path()),
                Err(PathError::MethodNotAllowed { allow: "POST" })
            );
        }
        assert_eq!(Api::from_path(&Method::GET, "/v1/models/"), Ok(Api::Models));
        assert_eq!(Api::from_path(&Method::GET, "/v1/models/gpt-x"), Ok(Api::Model));
        assert_eq!(
            Api::from_path(&Method::POST, "/v1/models/gpt-x"),
            Err(PathError::MethodNotAllowed { allow: "GET, HEAD" })
        );
    }

    #[test]
    fn unknown_paths_are_not_found() {
        for path in [
            "",
            "/",
            "/v1",
            "/v1/chat",
            "/v1/chat/completions//",
            "/v1/modelsx",
            "/v1/responses/resp_1",
        ] {
            assert_eq!(
                Api::from_path(&Method::POST, path),
                Err(PathError::NotFound),
                "{path}"
            );
        }
    }

    #[test]
    fn calls_of_later_versions_are_known_by_name() {
        for path in [
            "/v1/rerank",
            "/v1/audio/speech",
            "/v1/responses/resp_1",
            "/v1/files/",
        ] {
            assert!(comes_later(path), "{path}");
        }
        for path in ["/v1/reranker", "/v2/files", "/v1", "/files"] {
            assert!(!comes_later(path), "{path}");
        }
    }

    #[test]
    fn model_ids_keep_their_slashes_and_are_decoded() {
        let check = |path, id: Option<&str>| assert_eq!(model_id_from_path(path).as_deref(), id, "{path}");
        check("/v1/models/gpt-x", Some("gpt-x"));
        check("/v1/models/Qwen/Qwen3-0.6B", Some("Qwen/Qwen3-0.6B"));
        check("/v1/models/Qwen%2FQwen3-0.6B/", Some("Qwen/Qwen3-0.6B"));
        check("/v1/models/caf%C3%A9%20au%20lait", Some("café au lait"));
        check("/v1/models/%FF", None);
        check("/v1/models/", None);
        check("/v1/models", None);
        check("/v2/models/a", None);
    }

    #[test]
    fn models_calls_follow_the_version_header() {
        let mut headers = HeaderMap::new();
        assert_eq!(Api::Models.client_protocol(&headers), Protocol::OpenAi);
        headers.insert("anthropic-version", http::HeaderValue::from_static("2023-06-01"));
        assert_eq!(Api::Models.client_protocol(&headers), Protocol::Anthropic);
        assert_eq!(Api::ChatCompletions.client_protocol(&headers), Protocol::OpenAi);
        assert_eq!(Api::Messages.protocol(), Protocol::Anthropic);
    }
}
