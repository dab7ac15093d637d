//! Secrets: from the file, from the environment, or from a file of their own. Never quoted in a message.

use crate::read::{FromNode, Reader};
use crate::stand_ins::StandIns;
use crate::yaml::{NodeId, Shape};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use secrecy::SecretString;
use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;

/// Largest secret, bytes.
const BYTES_MAX: u64 = 16 << 10;

/// A key or token that must not be empty.
pub(crate) struct Secret(pub(crate) SecretString);

/// A key or token; given but empty (as `${NAME:-}` may be) it counts as none.
pub(crate) struct MaybeSecret(pub(crate) Option<SecretString>);

impl FromNode for Secret {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        let secret = MaybeSecret::from_node(reader, node)?;
        if secret.0.is_none() {
            reader.problem(
                node,
                "the secret is empty",
                "give a value, a variable that is set, or `file:/path/of/a/file`",
            );
        }
        secret.0.map(Self)
    }
}

impl FromNode for MaybeSecret {
    fn from_node(reader: &mut Reader<'_>, node: NodeId) -> Option<Self> {
        if reader.tree.shape(node) != Shape::Text {
            reader.unexpected(node, "text");
            return None;
        }
        let done = reader.hidden(node)??;
        let text = match done.text.strip_prefix("file:") {
            Some(path) => match from_file(reader.directory, path) {
                // Two of them are not compared for somebody who may not know them.
                Ok(_) if reader.stand_ins.is_some() => StandIns::of("file", path),
                Ok(text) => text,
                Err(message) => {
                    reader.problem(
                        node,
                        message,
                        "the file must hold the secret alone; a newline at its end is dropped",
                    );
                    return None;
                }
            },
            None => done.text,
        };
        if text.chars().any(|c| !c.is_ascii_graphic()) {
            reader.problem(
                node,
                "the secret holds a space, a control character or a letter outside ASCII, which a header cannot carry",
                "check for a newline, or quotes inside quotes",
            );
            return None;
        }
        if text.contains("${") && !reader.written(node).contains("$${") {
            reader.warn(
                node,
                "the secret holds `${` literally, so another program was meant to replace a variable in it and did not",
                "set the variable, or the file, to the secret itself",
            );
        }
        let variable = text
            .strip_prefix('$')
            .is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'));
        if variable && !done.any {
            reader.warn(
                node,
                "this looks like a variable but is taken literally",
                "write `${NAME}` with braces, or `$$` for a dollar sign",
            );
        }
        Some(Self((!text.is_empty()).then(|| SecretString::from(text))))
    }
}

fn from_file(directory: Option<&Path>, path: &str) -> Result<String, String> {
    let full = directory.unwrap_or(Path::new("")).join(path);
    let shown = crate::yaml::shorten(path);
    let mut bytes = Vec::new();
    std::fs::File::open(&full)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("the secret's file `{shown}` cannot be read: {}", reason(&error)))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("the secret's file `{shown}` is larger than 16 KiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| format!("the secret's file `{shown}` is not text"))?;
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.is_empty() {
        return Err(format!("the secret's file `{shown}` is empty"));
    }
    Ok(text.to_owned())
}

/// Why a file could not be read, in few words.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    }
}

fn schema() -> Schema {
    json_schema!({"title": "secret", "type": "string", "examples": ["${API_KEY}", "file:/run/secrets/api_key"]})
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema()
    }
}

impl JsonSchema for MaybeSecret {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MaybeSecret".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schema()
    }
}
