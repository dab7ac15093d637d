//! What is wrong with a body, and where, for the person who sent it.

/// A body the gateway cannot take. Its text says what is wrong, where and how to mend it, and quotes nothing
/// of the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeekError {
    /// What is wrong.
    pub kind: PeekErrorKind,
    /// Line of the place, from 1.
    pub line: usize,
    /// Column of the place in bytes, from 1; 0 where the line before has just ended.
    pub column: usize,
}

/// What is wrong with a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeekErrorKind {
    /// No bytes but white space.
    Empty,
    /// Bytes that are not UTF-8.
    NotUtf8,
    /// Not JSON; what the reader says of it.
    Syntax(String),
    /// The top level is no object.
    NotAnObject,
    /// Two `model` keys.
    DuplicateModel,
    /// `model` is no string.
    ModelNotAString,
    /// `stream` is neither true, false nor null.
    StreamNotABoolean,
}

pub(super) struct Position {
    line: usize,
    column: usize,
}

impl Position {
    pub(super) fn of(body: &[u8], offset: usize) -> Self {
        let before = &body[..offset];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        Self {
            line: 1 + memchr::memchr_iter(b'\n', before).count(),
            column: offset - line_start + 1,
        }
    }
}

impl PeekError {
    pub(super) fn new(kind: PeekErrorKind, at: Position) -> Self {
        Self {
            kind,
            line: at.line,
            column: at.column,
        }
    }

    pub(super) fn syntax(error: &serde_json::Error) -> Self {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let said = error.to_string();
        let kind = PeekErrorKind::Syntax(said.strip_suffix(&place).unwrap_or(&said).to_owned());
        Self {
            kind,
            line: error.line(),
            column: error.column(),
        }
    }

    /// The name of the field at fault, where it is one.
    #[must_use]
    pub fn param(&self) -> Option<&'static str> {
        match self.kind {
            PeekErrorKind::DuplicateModel | PeekErrorKind::ModelNotAString => Some("model"),
            PeekErrorKind::StreamNotABoolean => Some("stream"),
            _ => None,
        }
    }
}

impl std::fmt::Display for PeekError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            PeekErrorKind::Empty => return f.write_str("the body is empty: send a JSON object"),
            PeekErrorKind::NotUtf8 => f.write_str("the body is not UTF-8: send JSON encoded as UTF-8")?,
            PeekErrorKind::Syntax(what) => write!(f, "the body is not valid JSON: {what}")?,
            PeekErrorKind::NotAnObject => f.write_str("the body must be a JSON object")?,
            PeekErrorKind::DuplicateModel => f.write_str("the body has two \"model\" keys: send one")?,
            PeekErrorKind::ModelNotAString => f.write_str("\"model\" must be a string")?,
            PeekErrorKind::StreamNotABoolean => f.write_str("\"stream\" must be true or false")?,
        }
        write!(f, " (line {}, column {})", self.line, self.column)
    }
}

impl std::error::Error for PeekError {}
