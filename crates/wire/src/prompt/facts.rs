//! The fields of a body that matter to a choice, and what they ask of a model.

use crate::fields::{each_field, integer, is_key, says_something, text};

/// What a model must take or be able to do for a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs(u8);

impl Needs {
    /// It reads pictures.
    pub const IMAGE: Self = Self(1);
    /// It listens.
    pub const AUDIO: Self = Self(1 << 1);
    /// It watches films.
    pub const VIDEO: Self = Self(1 << 2);
    /// It reads documents that are no plain text.
    pub const FILE: Self = Self(1 << 3);
    /// It calls tools.
    pub const TOOLS: Self = Self(1 << 4);
    /// Its answer keeps to a JSON schema.
    pub const JSON_SCHEMA: Self = Self(1 << 5);

    /// Both needs.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is needed.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing is needed.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The raw values of a body's top level, the last of each name.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) tools: Option<&'a str>,
    pub(super) functions: Option<&'a str>,
    pub(super) system: Option<&'a str>,
    pub(super) instructions: Option<&'a str>,
    pub(super) messages: Option<&'a str>,
    pub(super) prompt: Option<&'a str>,
    pub(super) input: Option<&'a str>,
    pub(super) salts: [Option<&'a str>; 2],
    /// What is ranked or compared.
    pub(super) compared: [Option<&'a str>; 5],
    max_completion_tokens: Option<&'a str>,
    max_tokens: Option<&'a str>,
    max_output_tokens: Option<&'a str>,
    /// `response_format` of chats, `text` of responses, `output_config` and `output_format` of messages.
    formats: [Option<&'a str>; 4],
    /// vLLM's own: `guided_json`, `structured_outputs`.
    guided_json: Option<&'a str>,
    structured_outputs: Option<&'a str>,
}

impl<'a> Fields<'a> {
    pub(super) fn take(&mut self, key: &'a str, value: &'a str) {
        let Some(key) = text(key) else { return };
        let place = match &*key {
            "tools" => &mut self.tools,
            "functions" => &mut self.functions,
            "system" => &mut self.system,
            "instructions" => &mut self.instructions,
            "messages" => &mut self.messages,
            "prompt" => &mut self.prompt,
            "input" => &mut self.input,
            "query" => &mut self.compared[0],
            "queries" => &mut self.compared[1],
            "documents" => &mut self.compared[2],
            "text_1" => &mut self.compared[3],
            "text_2" => &mut self.compared[4],
            "cache_salt" => &mut self.salts[0],
            "extra_key" => &mut self.salts[1],
            "max_completion_tokens" => &mut self.max_completion_tokens,
            "max_tokens" => &mut self.max_tokens,
            "max_output_tokens" => &mut self.max_output_tokens,
            "response_format" => &mut self.formats[0],
            "text" => &mut self.formats[1],
            "output_config" => &mut self.formats[2],
            "output_format" => &mut self.formats[3],
            "guided_json" => &mut self.guided_json,
            "structured_outputs" => &mut self.structured_outputs,
            _ => return,
        };
        *place = Some(value);
    }

    pub(super) fn max_tokens(&self) -> Option<u64> {
        let limits = [
            self.max_completion_tokens,
            self.max_tokens,
            self.max_output_tokens,
        ];
        limits.into_iter().flatten().find_map(integer)
    }

    /// What is needed whatever the messages hold.
    pub(super) fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        if [self.tools, self.functions]
            .into_iter()
            .flatten()
            .any(says_something)
        {
            needs = needs.and(Needs::TOOLS);
        }
        let guided = self.guided_json.is_some_and(says_something)
            || self.structured_outputs.is_some_and(|raw| has_field(raw, "json"));
        if guided || self.formats.into_iter().flatten().any(is_schema) {
            needs = needs.and(Needs::JSON_SCHEMA);
        }
        needs
    }
}

fn has_field(raw: &str, name: &str) -> bool {
    let mut found = false;
    let _ = each_field(raw, |key, value| {
        found |= is_key(key, name) && says_something(value);
    });
    found
}

/// Whether a format is a JSON schema, or holds a `format` that is.
fn is_schema(raw: &str) -> bool {
    let mut found = false;
    let _ = each_field(raw, |key, value| {
        found |= if is_key(key, "type") {
            text(value).is_some_and(|kind| kind == "json_schema")
        } else {
            is_key(key, "format") && value.starts_with('{') && has_schema_type(value)
        };
    });
    found
}

fn has_schema_type(raw: &str) -> bool {
    let mut found = false;
    let _ = each_field(raw, |key, value| {
        found |= is_key(key, "type") && text(value).is_some_and(|kind| kind == "json_schema");
    });
    found
}
