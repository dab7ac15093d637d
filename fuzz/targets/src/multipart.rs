//! Forms as RFC 7578 and RFC 2046 write them, read from the whole body at once, and as strictly as the product says it does.

use std::ops::Range;

/// Most parts, and the most bytes of a head, of a model and of `stream`.
pub(crate) const PARTS_MAX: usize = 1000;
const HEAD_MAX: usize = 8 * 1024 + 1;
pub(crate) const MODEL_MAX: usize = 1024;
const STREAM_MAX: usize = 16;

/// Why a form is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Boundary,
    Head,
    Parts,
    Twice,
    Model,
    Unclosed,
}

/// A part: its name, and where its head and its content stand.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) head: Range<usize>,
    pub(crate) content: Range<usize>,
}

/// A form that is whole.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) parts: Vec<Part>,
    /// Where the dashes of the first boundary stand.
    pub(crate) first: usize,
    /// Place of the model's name, and whether the last `stream` is true.
    pub(crate) model: Option<Range<usize>>,
    pub(crate) stream: bool,
}

fn find(text: &[u8], what: &[u8], from: usize) -> Option<usize> {
    text[from..]
        .windows(what.len())
        .position(|window| window == what)
        .map(|at| from + at)
}

/// Reads a form. The body is read with a line's end before it, so that every boundary has one.
pub(crate) fn parse(body: &[u8], boundary: &str) -> Result<Form, Fault> {
    let text = [b"\r\n", body].concat();
    let delimiter = format!("\r\n--{boundary}").into_bytes();
    let mut at = find(&text, &delimiter, 0).ok_or(Fault::Unclosed)?;
    let mut form = Form {
        parts: Vec::new(),
        first: at,
        model: None,
        stream: false,
    };
    while let Some(head) = after_boundary(&text, at + delimiter.len())? {
        if form.parts.len() == PARTS_MAX {
            return Err(Fault::Parts);
        }
        let content = head_end(&text, head)?;
        let name = name_of(&text[head..content])?;
        if name == "model" && form.model.is_some() {
            return Err(Fault::Twice);
        }
        let end = find(&text, &delimiter, content - 2);
        if end == Some(content - 2) {
            return Err(Fault::Boundary);
        }
        let reached = end.unwrap_or_else(|| text.len() - begun(&text, &delimiter));
        let value = &text[content..reached.max(content)];
        if name == "model" && value.len() > MODEL_MAX {
            return Err(Fault::Model);
        }
        at = end.ok_or(Fault::Unclosed)?;
        let place = content - 2..at - 2;
        match name.as_str() {
            "model" => {
                let said = std::str::from_utf8(value).map_err(|_| Fault::Model)?;
                if said.trim().is_empty() {
                    return Err(Fault::Model);
                }
                form.model = Some(place.clone());
            }
            "stream" => {
                form.stream = value.len() <= STREAM_MAX
                    && value.to_ascii_lowercase().trim_ascii() == b"true".as_slice();
            }
            _ => {}
        }
        form.parts.push(Part {
            name,
            head: head - 2..content - 2,
            content: place,
        });
    }
    Ok(form)
}

/// How much of a delimiter the text ends with.
fn begun(text: &[u8], delimiter: &[u8]) -> usize {
    let begins = |len: &usize| text.ends_with(&delimiter[..*len]);
    (1..delimiter.len()).rev().find(begins).unwrap_or(0)
}

/// Where the head behind a boundary begins; none behind the closing one.
fn after_boundary(text: &[u8], at: usize) -> Result<Option<usize>, Fault> {
    let rest = &text[at..];
    if rest.starts_with(b"--") {
        return Ok(None);
    }
    let padding = rest.iter().take_while(|byte| b" \t".contains(byte)).count();
    match &rest[padding..] {
        [b'\r', b'\n', ..] => Ok(Some(at + padding + 2)),
        [] | [b'\r'] => Err(Fault::Unclosed),
        [b'-'] if padding == 0 => Err(Fault::Unclosed),
        _ => Err(Fault::Boundary),
    }
}

/// Where the content begins.
fn head_end(text: &[u8], head: usize) -> Result<usize, Fault> {
    let end = if text[head..].starts_with(b"\r\n") {
        Some(head + 2)
    } else {
        find(text, b"\r\n\r\n", head).map(|at| at + 4)
    };
    match end {
        Some(end) if end - head <= HEAD_MAX => Ok(end),
        None if text.len() - head < HEAD_MAX => Err(Fault::Unclosed),
        _ => Err(Fault::Head),
    }
}

fn is_token(text: &str) -> bool {
    let separators = "()<>@,;:\\\"/[]?={} \t";
    !text.is_empty()
        && text
            .chars()
            .all(|char| char.is_ascii_graphic() && !separators.contains(char))
}

fn name_of(head: &[u8]) -> Result<String, Fault> {
    let head = std::str::from_utf8(head).map_err(|_| Fault::Head)?;
    let mut dispositions = Vec::new();
    let mut encoded = false;
    for line in head.split_terminator("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(Fault::Head)?;
        if !is_token(name) || name.starts_with("--") || line.contains(['\r', '\n', '\0']) {
            return Err(Fault::Head);
        }
        match name.to_ascii_lowercase().as_str() {
            "content-disposition" => dispositions.push(value),
            "content-transfer-encoding" => {
                let value = value.trim().to_ascii_lowercase();
                encoded |= !matches!(value.as_str(), "7bit" | "8bit" | "binary");
            }
            _ => {}
        }
    }
    let [disposition] = dispositions[..] else {
        return Err(Fault::Head);
    };
    let rest = disposition.find(';').map_or("", |at| &disposition[at..]);
    let parameters = parameters(rest).ok_or(Fault::Head)?;
    let keyed = |is: fn(&str) -> bool| parameters.iter().filter(move |(key, _)| is(key));
    let names: Vec<_> = keyed(|key| key == "name").collect();
    let [(_, name)] = names[..] else {
        return Err(Fault::Head);
    };
    if keyed(|key| key.starts_with("name*")).next().is_some() {
        return Err(Fault::Head);
    }
    let is_file = keyed(|key| key == "filename" || key == "filename*")
        .next()
        .is_some();
    if name == "model" && (is_file || encoded) {
        return Err(Fault::Model);
    }
    Ok(name.clone())
}

/// The parameters of a header, keys in lower case. None where they cannot be read.
pub(crate) fn parameters(text: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    for piece in pieces(text)? {
        let piece = piece.trim_matches([' ', '\t']);
        if piece.is_empty() {
            continue;
        }
        let (key, value) = piece.split_once('=')?;
        let key = key.trim_end_matches([' ', '\t']);
        if !is_token(key) {
            return None;
        }
        let value = value.trim_start_matches([' ', '\t']);
        let value = match value.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => value.to_owned(),
        };
        found.push((key.to_ascii_lowercase(), value));
    }
    Some(found)
}

/// The text cut at semicolons, except those in quotes that begin a value. None where a quote stays open.
fn pieces(text: &str) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    let mut chars = text.chars();
    let mut value_begins = false;
    let mut key = true;
    while let Some(char) = chars.next() {
        if char == ';' {
            all.push(String::new());
            (value_begins, key) = (false, true);
            continue;
        }
        all.last_mut()?.push(char);
        match char {
            '=' if key => (value_begins, key) = (true, false),
            '"' if value_begins => {
                value_begins = false;
                let mut escaping = false;
                loop {
                    let next = chars.next()?;
                    all.last_mut()?.push(next);
                    match next {
                        '"' if !escaping => break,
                        '\\' => escaping = !escaping,
                        _ => escaping = false,
                    }
                }
            }
            ' ' | '\t' => {}
            _ => value_begins = false,
        }
    }
    Some(all)
}

/// What stands before the closing quote, which must be the last character.
fn unquote(quoted: &str) -> Option<String> {
    let mut value = String::new();
    let mut rest = quoted;
    loop {
        if let Some(next) = rest.strip_prefix("\\\"") {
            value.push('"');
            rest = next;
        } else if let Some(next) = rest.strip_prefix("\\\\") {
            value.push('\\');
            rest = next;
        } else if let Some(next) = rest.strip_prefix('"') {
            return next.is_empty().then_some(value);
        } else {
            let char = rest.chars().next()?;
            value.push(char);
            rest = &rest[char.len_utf8()..];
        }
    }
}
