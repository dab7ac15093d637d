//! Writing into a body what differs upstream; every other byte stays as it is, so numbers keep their digits and unknown
//! fields their place.

use super::Peek;
use bytes::Bytes;
use std::ops::Range;

/// `body` with `new` as its model. A body without a model gets one as its first field. `peek` must come from the same
/// body.
#[must_use]
pub fn rewrite_model(body: &Bytes, peek: &Peek, new: &str) -> Bytes {
    rewrite(body, peek, (new, false))
}

/// `body` with `model` as its model, as [`rewrite_model`] does, and where wanted with
/// `stream_options.include_usage` true, if [`Peek::can_ask_for_usage`]. `peek` must come from the same body.
#[must_use]
pub fn rewrite(body: &Bytes, peek: &Peek, (model, ask_for_usage): (&str, bool)) -> Bytes {
    let name = (peek.model.as_deref() != Some(model)).then(|| model_splice(peek, model));
    let name = name.as_ref().map(|(range, text)| (range.clone(), &**text));
    let usage = peek.usage_splice.clone().filter(|_| ask_for_usage);
    match (name, usage) {
        (None, None) => body.clone(),
        (Some(one), None) | (None, Some(one)) => spliced(body, &[one]),
        // Both may stand at the head, where the order does not matter; else the earlier comes first.
        (Some(name), Some(usage)) if name.0.start <= usage.0.start => spliced(body, &[name, usage]),
        (Some(name), Some(usage)) => spliced(body, &[usage, name]),
    }
}

fn model_splice(peek: &Peek, new: &str) -> (Range<usize>, String) {
    let name = serde_json::Value::from(new).to_string();
    match &peek.model_token {
        Some(token) => (token.clone(), name),
        None => (
            peek.head..peek.head,
            format!(r#""model":{name}{}"#, if peek.has_fields { "," } else { "" }),
        ),
    }
}

/// `body` with each range, in order, replaced by its text.
fn spliced(body: &Bytes, splices: &[(Range<usize>, &str)]) -> Bytes {
    let grows: usize = splices.iter().map(|(_, text)| text.len()).sum();
    let shrinks: usize = splices.iter().map(|(range, _)| range.len()).sum();
    // Exact, since spare room costs `Bytes` an allocation of its own.
    let mut out = Vec::with_capacity(body.len() + grows - shrinks);
    let mut from = 0;
    for (range, text) in splices {
        out.extend_from_slice(&body[from..range.start]);
        out.extend_from_slice(text.as_bytes());
        from = range.end;
    }
    out.extend_from_slice(&body[from..]);
    Bytes::from(out)
}
