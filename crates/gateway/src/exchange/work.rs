//! What a request asks of an engine, as far as its route looks at it.

use crate::snapshot::RouteEntry;
use http::HeaderMap;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::work::{Abilities, Needs, Objective, Opening, Work};
use weighbridge_wire::prompt::{self, BLOCK_BYTES, Cut, Prompt};
use weighbridge_wire::{Api, ErrorBody, Peek};

/// Longest wait for the first token that the client wants, and longest mean time per token after it, milliseconds.
const FIRST_TOKEN: &str = "x-slo-ttft-ms";
const PER_TOKEN: &str = "x-slo-tpot-ms";
/// `P0` to `P3`.
const PRIORITY: &str = "x-priority";
/// What the request is about, in a word.
const CLASS: &str = "x-request-type";
/// Labels that the endpoint must have: `gpu=A100, tier=spot`.
pub(super) const LABELS: &str = "x-weighbridge-labels";

/// Most labels of one request.
const LABELS_MAX: usize = 8;
/// Bytes of the longest word that is taken from a header.
const WORD_MAX: usize = 128;
/// A prompt of more blocks leaves no room behind for the next.
const BLOCKS_KEPT: usize = 16 * 1024;

/// What is read from the prompt.
const OF_PROMPT: Needs = Needs::TOKENS
    .and(Needs::BLOCKS)
    .and(Needs::HEAD)
    .and(Needs::ABILITIES);

/// What the facts are taken from.
pub(crate) struct Sources<'a> {
    pub(crate) api: Api,
    pub(crate) headers: &'a HeaderMap,
    /// Empty where it is no JSON, or still arrives.
    pub(crate) body: &'a [u8],
    pub(crate) peek: &'a Peek,
    /// The model by the name that the client uses.
    pub(crate) model: &'a str,
}

/// The facts that `route`, or a route that it falls back to, looks at; none: it looks at none.
///
/// # Errors
/// What is wrong with a header that it looks at.
pub(crate) fn of(route: &RouteEntry, sources: &Sources<'_>) -> Result<Option<Arc<Work>>, Box<ErrorBody>> {
    if !route.needs.work() {
        return Ok(None);
    }
    let mut work = Work {
        max_tokens: (sources.peek.max_tokens).map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        ..Work::default()
    };
    asked_by_headers(route.needs, sources.headers, &mut work)?;
    if route.needs.meets(Needs::ADAPTER) && !route.names_model {
        work.adapter = Some(sources.model.into());
    }
    if (route.needs).meets(OF_PROMPT) {
        read_prompt(route, sources, &mut work);
    }
    Ok(Some(Arc::new(work)))
}

/// What the prompt is, without tokenizing it.
fn read_prompt(route: &RouteEntry, sources: &Sources<'_>, work: &mut Work) {
    thread_local! {
        static PROMPT: RefCell<Prompt> = RefCell::default();
    }
    // What is no UTF-8 is no JSON either.
    let json = std::str::from_utf8(sources.body).unwrap_or_default();
    // Engines keep what they cached for an adapter apart from the base model's and from other adapters'.
    let seed = || match route.names_model {
        true => 0,
        false => prompt::seed(sources.model),
    };
    let cut = (route.needs).meets(Needs::BLOCKS.and(Needs::HEAD)).then(|| Cut {
        seed: seed(),
        block_bytes: BLOCK_BYTES,
    });
    PROMPT.with_borrow_mut(|prompt| {
        prompt.read(json, sources.api, cut);
        work.prompt_tokens = whole(prompt.tokens);
        work.blocks = prompt.blocks.iter().copied().map(BlockHash).collect();
        work.block_tokens = if work.blocks.is_empty() {
            0
        } else {
            whole(prompt.block_tokens()).max(1)
        };
        if route.needs.meets(Needs::HEAD) {
            work.block_bytes = whole(BLOCK_BYTES as u64);
            work.opening = prompt.opening.map(|opening| Opening {
                blocks: whole(opening.blocks as u64),
                hash: BlockHash(opening.hash),
            });
        }
        work.wants = abilities(sources.api, prompt.needs);
        if prompt.blocks.capacity() > BLOCKS_KEPT {
            *prompt = Prompt::default();
        }
    });
}

fn whole(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

fn abilities(api: Api, needs: prompt::Needs) -> Abilities {
    let of_api = match api {
        Api::Transcriptions | Api::Translations => Abilities::AUDIO,
        Api::ImageEdits | Api::ImageVariations => Abilities::IMAGE,
        _ => Abilities::NONE,
    };
    [
        (prompt::Needs::IMAGE, Abilities::IMAGE),
        // Engines that watch films look at their frames.
        (prompt::Needs::VIDEO, Abilities::IMAGE),
        (prompt::Needs::AUDIO, Abilities::AUDIO),
        (prompt::Needs::FILE, Abilities::FILE),
        (prompt::Needs::TOOLS, Abilities::TOOLS),
        (prompt::Needs::JSON_SCHEMA, Abilities::JSON_SCHEMA),
    ]
    .into_iter()
    .filter(|(need, _)| needs.contains(*need))
    .fold(of_api, |all, (_, ability)| all.and(ability))
}

fn asked_by_headers(needs: Needs, headers: &HeaderMap, work: &mut Work) -> Result<(), Box<ErrorBody>> {
    // Rules about labels look at it. Elsewhere it may be another system's.
    let said = headers.get(PRIORITY).and_then(|value| value.to_str().ok());
    match said.map(str::trim).filter(|said| !said.is_empty()) {
        None => {}
        Some(said) => match priority(said) {
            Some(priority) => work.priority = priority,
            None if needs.meets(Needs::LABELS) => return Err(wrong(PRIORITY, "P0, P1, P2 or P3")),
            None => {}
        },
    }
    if needs.meets(Needs::OBJECTIVE) {
        work.objective = Objective {
            first_token: milliseconds(headers, FIRST_TOKEN)?,
            per_token: milliseconds(headers, PER_TOKEN)?,
        };
    }
    if needs.meets(Needs::CLASS)
        && let Some(class) = header(headers, CLASS)?
    {
        work.class = Some(class.into());
    }
    if needs.meets(Needs::LABELS)
        && let Some(said) = header(headers, LABELS)?
    {
        let expected = "labels as name=value, separated by commas, at most 8";
        work.labels = labels(said).ok_or_else(|| wrong(LABELS, expected))?;
    }
    Ok(())
}

/// The trimmed text of a header; none where it is absent or empty.
fn header<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Box<ErrorBody>> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    let text = value.to_str().ok().map(str::trim);
    match text.filter(|text| text.len() <= WORD_MAX * LABELS_MAX) {
        Some("") => Ok(None),
        Some(text) => Ok(Some(text)),
        None => Err(wrong(name, "short and plain ASCII")),
    }
}

fn wrong(name: &str, expected: &str) -> Box<ErrorBody> {
    Box::new(ErrorBody::new(
        400,
        format!("the header {name} is not what it should be: {expected}"),
    ))
}

fn priority(said: &str) -> Option<u8> {
    let number = said.strip_prefix(['P', 'p']).unwrap_or(said);
    match number {
        "0" => Some(0),
        "1" => Some(1),
        "2" => Some(2),
        "3" => Some(3),
        _ => None,
    }
}

fn milliseconds(headers: &HeaderMap, name: &str) -> Result<Option<Duration>, Box<ErrorBody>> {
    let Some(said) = header(headers, name)? else {
        return Ok(None);
    };
    let millis = said.parse().ok().filter(|millis: &f64| {
        // A day is longer than any objective, and much shorter than what a duration holds.
        *millis > 0.0 && *millis <= 86_400_000.0
    });
    let millis = millis.ok_or_else(|| wrong(name, "a number of milliseconds above 0, such as 250"))?;
    Ok(Some(Duration::from_secs_f64(millis / 1e3)))
}

/// Names of the labels that the request asks for; none where what it says is no list of labels.
pub(super) fn labels_asked(headers: &HeaderMap) -> Vec<Arc<str>> {
    let said = header(headers, LABELS).ok().flatten();
    let pairs = said.and_then(labels).unwrap_or_default();
    pairs.iter().map(|(name, _)| name.clone()).collect()
}

type Labels = Box<[(Arc<str>, Arc<str>)]>;

fn labels(said: &str) -> Option<Labels> {
    let pairs = said.split(',').map(|pair| {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        let fits = |word: &str| !word.is_empty() && word.len() <= WORD_MAX;
        (fits(name) && fits(value)).then(|| (name.into(), value.into()))
    });
    let pairs: Labels = pairs.collect::<Option<_>>()?;
    (pairs.len() <= LABELS_MAX).then_some(pairs)
}

#[cfg(test)]
mod tests;
