//! Dotted paths into a JSON body.

/// Longer paths are refused: every level of a path costs another look at the object it leads through.
const KEYS_MAX: usize = 8;

/// Where in a JSON body a value stands: keys of nested objects, written `metadata.user_id`. Nothing in an
/// array is reachable, and no key with a dot in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BodyPath {
    first: String,
    rest: Vec<String>,
}

impl BodyPath {
    /// Reads the dotted form.
    ///
    /// # Errors
    /// [`BodyPathError`] where a key is empty, or for more than 8 keys.
    pub fn parse(dotted: &str) -> Result<Self, BodyPathError> {
        let mut keys = dotted.split('.').map(str::to_owned);
        let first = keys.next().unwrap_or_default();
        let rest: Vec<String> = keys.collect();
        if first.is_empty() || rest.iter().any(String::is_empty) {
            return Err(BodyPathError::EmptyKey(dotted.to_owned()));
        }
        if rest.len() >= KEYS_MAX {
            return Err(BodyPathError::TooDeep(dotted.to_owned()));
        }
        Ok(Self { first, rest })
    }

    pub(super) fn first(&self) -> &str {
        &self.first
    }

    pub(super) fn rest(&self) -> &[String] {
        &self.rest
    }
}

impl std::fmt::Display for BodyPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.first)?;
        self.rest.iter().try_for_each(|key| write!(f, ".{key}"))
    }
}

/// Why a text is no path into a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyPathError {
    /// Empty, or a dot at either end, or two in a row.
    EmptyKey(String),
    /// More than 8 keys.
    TooDeep(String),
}

impl std::fmt::Display for BodyPathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::EmptyKey(path) => {
                write!(
                    f,
                    "{path:?} is no body path: write keys joined by single dots, as in metadata.user_id"
                )
            }
            Self::TooDeep(path) => write!(f, "the body path {path:?} is too deep: at most {KEYS_MAX} keys"),
        }
    }
}

impl std::error::Error for BodyPathError {}
