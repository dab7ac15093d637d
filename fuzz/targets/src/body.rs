//! Bodies of requests and errors: what is looked up in them without a tree is what a tree says, and what is written into
//! them changes nothing else.

use crate::input::Input;
use crate::json::{self, Kind, Node};
use bytes::Bytes;
use weighbridge_wire::peek::PeekErrorKind;
use weighbridge_wire::prompt::{Cut, Prompt};
use weighbridge_wire::{
    Api, BodyPath, ErrorBody, Peek, PeekError, Protocol, client_status, estimated_usage, passes_untouched,
    rewrite, rewrite_model, upstream_error,
};

/// Of success too: an upstream may give one to what is read as an error.
const STATUSES: [u16; 11] = [400, 500, 529, 503, 200, 401, 429, 504, 302, 599, 999];

const PATHS: [&str; 5] = ["user", "metadata.user_id", "a.b.c", "model", "stream_options.x"];

/// Whether usage is asked for, a model to write, a path to look up, how the prompt is cut, and the body.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    let flags = input.byte();
    let len = input.below(24);
    let model = String::from_utf8_lossy(input.take(len)).into_owned();
    let len = input.below(24);
    let path = String::from_utf8_lossy(input.take(len)).into_owned();
    let cut = Cut {
        seed: u64::from(input.byte()),
        block_bytes: usize::from(input.byte()),
    };
    let body = Bytes::copy_from_slice(input.0);
    check_peek(&body, &path, (&model, flags & 1 == 1));
    check_prompt(&body, cut);
    check_estimate(&body);
    check_error(&body, STATUSES[usize::from(flags >> 1) % STATUSES.len()]);
}

fn check_peek(body: &Bytes, path: &str, (model, ask): (&str, bool)) {
    let mut paths: Vec<_> = PATHS.iter().map(|path| BodyPath::parse(path).unwrap()).collect();
    match BodyPath::parse(path) {
        Ok(path) => paths.push(path),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let peek = Peek::new(body, &paths);
    if let Err(error) = &peek {
        check_told(body, error);
    }
    let tree = std::str::from_utf8(body)
        .map_err(|_| json::Fault::Invalid)
        .and_then(json::parse);
    let tree = match tree {
        Ok(tree) => tree,
        Err(json::Fault::Invalid) => {
            assert!(peek.is_err(), "took what is no JSON");
            return;
        }
        Err(json::Fault::TooDeep) => {
            if let Ok(peek) = &peek {
                let _ = rewrite(body, peek, (model, ask));
            }
            return;
        }
    };
    let fault = fault(&tree);
    match peek {
        Err(error) => assert_eq!(Some(error.kind), fault),
        Ok(peek) => {
            assert_eq!(fault, None);
            check_found(body, (&tree, &peek), &paths);
            check_rewritten(body, (&tree, &peek), (model, ask));
        }
    }
}

/// What is wrong with a body that is JSON.
fn fault(tree: &Node<'_>) -> Option<PeekErrorKind> {
    if !matches!(tree.kind, Kind::Object(_)) {
        return Some(PeekErrorKind::NotAnObject);
    }
    if tree.count("model") > 1 {
        return Some(PeekErrorKind::DuplicateModel);
    }
    if tree.last("model").is_some_and(|model| model.text().is_none()) {
        return Some(PeekErrorKind::ModelNotAString);
    }
    let stream = tree.last("stream").map(|stream| &stream.kind);
    if !matches!(stream, None | Some(Kind::Null | Kind::Bool(_))) {
        return Some(PeekErrorKind::StreamNotABoolean);
    }
    None
}

/// The text of an error has a place in the body and holds nothing of it.
fn check_told(body: &[u8], error: &PeekError) {
    let lines = body.iter().filter(|byte| **byte == b'\n').count() + 1;
    assert!((1..=lines).contains(&error.line) && error.column <= body.len() + 1);
    for protocol in [Protocol::OpenAi, Protocol::Anthropic] {
        let told = ErrorBody::bad_json(error).render(protocol);
        let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
        let message = told["error"]["message"].as_str().unwrap();
        assert!(message.len() < 300, "{message}");
    }
}

fn string_at(tree: &Node<'_>, path: &str) -> Option<String> {
    let found = path.split('.').try_fold(tree, |node, key| node.last(key))?;
    let text = found.text()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

fn check_found(body: &[u8], (tree, peek): (&Node<'_>, &Peek), paths: &[BodyPath]) {
    assert_eq!(
        peek.model.as_deref(),
        tree.last("model").and_then(|model| model.text())
    );
    let place = tree.last("model").map(|model| {
        let start = model.raw.as_ptr().addr() - body.as_ptr().addr();
        start..start + model.raw.len()
    });
    assert_eq!(peek.model_token(), place);
    let truth = |node: Option<&Node<'_>>| match node.map(|node| &node.kind) {
        Some(Kind::Bool(value)) => Some(*value),
        _ => None,
    };
    assert_eq!(peek.stream, truth(tree.last("stream")) == Some(true));
    let options = tree.last("stream_options");
    assert_eq!(
        peek.include_usage,
        truth(options.and_then(|options| options.last("include_usage")))
    );
    let limit = |name: &str| tree.last(name).and_then(|node| node.raw.parse::<u64>().ok());
    let limits = ["max_completion_tokens", "max_tokens", "max_output_tokens"];
    assert_eq!(peek.max_tokens, limits.into_iter().find_map(limit));
    assert_eq!(peek.found.len(), paths.len());
    for (found, path) in peek.found.iter().zip(paths) {
        assert_eq!(*found, string_at(tree, &path.to_string()), "{path}");
    }
}

fn check_rewritten(body: &Bytes, (tree, peek): (&Node<'_>, &Peek), (model, ask): (&str, bool)) {
    let same = peek.model.clone().unwrap_or_default();
    if peek.model.is_some() {
        assert_eq!(rewrite_model(body, peek, &same), body);
    }
    let rewritten = rewrite(body, peek, (model, ask));
    let text = std::str::from_utf8(&rewritten).unwrap();
    let new = json::parse(text).expect("what was rewritten is JSON");
    let ask = ask && peek.can_ask_for_usage();
    let again = Peek::new(&rewritten, &[]).unwrap();
    assert_eq!(again.model.as_deref(), Some(model));
    assert_eq!((again.stream, again.max_tokens), (peek.stream, peek.max_tokens));
    assert_eq!(
        again.include_usage,
        if ask { Some(true) } else { peek.include_usage }
    );
    assert!(!again.can_ask_for_usage() || !ask);
    let (old, new) = (tree.fields().unwrap(), new.fields().unwrap());
    // A field that was not there stands first.
    let (added, kept) = new.split_at(new.len() - old.len());
    for (key, _) in added {
        let name = key.text().unwrap();
        assert!(["model", "stream_options"].contains(&name) && tree.count(name) == 0);
    }
    assert!(added.len() <= 2);
    for ((key, value), (new_key, new_value)) in old.iter().zip(kept) {
        assert_eq!(key.raw, new_key.raw);
        match key.text() {
            Some("model") => assert_eq!(new_value.text(), Some(model)),
            Some("stream_options") if ask => check_options(value, new_value),
            _ => assert_eq!(value.raw, new_value.raw),
        }
    }
}

/// Only `include_usage` differs; of several `stream_options` only the last counts and is touched.
fn check_options(old: &Node<'_>, new: &Node<'_>) {
    if old.raw == new.raw {
        return;
    }
    let others = |node: &Node<'_>| -> Vec<String> {
        let fields = node.fields().unwrap_or_default().iter();
        fields
            .filter(|(key, _)| key.text() != Some("include_usage"))
            .map(|(key, value)| format!("{}:{}", key.raw, value.raw))
            .collect()
    };
    assert_eq!(others(old), others(new));
    assert_eq!(new.last("include_usage").map(|value| value.raw), Some("true"));
}

/// A prompt does not depend on how its JSON is written, keeps its blocks when messages are added, and is bounded.
fn check_prompt(body: &[u8], cut: Cut) {
    let Ok(json) = std::str::from_utf8(body) else {
        return;
    };
    for api in [
        Api::ChatCompletions,
        Api::Completions,
        Api::Responses,
        Api::Messages,
    ] {
        let prompt = read_prompt(json, api, cut);
        // A medium is a few bytes here, and thousands of tokens.
        let most = 2000 * json.len();
        assert!(prompt.tokens <= most as u64 && prompt.blocks.len() <= most);
    }
    let Ok(tree) = json::parse(json) else { return };
    let api = Api::ChatCompletions;
    let prompt = read_prompt(json, api, cut);
    let mut respelt = String::new();
    respell(&tree, &mut respelt);
    assert_eq!(prompt, read_prompt(&respelt, api, cut), "{respelt}");
    if let Some(Kind::List(messages)) = tree.last("messages").map(|node| &node.kind)
        && tree.last("input").is_none()
        && tree.last("prompt").is_none()
        && let Some(last) = messages.last()
    {
        let start = Node::offset(json, last.raw);
        let before = json[..start].trim_end().trim_end_matches(',');
        let shorter = read_prompt(&format!("{before}{}", &json[start + last.raw.len()..]), api, cut);
        assert!(prompt.blocks.starts_with(&shorter.blocks));
    }
}

fn read_prompt(json: &str, api: Api, cut: Cut) -> Prompt {
    let mut prompt = Prompt::default();
    prompt.read(json, api, Some(cut));
    prompt
}

/// Writes the same JSON with all its text in escapes and space wherever it may be.
fn respell(node: &Node<'_>, into: &mut String) {
    into.push_str(" \n");
    match &node.kind {
        Kind::Text(Some(text)) => {
            into.push('"');
            for unit in text.encode_utf16() {
                into.push_str(&format!("\\u{unit:04X}"));
            }
            into.push('"');
        }
        Kind::List(items) => {
            into.push('[');
            for (place, item) in items.iter().enumerate() {
                into.push_str(if place > 0 { "\t," } else { "" });
                respell(item, into);
            }
            into.push(']');
        }
        Kind::Object(fields) => {
            into.push('{');
            for (place, (key, value)) in fields.iter().enumerate() {
                into.push_str(if place > 0 { "\t," } else { "" });
                respell(key, into);
                into.push_str("\r:");
                respell(value, into);
            }
            into.push('}');
        }
        _ => into.push_str(node.raw),
    }
    into.push(' ');
}

/// An answer without usage: what it is taken to have cost is bounded by its length, and nothing where no tokens are spent.
fn check_estimate(body: &[u8]) {
    for api in [
        Api::ChatCompletions,
        Api::Completions,
        Api::Responses,
        Api::Messages,
        Api::Embeddings,
        Api::Speech,
    ] {
        let Some(usage) = estimated_usage(api, body, || 7) else {
            continue;
        };
        assert!(api != Api::Speech && usage.prompt_tokens == 7);
        assert!(usage.completion_tokens <= 5 * body.len() as u64, "{usage:?}");
        assert!(api != Api::Embeddings || usage.completion_tokens == 0);
        assert!(serde_json::from_slice::<&serde_json::value::RawValue>(body).is_ok());
    }
}

/// An upstream's error: whatever it is, the client gets one of its own protocol.
fn check_error(body: &[u8], status: u16) {
    for protocol in [Protocol::OpenAi, Protocol::Anthropic] {
        for content_type in [None, Some("application/json"), Some("text/html; charset=x")] {
            assert!((400..600).contains(&client_status(protocol, status)));
            if passes_untouched(protocol, status, content_type, body) {
                assert!(serde_json::from_slice::<&serde_json::value::RawValue>(body).is_ok());
            }
            let error = upstream_error(protocol, status, content_type, body);
            assert!((400..600).contains(&error.status) && !error.message.is_empty());
            assert!(error.message.len() <= 4096);
            let told: serde_json::Value = serde_json::from_slice(&error.render(protocol)).unwrap();
            assert!(told["error"]["message"].is_string());
        }
    }
}
