//! The heads of a form's parts, and of the form itself: only what tells whose part it is.

use super::FormError;

/// Longest boundary, characters. RFC 2046 allows 70.
const BOUNDARY_MAX: usize = 256;

/// Whose part it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Model,
    Stream,
    Other,
}

/// The boundary that a content type names. None where it is not that of a form.
///
/// # Errors
/// [`FormError::NoBoundary`] for a form without one that can be used, [`FormError::TwoBoundaries`] for one with several.
pub fn boundary(content_type: &[u8]) -> Result<Option<String>, FormError> {
    let Ok(text) = std::str::from_utf8(content_type) else {
        return Ok(None);
    };
    let (kind, rest) = text.split_once(';').unwrap_or((text, ""));
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Ok(None);
    }
    let found = parameters(rest)
        .map_err(|_| FormError::NoBoundary)?
        .into_iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("boundary"));
    let mut found = found.map(|(_, value)| value);
    let usable = |text: &String| {
        !text.is_empty()
            && text.len() <= BOUNDARY_MAX
            && !text.ends_with(' ')
            && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    };
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(FormError::TwoBoundaries),
        (boundary, None) => boundary.filter(usable).map(Some).ok_or(FormError::NoBoundary),
    }
}

/// Whose part the head is of; `head` ends with its empty line.
pub(super) fn part_name(head: &[u8]) -> Result<Name, FormError> {
    let text = std::str::from_utf8(head).map_err(|_| FormError::BadHead("is not UTF-8"))?;
    let mut disposition = None;
    let mut coded = false;
    for line in text.split("\r\n").filter(|line| !line.is_empty()) {
        let line_is_plain = !line.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0));
        let (name, value) = (line.split_once(':'))
            .filter(|(name, _)| line_is_plain && is_token(name) && !name.starts_with("--"))
            .ok_or(FormError::BadHead("has a line that is no header"))?;
        if name.eq_ignore_ascii_case("content-disposition") {
            if disposition.replace(value).is_some() {
                return Err(FormError::BadHead("has two content-dispositions"));
            }
        } else if name.eq_ignore_ascii_case("content-transfer-encoding") {
            let value = value.trim();
            coded |= !["7bit", "8bit", "binary"]
                .iter()
                .any(|plain| value.eq_ignore_ascii_case(plain));
        }
    }
    let value = disposition.ok_or(FormError::BadHead("has no content-disposition"))?;
    let (name, is_file) = name_of(value)?;
    let name = match name.as_str() {
        "model" => Name::Model,
        "stream" => Name::Stream,
        _ => Name::Other,
    };
    match name {
        Name::Model if is_file => Err(FormError::BadModel("is a file: send it as a plain field")),
        Name::Model if coded => Err(FormError::BadModel("is encoded: send it as plain text")),
        name => Ok(name),
    }
}

/// The name of a part, and whether it has that of a file.
fn name_of(disposition: &str) -> Result<(String, bool), FormError> {
    let (_, rest) = disposition.split_once(';').unwrap_or((disposition, ""));
    let mut name = None;
    let mut is_file = false;
    for (key, value) in parameters(rest)? {
        if key.eq_ignore_ascii_case("name") {
            if name.replace(value).is_some() {
                return Err(FormError::BadHead("gives two names"));
            }
        } else if key.len() > 4
            && key.is_char_boundary(4)
            && key[..5.min(key.len())].eq_ignore_ascii_case("name*")
        {
            // Forbidden in forms (RFC 7578, section 4.2), and a second name for readers that know it.
            return Err(FormError::BadHead(
                "gives its name in an extended form, which forms must not",
            ));
        } else if key.eq_ignore_ascii_case("filename") || key.eq_ignore_ascii_case("filename*") {
            is_file = true;
        }
    }
    let name = name.ok_or(FormError::BadHead("gives no name"))?;
    Ok((name, is_file))
}

/// The parameters of a header's value, each after a semicolon. Quotes are undone.
fn parameters(mut text: &str) -> Result<Vec<(&str, String)>, FormError> {
    const BROKEN: FormError = FormError::BadHead("has parameters that cannot be read");
    let mut found = Vec::new();
    loop {
        text = text.trim_start_matches([' ', '\t', ';']);
        if text.is_empty() {
            return Ok(found);
        }
        let (name, rest) = text.split_once('=').ok_or(BROKEN)?;
        let name = name.trim_matches([' ', '\t']);
        if !is_token(name) {
            return Err(BROKEN);
        }
        let rest = rest.trim_start_matches([' ', '\t']);
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted).ok_or(BROKEN)?,
            None => {
                let end = rest.find(';').unwrap_or(rest.len());
                (rest[..end].trim_matches([' ', '\t']).to_owned(), &rest[end..])
            }
        };
        let rest = rest.trim_start_matches([' ', '\t']);
        if !(rest.is_empty() || rest.starts_with(';')) {
            return Err(BROKEN);
        }
        found.push((name, value));
        text = rest;
    }
}

/// What stands up to the closing quote, and what follows it. A backslash stands for itself unless a quote or another
/// backslash follows: file names of Windows are written so.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = quoted.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => match chars.next_if(|(_, next)| matches!(next, '"' | '\\')) {
                Some((_, escaped)) => value.push(escaped),
                None => value.push('\\'),
            },
            other => value.push(other),
        }
    }
    None
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
