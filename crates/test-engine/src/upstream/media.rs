//! Answers of the APIs that are no chat: audio, images, rerankers, moderation, stored responses, an engine's own paths.

use super::answer::Answer;
use super::events::Event;
use super::reply::Plain;
use super::shapes::{CREATED, Shapes};
use crate::json::Obj;

/// Bytes of an audio answer, unless `big` says otherwise.
const AUDIO: usize = 1000;

/// Whether a path is one whose streams are made of typed events of audio or images.
pub(crate) fn has_events(path: &str) -> bool {
    [
        "/audio/speech",
        "/audio/transcriptions",
        "/images/generations",
        "/images/edits",
    ]
    .iter()
    .any(|end| path.ends_with(end))
}

impl Answer<'_> {
    /// Whether the request asks for a stream, in JSON or in a form.
    pub(crate) fn wants_stream(&self) -> bool {
        let json = &self.request.json;
        let form = b"name=\"stream\"\r\n\r\ntrue\r\n";
        json["stream"].as_bool() == Some(true)
            || json["stream_format"] == "sse"
            || (json.is_null() && memchr::memmem::find(&self.request.body, form).is_some())
    }

    /// The answer of one of these APIs, if it is in one piece.
    pub(crate) fn media(&self) -> Option<Plain> {
        let path = self.request.path.as_str();
        let ends = |end: &str| path.ends_with(end);
        let m = &self.mode;
        let usage = || {
            Obj::new()
                .int("input_tokens", m.int("usage_in", 11))
                .int("output_tokens", m.int("usage_out", 7))
        };
        if path.contains("/responses/") {
            return Some(Plain::json(self.stored()));
        }
        if has_events(path) && self.wants_stream() {
            return None;
        }
        let json = match path {
            _ if ends("/audio/speech") => {
                let audio: Vec<u8> = (0..m.count("big").unwrap_or(AUDIO))
                    .map(|at| u8::try_from(at % 251).unwrap_or(0))
                    .collect();
                return Some(Plain::bytes("audio/mpeg", audio));
            }
            _ if ends("/audio/transcriptions") || ends("/audio/translations") => Obj::new()
                .str("text", m.get("text").unwrap_or("what was said"))
                .obj("usage", usage().str("type", "tokens")),
            _ if path.contains("/images/") => Obj::new()
                .int("created", CREATED)
                .arr("data", [Obj::new().str("b64_json", &self.image()).end()])
                .obj(
                    "usage",
                    usage().int("total_tokens", m.int("usage_in", 11) + m.int("usage_out", 7)),
                ),
            _ if ends("/moderations") => Obj::new()
                .str("id", &format!("modr-{}", self.shared.name))
                .raw("model", self.request.json["model"].to_string())
                .arr(
                    "results",
                    [r#"{"flagged":false,"categories":{},"category_scores":{}}"#.to_owned()],
                ),
            _ if ends("/rerank") => Obj::new()
                .str("id", &format!("rerank-{}", self.shared.name))
                .arr("results", [r#"{"index":0,"relevance_score":0.9}"#.to_owned()])
                .obj("usage", Obj::new().int("total_tokens", m.int("usage_in", 11))),
            _ if ends("/score") => Obj::new()
                .arr("data", [r#"{"index":0,"object":"score","score":0.9}"#.to_owned()])
                .obj("usage", Obj::new().int("prompt_tokens", m.int("usage_in", 11))),
            _ if ends("/tokenize") => Obj::new().int("count", 3).raw("tokens", "[1,2,3]"),
            _ if ends("/version") => Obj::new().str("version", &self.shared.name),
            _ => return None,
        };
        Some(Plain::json(json.end()))
    }

    /// An image in base 64, of `big` characters if the mode says so.
    fn image(&self) -> String {
        (self.mode.count("big")).map_or_else(|| "aW1hZ2U=".to_owned(), |size| "A".repeat(size))
    }

    fn stored(&self) -> String {
        let id = self.request.path.split("/responses/").nth(1).unwrap_or_default();
        let (id, below) = id.split_once('/').unwrap_or((id, ""));
        if below == "input_items" {
            return r#"{"object":"list","data":[],"has_more":false}"#.to_owned();
        }
        let known = Obj::new().str("id", id);
        match (self.request.method.as_str(), below) {
            ("DELETE", _) => known
                .str("object", "response.deleted")
                .raw("deleted", "true")
                .end(),
            (_, below) => known
                .str("object", "response")
                .str(
                    "status",
                    if below == "cancel" {
                        "cancelled"
                    } else {
                        "completed"
                    },
                )
                .str("model", "m")
                .raw("output", "[]")
                .obj(
                    "usage",
                    Obj::new().int("input_tokens", 11).int("output_tokens", 7),
                )
                .end(),
        }
    }
}

impl Shapes<'_> {
    /// The events of audio and images.
    pub(crate) fn media_events(&self, parts: &[String]) -> Vec<Event> {
        let path = self.request.path.as_str();
        let (piece, last, field) = match path {
            _ if path.ends_with("/speech") => ("speech.audio.delta", "speech.audio.done", "audio"),
            _ if path.ends_with("/edits") => ("image_edit.partial_image", "image_edit.completed", "b64_json"),
            _ if path.contains("/images/") => (
                "image_generation.partial_image",
                "image_generation.completed",
                "b64_json",
            ),
            _ => ("transcript.text.delta", "transcript.text.done", "delta"),
        };
        let mut events: Vec<_> = (parts.iter())
            .map(|part| Event {
                name: None,
                data: Obj::new().str("type", piece).str(field, part).end(),
            })
            .collect();
        if !self.mode.has("nodone") {
            let (input, output) = self.tokens();
            let usage = Obj::new().int("input_tokens", input).int("output_tokens", output);
            let whole = if field == "delta" { "text" } else { field };
            let last = Obj::new()
                .str("type", last)
                .str(whole, self.text)
                .obj("usage", usage);
            events.push(Event::unnamed(last.end()));
        }
        events
    }
}
