//! What an upstream's failed answer becomes for the client.

use std::borrow::Cow;

use super::ErrorBody;
use crate::api::Protocol;
use crate::fields::{Malformed, each_field, each_item, text};
use crate::said::{MESSAGE_BYTES_MAX, Said, cut};

/// How much of a page is searched for its title, in bytes.
const PAGE_BYTES_MAX: usize = 16 << 10;

/// The status a client gets for an upstream's. Client errors stay; 500 and whatever makes no sense as an
/// error become 502; 503 and 504 stay; 529 stays for Anthropic clients and is 503 for OpenAI's, which do not
/// know it.
#[must_use]
pub fn client_status(protocol: Protocol, upstream_status: u16) -> u16 {
    match (upstream_status, protocol) {
        (400..=499 | 503 | 504, _) | (529, Protocol::Anthropic) => upstream_status,
        (529, Protocol::OpenAi) => 503,
        _ => 502,
    }
}

/// Whether an upstream's error body can go to the client as it is: JSON by its header and its form, in the
/// client's own protocol, with a type and a message of bounded length that is no page.
#[must_use]
pub fn passes_untouched(protocol: Protocol, status: u16, content_type: Option<&str>, body: &[u8]) -> bool {
    if !(400..600).contains(&status) || !content_type.is_some_and(is_json_type) {
        return false;
    }
    let Ok(json) = std::str::from_utf8(body) else {
        return false;
    };
    let (mut error, mut envelope) = (None, None);
    let parsed = each_field(json, |key, value| match key {
        r#""error""# => error = Some(value),
        r#""type""# => envelope = Some(value),
        _ => {}
    });
    let (mut message, mut kind) = (None, None);
    let inner = each_field(error.unwrap_or_default(), |key, value| match key {
        r#""message""# => message = text(value),
        r#""type""# => kind = text(value),
        _ => {}
    });
    // The two shapes differ by the envelope's `type`.
    let enveloped = (protocol == Protocol::Anthropic) == (envelope == Some(r#""error""#));
    let (Ok(()), Ok(()), Some(message), Some(kind)) = (parsed, inner, message, kind) else {
        return false;
    };
    enveloped
        && !kind.is_empty()
        && !message.trim().is_empty()
        && message.len() <= MESSAGE_BYTES_MAX
        && !is_page(&message)
}

/// Puts what an upstream said into an error of ours: its message, type, code and parameter where it said any,
/// cut to 2 KiB; of a page its title; a plain sentence where it said nothing. The status is the client's, see
/// [`client_status`].
#[must_use]
pub fn upstream_error(protocol: Protocol, status: u16, content_type: Option<&str>, body: &[u8]) -> ErrorBody {
    let body = String::from_utf8_lossy(body);
    let body = body.trim_start_matches('\u{feff}').trim();
    let said = match body.as_bytes().first() {
        None => Said::default(),
        Some(b'<') => Said {
            message: title(body),
            ..Said::default()
        },
        Some(_) if content_type.is_some_and(is_html_type) => Said {
            message: title(body),
            ..Said::default()
        },
        Some(b'{') => from_json(body).unwrap_or_else(|_| Said {
            message: salvage(body, status),
            ..Said::default()
        }),
        // A log line may well begin with a bracket.
        Some(b'[' | b'"') => from_json(body).unwrap_or_else(|_| Said::from_text(body)),
        Some(_) => Said::from_text(body),
    };
    let message = match said.message {
        Some(message) if is_page(&message) => title(&message),
        message => message,
    };
    ErrorBody {
        kind: said.kind.map(Cow::Owned),
        code: said.code.map(Cow::Owned),
        param: said.param,
        ..ErrorBody::new(
            client_status(protocol, status),
            message.unwrap_or_else(|| format!("The upstream answered with status {status} and no message.")),
        )
    }
}

fn from_json(body: &str) -> Result<Said, Malformed> {
    match body.as_bytes()[0] {
        b'"' => match serde_json::from_str::<String>(body) {
            Ok(message) => Ok(Said::from_text(&message)),
            Err(_) => Err(Malformed),
        },
        // Gemini wraps its error in a list.
        b'[' => {
            let mut first = None;
            each_item(body, |item| first = first.or(Some(item)))?;
            match first {
                Some(item) if item.starts_with('{') => from_json(item),
                _ => Ok(Said::default()),
            }
        }
        _ => Ok(match Said::from_answer(body)? {
            (Some(said), _) => said,
            (None, _) => Said::from_object(body),
        }),
    }
}

/// Of a JSON body that was cut or is broken, the message if it is whole.
fn salvage(body: &str, status: u16) -> Option<String> {
    let message = body.split_once(r#""message""#).and_then(|(_, after)| {
        let after = after.trim_start().strip_prefix(':')?;
        serde_json::Deserializer::from_str(after)
            .into_iter::<String>()
            .next()?
            .ok()
    });
    Some(match message.map(|message| cut(message.trim())) {
        Some(message) if !message.is_empty() => message,
        _ => format!("The upstream answered with status {status} and broken JSON."),
    })
}

fn is_json_type(content_type: &str) -> bool {
    let essence = content_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}

fn is_html_type(content_type: &str) -> bool {
    content_type.to_ascii_lowercase().contains("html")
}

/// Whether a text is, or quotes, a page of HTML; a message may well name a single tag.
fn is_page(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["<!doctype", "<html", "<head", "<body", "</title", "</h1", "</p>"]
        .iter()
        .any(|tag| text.contains(tag))
}

/// The title of a page, as a sentence. A page without one says nothing fit to pass on.
fn title(page: &str) -> Option<String> {
    let page = &page[..page.floor_char_boundary(PAGE_BYTES_MAX)];
    let lower = page.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let words: Vec<_> = page[start..end]
        .replace("&amp;", "&")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace(['<', '>'], " ")
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    (!words.is_empty()).then(|| {
        cut(&format!(
            "The upstream answered with a page titled \"{}\".",
            words.join(" ")
        ))
    })
}
