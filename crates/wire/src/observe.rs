//! Watching a response stream as it passes: has it begun, is it done, what did it cost, did it fail.

use std::borrow::Cow;

use crate::api::Api;
use crate::estimate::{NO_TEXT, TextTokens};
use crate::fields::{each_field, each_item, says_something, text};
use crate::repeat::{Pieces, Repeat};
use crate::said::{InBandError, Said};
use crate::sse::{Event, EventKind, Scanner};
use crate::usage::{Tally, Usage, spends_tokens};

/// Watches one response stream. Feed it every chunk in order; the bytes stay the relay's.
#[derive(Debug)]
pub struct StreamObserver {
    api: Api,
    scanner: Scanner,
    seen: Seen,
}

/// What one chunk brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fed {
    /// An event ended in it that is neither comment nor ping: the model is alive.
    pub progress: bool,
    /// The stream's first token, text or tool delta ended in it.
    pub first_content: bool,
    /// Where the last event, or block of comments, ends in it: an index into the chunk.
    pub last_end: Option<usize>,
    /// Where the first event that is an error ends in it: an index into the chunk.
    pub error_end: Option<usize>,
}

/// What a stream cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The tokens.
    pub usage: Usage,
    /// Whether any of them is an estimate, because the stream did not say.
    pub estimated: bool,
}

#[derive(Debug, Default)]
struct Seen {
    events: u64,
    content_events: u64,
    /// The text of the answer so far.
    written: TextTokens,
    /// Anthropic says the input at the beginning, and the output at the end.
    output_said: bool,
    done: bool,
    finished: bool,
    tally: Tally,
    error: Option<InBandError>,
    error_first: bool,
    /// Events came of an API that says when its stream is complete.
    has_end_mark: bool,
    /// The id of a response, until it is taken.
    response_id: Option<Box<str>>,
    repeat: Repeat,
    /// The name of the event that it is of.
    repeat_name: Option<&'static str>,
}

/// Largest event of an image that is looked into: its end mark holds the whole image.
const IMAGE_BYTES_MAX: usize = 16 << 20;

impl StreamObserver {
    /// An observer at the start of a stream that answers `api`.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Self {
            api,
            scanner: match api {
                Api::ImageGenerations | Api::ImageEdits => Scanner::with_event_bytes_max(IMAGE_BYTES_MAX),
                _ => Scanner::new(),
            },
            seen: Seen {
                has_end_mark: api.generates_text() || api == Api::Response,
                ..Seen::default()
            },
        }
    }

    /// Takes the next chunk, cut anywhere.
    pub fn feed(&mut self, chunk: &[u8]) -> Fed {
        let Self { api, scanner, seen } = self;
        let mut fed = Fed::default();
        scanner.feed(chunk, |event| seen.take(*api, &event, &mut fed));
        fed
    }

    /// Ends the stream: an event whose closing blank line never came is taken as it stands.
    pub fn finish(&mut self) -> Fed {
        let Self { api, scanner, seen } = self;
        let mut fed = Fed::default();
        scanner.finish(|event| seen.take(*api, &event, &mut fed));
        // Where no event says that the answer is complete, the end of its body does.
        seen.finished |= !seen.has_end_mark;
        fed
    }

    /// The id of the response that the stream is about, once it has been said; a second call gives none.
    pub fn take_response_id(&mut self) -> Option<Box<str>> {
        self.seen.response_id.take()
    }

    /// How many events have ended, comments and pings aside.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.seen.events
    }

    /// How many events carried a piece of the answer: text, reasoning, a tool call. Roughly the tokens
    /// written.
    #[must_use]
    pub fn content_events(&self) -> u64 {
        self.seen.content_events
    }

    /// Whether the stream's terminal event came: `[DONE]`; `message_stop`; `response.completed`, `.failed` or
    /// `.incomplete`; `speech.audio.done`; `transcript.text.done`.
    #[must_use]
    pub fn done(&self) -> bool {
        self.seen.done
    }

    /// Whether the model said why it stopped, so that the answer is whole even if the terminal event is missing; an image
    /// is complete, though more of them may follow; or the stream of an API without a terminal event came to its end.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.seen.finished
    }

    /// The token counts reported so far, the last word on each.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.seen.tally.usage()
    }

    /// What the stream cost so far: as reported, and where it is not reported (yet), as estimated. The answer's tokens are
    /// estimated by its text and by its events, of which most engines send one a token; the larger counts. `prompt` is asked
    /// for the prompt's tokens where they are not reported. None before the first event, when the model may not even
    /// have begun, and where nothing is reported of a call that writes no text.
    pub fn counted(&self, prompt: impl FnOnce() -> u64) -> Option<Counted> {
        if self.seen.events == 0 || !spends_tokens(self.api) {
            return None;
        }
        let reported = self.seen.tally.usage();
        let awaits_output = matches!(self.api, Api::Messages) && !self.seen.output_said;
        if let Some(usage) = reported.filter(|_| !awaits_output) {
            return Some(Counted {
                usage,
                estimated: false,
            });
        }
        if !self.api.generates_text() {
            return None;
        }
        let written = self.seen.content_events.max(self.seen.written.tokens());
        Some(Counted {
            usage: Usage {
                prompt_tokens: reported.map_or_else(prompt, |usage| usage.prompt_tokens),
                completion_tokens: reported.map_or(0, |usage| usage.completion_tokens).max(written),
                cached_tokens: reported.and_then(|usage| usage.cached_tokens),
            },
            estimated: true,
        })
    }

    /// The first error that came as an event.
    #[must_use]
    pub fn error(&self) -> Option<&InBandError> {
        self.seen.error.as_ref()
    }

    /// Whether that error came before any piece of the answer.
    #[must_use]
    pub fn error_first(&self) -> bool {
        self.seen.error_first
    }

    /// Whether an event has had an `id`; see [`Scanner::has_ids`].
    #[must_use]
    pub fn has_ids(&self) -> bool {
        self.scanner.has_ids()
    }

    /// Whether a new event can be put in after what has passed; see [`Scanner::at_boundary`].
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.scanner.at_boundary()
    }
}

impl Seen {
    fn take(&mut self, api: Api, event: &Event<'_>, fed: &mut Fed) {
        fed.last_end = Some(event.end);
        if event.kind == EventKind::Comment || (api == Api::Messages && event.name == Some("ping")) {
            return;
        }
        if event.kind == EventKind::Data
            && event.name == self.repeat_name
            && let Some(text) = self.repeat.text_of(event.data)
        {
            self.written.add_json(text);
            self.note(Note::Content, fed);
            return;
        }
        let sound = self.error.is_none();
        let note = match api {
            Api::Messages | Api::CountTokens => self.anthropic(event),
            Api::Responses | Api::Response => self.responses(event),
            Api::ChatCompletions | Api::Completions => self.chunk(event),
            _ => self.media(event, api),
        };
        if note == Note::Ping {
            return;
        }
        if sound && self.error.is_some() {
            fed.error_end = Some(event.end);
        }
        self.note(note, fed);
    }

    fn note(&mut self, note: Note, fed: &mut Fed) {
        self.events += 1;
        fed.progress = true;
        if note == Note::Content {
            fed.first_content |= self.content_events == 0;
            self.content_events += 1;
        }
    }

    fn fail(&mut self, said: Said) {
        if self.error.is_none() {
            self.error = Some(said.into_in_band());
            self.error_first = self.content_events == 0;
        }
    }

    /// One chunk of chat/completions or completions.
    fn chunk(&mut self, event: &Event<'_>) -> Note {
        if event.kind == EventKind::Oversized {
            return Note::Content;
        }
        if event.data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return Note::Other;
        }
        let Ok(json) = std::str::from_utf8(event.data) else {
            return Note::Other;
        };
        let mut note = Note::Other;
        let mut suspect = event.name == Some("error");
        let mut counts = false;
        let mut pieces = Pieces::default();
        let parsed = each_field(json, |key, value| match key {
            r#""choices""# => {
                let _ = each_item(value, |choice| {
                    if self.choice(choice, &mut pieces) {
                        note = Note::Content;
                    }
                });
            }
            r#""usage""# => {
                counts |= value != "null";
                self.tally.take_openai(value);
            }
            r#""error""# => suspect |= value != "null",
            r#""object""# => suspect |= value == r#""error""#,
            _ => {}
        });
        if suspect {
            let said = match (parsed, Said::from_answer(json)) {
                (Ok(()), Ok((Some(said), _))) => said,
                (Ok(()), _) => Said::from_object(json),
                (Err(_), _) => Said::from_text(json),
            };
            self.fail(said);
        } else if parsed.is_ok() && event.name.is_none() && !counts {
            self.repeat.learn(json, &pieces);
        }
        note
    }

    /// One choice of a chunk; true if it carries a piece of the answer, beyond the role.
    fn choice<'a>(&mut self, choice: &'a str, pieces: &mut Pieces<'a>) -> bool {
        let mut content = false;
        // Some servers send the same thoughts under several names.
        let mut thought = None;
        let _ = each_field(choice, |key, value| match key {
            r#""finish_reason""# => self.finished |= says_something(value),
            r#""text""# if says_something(value) => {
                content = true;
                pieces.add(value);
                self.written.add_json(value);
            }
            r#""delta""# => {
                let _ = each_field(value, |key, value| {
                    if !DELTA_CONTENT.contains(&key) || !says_something(value) {
                        return;
                    }
                    content = true;
                    if DELTA_THOUGHT.contains(&key) {
                        thought = Some(value);
                    } else if !DELTA_MEDIA.contains(&key) {
                        pieces.add(value);
                        self.written.add_json(value);
                    }
                });
            }
            _ => {}
        });
        if let Some(thought) = thought {
            pieces.add(thought);
            self.written.add_json(thought);
        }
        content
    }

    fn responses(&mut self, event: &Event<'_>) -> Note {
        let json = std::str::from_utf8(event.data).unwrap_or_default();
        let mut kind = event.name;
        let (mut response, mut delta) = (None, None);
        let mut error = None;
        let _ = each_field(json, |key, value| match key {
            r#""type""# => kind = plain(value).or(kind),
            r#""response""# => response = Some(value),
            r#""delta""# => delta = Some(value),
            r#""error""# => error = Some(value),
            _ => {}
        });
        if self.events == 0 {
            self.response_id =
                response.and_then(|response| id_in(response).map(Cow::into_owned).map(Into::into));
        }
        match kind {
            Some("response.completed" | "response.incomplete" | "response.failed") => {
                self.done = true;
                self.finished |= kind != Some("response.failed");
                let _ = each_field(response.unwrap_or_default(), |key, value| match key {
                    r#""usage""# => self.tally.take_openai(value),
                    r#""error""# if kind == Some("response.failed") => error = Some(value),
                    _ => {}
                });
                if kind == Some("response.failed") {
                    self.fail(error.and_then(Said::from_error).unwrap_or_default());
                }
                Note::Other
            }
            Some("error") => {
                let said = error
                    .and_then(Said::from_error)
                    .unwrap_or_else(|| Said::from_object(json));
                self.fail(said);
                Note::Other
            }
            Some(kind) if kind.ends_with(".delta") => {
                self.written.add_json(delta.unwrap_or_default());
                Note::Content
            }
            Some(_) => Note::Other,
            None => {
                self.untyped(error);
                Note::Other
            }
        }
    }

    /// One event of audio or images, which names its type; of engines that stream transcriptions as they stream chats;
    /// or of an API of which nothing is known.
    fn media(&mut self, event: &Event<'_>, api: Api) -> Note {
        let json = std::str::from_utf8(event.data).unwrap_or_default();
        let mut kind = event.name;
        let (mut usage, mut error, mut chat) = (None, None, false);
        let _ = each_field(json, |key, value| match key {
            r#""type""# => kind = plain(value).or(kind),
            r#""usage""# => usage = Some(value),
            r#""error""# => error = Some(value),
            r#""choices""# => chat = true,
            _ => {}
        });
        if chat || event.data.trim_ascii() == b"[DONE]" {
            self.has_end_mark |= api != Api::Passthrough;
            return self.chunk(event);
        }
        self.tally.take_openai(usage.unwrap_or_default());
        if kind == Some("error") && api != Api::Passthrough {
            let said = error.and_then(Said::from_error);
            self.fail(said.unwrap_or_else(|| Said::from_object(json)));
            return Note::Other;
        }
        let Some((of, what)) = kind.and_then(|kind| kind.rsplit_once('.')) else {
            if api != Api::Passthrough {
                self.untyped(error);
            }
            return Note::Other;
        };
        match (of, what) {
            ("speech.audio" | "transcript.text", "done") => self.done = true,
            ("image_generation" | "image_edit", "completed") => self.finished = true,
            ("speech.audio" | "transcript.text" | "image_generation" | "image_edit", _) => {
                self.has_end_mark |= event.kind != EventKind::Oversized;
                return Note::Content;
            }
            _ => {}
        }
        Note::Other
    }

    /// An event without a type, in an API whose events have one: engines report errors so, in the form of their other
    /// APIs.
    fn untyped(&mut self, error: Option<&str>) {
        if let Some(said) = error.and_then(Said::from_error) {
            self.fail(said);
        }
    }

    fn anthropic(&mut self, event: &Event<'_>) -> Note {
        let json = std::str::from_utf8(event.data).unwrap_or_default();
        let mut kind = event.name;
        let (mut message, mut delta, mut usage, mut error) = (None, None, None, None);
        let whole = each_field(json, |key, value| match key {
            r#""type""# => kind = plain(value).or(kind),
            r#""message""# => message = Some(value),
            r#""delta""# => delta = Some(value),
            r#""usage""# => usage = Some(value),
            r#""error""# => error = Some(value),
            _ => {}
        });
        match kind {
            Some("ping") => return Note::Ping,
            Some(block @ "content_block_delta") => {
                let delta = delta.unwrap_or_default();
                self.written.add_json(delta);
                if usage.is_none() && error.is_none() && event.name == Some(block) {
                    let mut pieces = Pieces::default();
                    let read = each_field(delta, |key, value| {
                        if !NO_TEXT.contains(&key) {
                            pieces.add(value);
                        }
                    });
                    if read.is_ok() && whole.is_ok() {
                        self.repeat.learn(json, &pieces);
                        self.repeat_name = Some("content_block_delta");
                    }
                }
                return Note::Content;
            }
            Some("message_start") => {
                let _ = each_field(message.unwrap_or_default(), |key, value| {
                    if key == r#""usage""# {
                        self.tally.take_anthropic(value);
                    }
                });
            }
            Some("message_delta") => {
                self.output_said |= usage.is_some();
                self.tally.take_anthropic(usage.unwrap_or_default());
                let _ = each_field(delta.unwrap_or_default(), |key, value| {
                    self.finished |= key == r#""stop_reason""# && says_something(value);
                });
            }
            Some("message_stop") => self.done = true,
            Some("error") => self.fail(error.and_then(Said::from_error).unwrap_or_default()),
            Some(_) => {}
            None => self.untyped(error),
        }
        Note::Other
    }
}

/// The fields of a chat delta that carry a piece of the answer: OpenAI's, and the reasoning and media fields
/// of vLLM, SGLang, DeepSeek, OpenRouter and Ollama.
const DELTA_CONTENT: [&str; 10] = [
    r#""content""#,
    r#""reasoning_content""#,
    r#""reasoning""#,
    r#""reasoning_details""#,
    r#""thinking""#,
    r#""refusal""#,
    r#""tool_calls""#,
    r#""function_call""#,
    r#""audio""#,
    r#""images""#,
];

/// Those of them that carry the model's thoughts.
const DELTA_THOUGHT: [&str; 4] = [
    r#""reasoning_content""#,
    r#""reasoning""#,
    r#""reasoning_details""#,
    r#""thinking""#,
];

/// Those of them that carry no text.
const DELTA_MEDIA: [&str; 2] = [r#""audio""#, r#""images""#];

/// The id of the response that `body` is or begins with: all of it, or as much as is at hand.
#[must_use]
pub fn body_id(body: &[u8]) -> Option<String> {
    let valid = match std::str::from_utf8(body) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&body[..error.valid_up_to()]).unwrap_or_default(),
    };
    id_in(valid).map(Cow::into_owned)
}

fn id_in(object: &str) -> Option<Cow<'_, str>> {
    let mut id = None;
    // What was read before the text broke off stands.
    let _ = each_field(object, |key, value| {
        if key == r#""id""# {
            id = text(value);
        }
    });
    id.filter(|id| !id.is_empty())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Note {
    Ping,
    Content,
    Other,
}

/// A raw string without escapes.
fn plain(raw: &str) -> Option<&str> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

#[cfg(test)]
mod tests;
