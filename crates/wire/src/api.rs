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
    /// `POST /v1/rerank`, also as `/rerank` and `/v2/rerank`
    Rerank,
    /// `POST /v1/score`, also as `/score`
    Score,
    /// `POST /v1/audio/speech`
    Speech,
    /// `POST /v1/audio/transcriptions`
    Transcriptions,
    /// `POST /v1/audio/translations`
    Translations,
    /// `POST /v1/images/generations`
    ImageGenerations,
    /// `POST /v1/images/edits`
    ImageEdits,
    /// `POST /v1/images/variations`
    ImageVariations,
    /// `POST /v1/moderations`
    Moderations,
    /// A response that was made before: `GET` and `DELETE /v1/responses/{id}`, `POST …/cancel`, `GET …/input_items`. The
    /// id comes from [`response_id_from_path`].
    Response,
    /// A path that only the config names.
    Passthrough,
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

/// Everything that is called by POST under one path, the most frequent first.
const POSTED: [Api; 15] = [
    Api::ChatCompletions,
    Api::Completions,
    Api::Responses,
    Api::Embeddings,
    Api::Messages,
    Api::CountTokens,
    Api::Rerank,
    Api::Score,
    Api::Speech,
    Api::Transcriptions,
    Api::Translations,
    Api::ImageGenerations,
    Api::ImageEdits,
    Api::ImageVariations,
    Api::Moderations,
];

/// Further paths of these calls, which engines serve beside the first: Cohere's and Jina's, and those without a version.
const ALIASES: [(&str, Api); 3] = [
    ("/rerank", Api::Rerank),
    ("/v2/rerank", Api::Rerank),
    ("/score", Api::Score),
];

const MODELS: &str = "/v1/models";
const RESPONSES: &str = "/v1/responses";

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
        if let Some((_, api)) = ALIASES.into_iter().find(|(alias, _)| *alias == trimmed) {
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
            return Self::stored(method, trimmed);
        };
        if method == Method::GET || method == Method::HEAD {
            Ok(api)
        } else {
            Err(PathError::MethodNotAllowed { allow: "GET, HEAD" })
        }
    }

    /// A call on a response that was made before.
    fn stored(method: &Method, path: &str) -> Result<Self, PathError> {
        let rest = path
            .strip_prefix(RESPONSES)
            .and_then(|rest| rest.strip_prefix('/'));
        let (id, allow) = match rest.map(|rest| rest.split_once('/').unwrap_or((rest, ""))) {
            Some((id, "")) if !path.ends_with('/') => (id, "GET, DELETE"),
            Some((id, "cancel")) => (id, "POST"),
            Some((id, "input_items")) => (id, "GET"),
            _ => return Err(PathError::NotFound),
        };
        if !is_plain_id(id) {
            Err(PathError::NotFound)
        } else if allow.split(", ").any(|allowed| allowed == method.as_str()) {
            Ok(Self::Response)
        } else {
            Err(PathError::MethodNotAllowed { allow })
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

    /// Whether the call takes a form (`multipart/form-data`) as its body: one that carries a file.
    #[must_use]
    pub fn takes_form(self) -> bool {
        matches!(
            self,
            Self::Transcriptions
                | Self::Translations
                | Self::ImageEdits
                | Self::ImageVariations
                | Self::Passthrough
        )
    }

    /// Whether an answer may be something else than JSON, which is passed on as it comes.
    #[must_use]
    pub fn answers_any_type(self) -> bool {
        !self.generates_text() && !matches!(self, Self::Embeddings | Self::CountTokens)
    }

    /// The path of the call; for [`Api::Model`] and [`Api::Response`] without the id, for one with several paths the
    /// first, and for [`Api::Passthrough`], which has none of its own, a word.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Embeddings => "/v1/embeddings",
            Self::Messages => "/v1/messages",
            Self::CountTokens => "/v1/messages/count_tokens",
            Self::Rerank => "/v1/rerank",
            Self::Score => "/v1/score",
            Self::Speech => "/v1/audio/speech",
            Self::Transcriptions => "/v1/audio/transcriptions",
            Self::Translations => "/v1/audio/translations",
            Self::ImageGenerations => "/v1/images/generations",
            Self::ImageEdits => "/v1/images/edits",
            Self::ImageVariations => "/v1/images/variations",
            Self::Moderations => "/v1/moderations",
            Self::Response => "/v1/responses/{id}",
            Self::Passthrough => "passthrough",
            Self::Models | Self::Model => MODELS,
        }
    }
}

/// Calls of later versions, each with what may follow it.
const LATER: [&str; 2] = ["/v1/batches", "/v1/files"];

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

/// The id in `/v1/responses/{id}` and in what stands below it. None where the path is another.
#[must_use]
pub fn response_id_from_path(path: &str) -> Option<&str> {
    let rest = trim_slash(path).strip_prefix(RESPONSES)?.strip_prefix('/')?;
    let id = rest.split_once('/').map_or(rest, |(id, _)| id);
    is_plain_id(id).then_some(id)
}

/// Ids of responses are words; what would have to be decoded, or leads to another path, is none.
fn is_plain_id(id: &str) -> bool {
    !id.is_empty()
        && id
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte))
        && id.bytes().any(|byte| byte != b'.')
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
    fn further_paths_of_a_call_are_found() {
        for (path, api) in ALIASES {
            assert_eq!(Api::from_path(&Method::POST, path), Ok(api));
            assert_eq!(
                Api::from_path(&Method::GET, path),
                Err(PathError::MethodNotAllowed { allow: "POST" })
            );
        }
    }

    #[test]
    fn responses_are_found_by_their_ids() {
        let taken = |method: Method, path| Api::from_path(&method, path);
        for (method, path) in [
            (Method::GET, "/v1/responses/resp_1"),
            (Method::GET, "/v1/responses/resp_1/"),
            (Method::DELETE, "/v1/responses/resp_1"),
            (Method::POST, "/v1/responses/resp_1/cancel"),
            (Method::GET, "/v1/responses/resp_1/input_items"),
        ] {
            assert_eq!(taken(method, path), Ok(Api::Response), "{path}");
            assert_eq!(response_id_from_path(path), Some("resp_1"), "{path}");
        }
        for (method, path, allow) in [
            (Method::POST, "/v1/responses/resp_1", "GET, DELETE"),
            (Method::GET, "/v1/responses/resp_1/cancel", "POST"),
            (Method::DELETE, "/v1/responses/resp_1/input_items", "GET"),
        ] {
            let refused = taken(method, path);
            assert_eq!(refused, Err(PathError::MethodNotAllowed { allow }), "{path}");
        }
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
            "/v1/rerankx",
            "/v3/rerank",
            "/v1/responses/resp_1/other",
            "/v1/responses/resp_1/cancel/x",
            "/v1/responses//cancel",
            "/v1/responses/../cancel",
            "/v1/responses/a%2fb",
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
        for path in ["/v1/files/", "/v1/batches", "/v1/files/file-1/content"] {
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
