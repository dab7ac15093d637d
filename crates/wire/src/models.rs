//! The answers of the models calls in both protocols' shapes.

use bytes::Bytes;
use serde::Serialize;

use crate::api::Protocol;

/// One model as clients see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelEntry {
    /// The name to send as `model`.
    pub id: String,
    /// The name for people; the id where there is none.
    pub display_name: Option<String>,
    /// When it came to be, in seconds since 1970.
    pub created: u64,
    /// Who provides it.
    pub owned_by: String,
}

/// The answer to `GET /v1/models`: all models at once, in the order given.
#[must_use]
pub fn list(protocol: Protocol, models: &[ModelEntry]) -> Bytes {
    match protocol {
        Protocol::OpenAi => to_json(&OpenAiList {
            object: "list",
            data: models.iter().map(OpenAiModel::from).collect(),
        }),
        Protocol::Anthropic => to_json(&AnthropicList {
            data: models.iter().map(AnthropicModel::from).collect(),
            has_more: false,
            first_id: models.first().map(|model| &*model.id),
            last_id: models.last().map(|model| &*model.id),
        }),
    }
}

/// The answer to `GET /v1/models/{id}`.
#[must_use]
pub fn single(protocol: Protocol, model: &ModelEntry) -> Bytes {
    match protocol {
        Protocol::OpenAi => to_json(&OpenAiModel::from(model)),
        Protocol::Anthropic => to_json(&AnthropicModel::from(model)),
    }
}

#[derive(Serialize)]
struct OpenAiList<'a> {
    object: &'static str,
    data: Vec<OpenAiModel<'a>>,
}

#[derive(Serialize)]
struct OpenAiModel<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    owned_by: &'a str,
}

impl<'a> From<&'a ModelEntry> for OpenAiModel<'a> {
    fn from(model: &'a ModelEntry) -> Self {
        Self {
            id: &model.id,
            object: "model",
            created: model.created,
            owned_by: &model.owned_by,
        }
    }
}

#[derive(Serialize)]
struct AnthropicList<'a> {
    data: Vec<AnthropicModel<'a>>,
    has_more: bool,
    first_id: Option<&'a str>,
    last_id: Option<&'a str>,
}

#[derive(Serialize)]
struct AnthropicModel<'a> {
    r#type: &'static str,
    id: &'a str,
    display_name: &'a str,
    created_at: String,
}

impl<'a> From<&'a ModelEntry> for AnthropicModel<'a> {
    fn from(model: &'a ModelEntry) -> Self {
        Self {
            r#type: "model",
            id: &model.id,
            display_name: model.display_name.as_deref().unwrap_or(&model.id),
            created_at: rfc3339(model.created),
        }
    }
}

/// Seconds since 1970 as RFC 3339; times beyond the year 9999 count as unknown, which Anthropic writes as the
/// epoch.
fn rfc3339(seconds: u64) -> String {
    let timestamp = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    timestamp.unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

/// Texts and numbers only: writing them as JSON cannot fail, and if it did the body would be empty.
fn to_json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> [ModelEntry; 2] {
        [("Qwen/Qwen3-0.6B", Some("Small")), ("gpt-x", None)].map(|(id, name)| ModelEntry {
            id: id.to_owned(),
            display_name: name.map(str::to_owned),
            created: 784_111_777,
            owned_by: "weighbridge".to_owned(),
        })
    }

    #[test]
    fn openai_shape() {
        let small =
            r#"{"id":"Qwen/Qwen3-0.6B","object":"model","created":784111777,"owned_by":"weighbridge"}"#;
        let large = r#"{"id":"gpt-x","object":"model","created":784111777,"owned_by":"weighbridge"}"#;
        assert_eq!(single(Protocol::OpenAi, &models()[0]), small);
        assert_eq!(
            list(Protocol::OpenAi, &models()),
            format!(r#"{{"object":"list","data":[{small},{large}]}}"#)
        );
        assert_eq!(list(Protocol::OpenAi, &[]), r#"{"object":"list","data":[]}"#);
    }

    #[test]
    fn anthropic_shape() {
        let small = r#"{"type":"model","id":"Qwen/Qwen3-0.6B","display_name":"Small","created_at":"1994-11-06T08:49:37Z"}"#;
        let large =
            r#"{"type":"model","id":"gpt-x","display_name":"gpt-x","created_at":"1994-11-06T08:49:37Z"}"#;
        assert_eq!(single(Protocol::Anthropic, &models()[0]), small);
        assert_eq!(
            list(Protocol::Anthropic, &models()),
            format!(
                r#"{{"data":[{small},{large}],"has_more":false,"first_id":"Qwen/Qwen3-0.6B","last_id":"gpt-x"}}"#
            )
        );
        assert_eq!(
            list(Protocol::Anthropic, &[]),
            r#"{"data":[],"has_more":false,"first_id":null,"last_id":null}"#
        );
    }
}
