//! Chat templates: Jinja, as Hugging Face's libraries and the engines after them render it.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;

/// The name of the template in its environment.
const NAME: &str = "chat";
/// Keys of a request that change what is rendered in ways that are not followed.
const OTHERS: [&str; 4] = [
    "chat_template",
    "continue_final_message",
    "documents",
    "mm_processor_kwargs",
];

/// A chat template.
pub(super) struct Template {
    environment: Environment<'static>,
    /// Texts of the tokens that templates name: `bos_token` and others.
    tokens: Vec<(String, String)>,
    /// Whether it looks into the parts of a message itself; else their texts are joined.
    takes_parts: bool,
}

impl Template {
    /// Loads a template, or the `tokenizer_config.json` that holds one; the texts of tokens come from there, or from the
    /// one at `beside`.
    ///
    /// # Errors
    /// What is wrong, for a person.
    pub(super) fn load(path: &Path, beside: &Path) -> Result<Self, String> {
        let wrong = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        if path.extension().is_some_and(|extension| extension == "json") {
            let config: Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
            let source = default_template(&config).ok_or_else(|| wrong(&"it holds no `chat_template`"))?;
            return Self::new(&source, &config).map_err(|error| wrong(&error));
        }
        let config = std::fs::read_to_string(beside)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok());
        Self::new(&text, &config.unwrap_or_default()).map_err(|error| wrong(&error))
    }

    pub(super) fn new(source: &str, config: &Value) -> Result<Self, Error> {
        let mut environment = Environment::new();
        environment.set_syntax(
            SyntaxConfig::builder()
                .trim_blocks(true)
                .lstrip_blocks(true)
                .build()?,
        );
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", |value: Value, options: Kwargs| {
            let indent = options.get::<Option<usize>>("indent")?;
            let _ = options.get::<Option<Value>>("ensure_ascii");
            let mut out = String::new();
            python_json(&value, (indent, 0), &mut out)?;
            Ok::<_, Error>(Value::from_safe_string(out))
        });
        environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", |format: String| {
            jiff::fmt::strtime::format(&format, jiff::Timestamp::now())
                .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
        });
        environment.add_template_owned(NAME, source.to_owned())?;
        let takes_parts = source.split("{%").any(|block| {
            block.trim_start_matches(['-', '+', ' ']).starts_with("for ")
                && block
                    .split("%}")
                    .next()
                    .is_some_and(|head| head.contains("content"))
        });
        Ok(Self {
            environment,
            tokens: token_texts(config),
            takes_parts,
        })
    }

    /// What the engine would be given for this body; none: it asks for something that is not followed, or the template
    /// refuses it.
    pub(super) fn render(&self, body: &[u8]) -> Option<String> {
        let body: Body = serde_json::from_slice(body).ok()?;
        if OTHERS
            .iter()
            .any(|key| body.others.get_attr(key).is_ok_and(|value| is_given(&value)))
        {
            return None;
        }
        let messages = (body.messages.try_iter().ok()?)
            .map(|message| self.message(&message))
            .collect::<Option<Vec<Value>>>()?;
        let fixed = context! {
            messages => messages,
            tools => if is_given(&body.tools) { body.tools } else { Value::from(()) },
            add_generation_prompt => body.add_generation_prompt.unwrap_or(true),
        };
        let tokens = self
            .tokens
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()));
        let tokens = Value::from_pairs(tokens);
        let more = if is_given(&body.chat_template_kwargs) {
            body.chat_template_kwargs
        } else {
            Value::default()
        };
        let all = if more.kind() == ValueKind::Map {
            context! { ..more, ..context! { ..fixed, ..tokens } }
        } else {
            context! { ..fixed, ..tokens }
        };
        self.environment.get_template(NAME).ok()?.render(all).ok()
    }

    /// A message as templates expect it: content as text where they do not look into parts, arguments of calls as values.
    fn message(&self, message: &Value) -> Option<Value> {
        let mut fields = Vec::new();
        for key in message.try_iter().ok()? {
            let value = message.get_item(&key).ok()?;
            let value = match key.as_str()? {
                "content" if value.kind() == ValueKind::Seq => self.content(&value)?,
                "tool_calls" if value.kind() == ValueKind::Seq => calls(&value)?,
                _ => value,
            };
            fields.push((key, value));
        }
        Some(Value::from_pairs(fields))
    }

    fn content(&self, parts: &Value) -> Option<Value> {
        let mut texts = Vec::new();
        for part in parts.try_iter().ok()? {
            let kind = part.get_attr("type").ok()?;
            // What an image becomes is known to its engine alone.
            if !matches!(kind.as_str()?, "text" | "input_text" | "output_text") {
                return None;
            }
            texts.push(part.get_attr("text").ok()?.as_str()?.to_owned());
        }
        if self.takes_parts {
            let part = |text: String| context! { type => "text", text => text };
            return Some(texts.into_iter().map(part).collect());
        }
        Some(Value::from(texts.join("\n")))
    }
}

#[derive(Deserialize)]
struct Body {
    messages: Value,
    #[serde(default)]
    tools: Value,
    add_generation_prompt: Option<bool>,
    #[serde(default)]
    chat_template_kwargs: Value,
    #[serde(flatten)]
    others: Value,
}

fn is_given(value: &Value) -> bool {
    !value.is_undefined() && !value.is_none()
}

/// Engines hand the arguments of calls to the template as values, not as the text that they are in a request.
fn calls(calls: &Value) -> Option<Value> {
    let call = |call: Value| -> Option<Value> {
        let function = call.get_attr("function").ok()?;
        let arguments = function.get_attr("arguments").ok()?;
        let Some(read) = arguments
            .as_str()
            .and_then(|text| serde_json::from_str::<Value>(text).ok())
        else {
            return Some(call);
        };
        Some(with(&call, "function", with(&function, "arguments", read)?)?)
    };
    calls
        .try_iter()
        .ok()?
        .map(call)
        .collect::<Option<Vec<Value>>>()
        .map(Value::from)
}

/// The map with another value under `key`, in its place.
fn with(map: &Value, key: &str, value: Value) -> Option<Value> {
    let mut fields = Vec::new();
    for name in map.try_iter().ok()? {
        let there = map.get_item(&name).ok()?;
        let there = if name.as_str() == Some(key) {
            value.clone()
        } else {
            there
        };
        fields.push((name, there));
    }
    Some(Value::from_pairs(fields))
}

fn default_template(config: &Value) -> Option<String> {
    let given = config.get_attr("chat_template").ok()?;
    if let Some(text) = given.as_str() {
        return Some(text.to_owned());
    }
    // Several, by name.
    let mut all = given.try_iter().ok()?;
    let default = all.find(|entry| {
        entry
            .get_attr("name")
            .is_ok_and(|name| name.as_str() == Some("default"))
    })?;
    default.get_attr("template").ok()?.as_str().map(str::to_owned)
}

/// Texts of `bos_token` and its kind, each written as text or as a map with `content`.
fn token_texts(config: &Value) -> Vec<(String, String)> {
    let text = |name: &str| {
        let value = config.get_attr(name).ok()?;
        let text = value.as_str().map(str::to_owned).or_else(|| {
            value
                .get_attr("content")
                .ok()
                .and_then(|content| content.as_str().map(str::to_owned))
        })?;
        Some((name.to_owned(), text))
    };
    ["bos_token", "eos_token", "pad_token", "unk_token"]
        .into_iter()
        .filter_map(text)
        .collect()
}

/// JSON as Python's `json.dumps(…, ensure_ascii=False)` writes it, which is what `tojson` means in chat templates.
fn python_json(
    value: &Value,
    (indent, depth): (Option<usize>, usize),
    out: &mut String,
) -> Result<(), Error> {
    let line = |depth: usize, out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match value.kind() {
        ValueKind::Map | ValueKind::Seq | ValueKind::Iterable => {
            let map = value.kind() == ValueKind::Map;
            let mut first = true;
            out.push(if map { '{' } else { '[' });
            for item in value.try_iter()? {
                if !first {
                    out.push_str(comma);
                }
                first = false;
                line(depth + 1, out);
                if map {
                    quoted(&item.to_string(), out);
                    out.push_str(": ");
                    python_json(&value.get_item(&item)?, (indent, depth + 1), out)?;
                } else {
                    python_json(&item, (indent, depth + 1), out)?;
                }
            }
            if !first {
                line(depth, out);
            }
            out.push(if map { '}' } else { ']' });
        }
        ValueKind::None | ValueKind::Undefined => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => {
            let _ = write!(out, "{value}");
        }
        _ => quoted(&value.to_string(), out),
    }
    Ok(())
}

fn quoted(text: &str, out: &mut String) {
    match serde_json::to_string(text) {
        Ok(quoted) => out.push_str(&quoted),
        // Writing text to memory does not fail.
        Err(_) => out.push_str("\"\""),
    }
}
