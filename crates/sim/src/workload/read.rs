//! Reading traces, line by line: what a row cannot tell is named, never guessed and never silently dropped.

mod azure;
mod collect;
mod gateway;
mod json;
mod lines;
mod llmservingsim;
mod mooncake;

pub(super) use mooncake::BLOCK_TOKENS as MOONCAKE_BLOCK_TOKENS;

use super::{BLOCKS_MAX, REQUESTS_MAX, Slo, Workload};
use collect::Collector;
use lines::{Line, Lines};
use std::fmt;
use std::io::BufRead;
use std::str::FromStr;
use std::time::Duration;

/// Bad rows that are kept; the rest is counted.
const BAD_KEPT: usize = 100;
/// Lines that are looked at to learn the format.
const LOOKED_AT: usize = 20;
/// Characters of a bad value that are shown.
const SHOWN: usize = 80;

/// A kind of trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// kvcache-ai/Mooncake: JSON lines with `timestamp` in milliseconds and blocks of 512 tokens; also what
    /// [`write_mooncake`](super::write_mooncake) writes.
    Mooncake,
    /// Azure/AzurePublicDataset, LLM inference: CSV with dates and tokens.
    Azure,
    /// casys-kaist/LLMServingSim: JSON lines with `arrival_ns` and blocks of 16 tokens.
    LlmServingSim,
    /// The gateway's own request log.
    Gateway,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Mooncake, Self::Azure, Self::LlmServingSim, Self::Gateway];

    /// Its name, as [`FromStr`] takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mooncake => "mooncake",
            Self::Azure => "azure",
            Self::LlmServingSim => "llmservingsim",
            Self::Gateway => "gateway",
        }
    }

    fn rows(self) -> Box<dyn Rows> {
        match self {
            Self::Mooncake => Box::new(mooncake::Mooncake::default()),
            Self::Azure => Box::new(azure::Azure::default()),
            Self::LlmServingSim => Box::new(llmservingsim::LlmServingSim),
            Self::Gateway => Box::new(gateway::Gateway),
        }
    }

    /// The format that `line` looks like.
    fn of(line: &str) -> Option<Self> {
        if azure::looks_like(line) {
            return Some(Self::Azure);
        }
        let keys = json::keys(line)?;
        let has = |key: &str| keys.iter().any(|k| k == key);
        if has("arrival_ns") {
            Some(Self::LlmServingSim)
        } else if has("timestamp") && has("input_length") {
            Some(Self::Mooncake)
        } else if has("time") && has("request_id") {
            Some(Self::Gateway)
        } else {
            None
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join(", ");
                format!("no trace format {text:?}; there are {names}")
            })
    }
}

/// What came of reading a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The requests.
    pub workload: Workload,
    /// The format that was given or found.
    pub format: Format,
    /// The first bad rows, in order of their lines; at most 100.
    pub bad: Vec<BadRow>,
    /// All bad rows.
    pub bad_total: u64,
    /// Rows with a time before that of the row above them; they have been sorted into their places.
    pub out_of_order: u64,
    /// What a reader of results should know of the trace, in sentences.
    pub notes: Vec<String>,
}

/// A row that gives no request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Its line, from 1.
    pub line: u64,
    /// What is wrong.
    pub what: String,
    /// The value that is wrong, or the row where no single value is; shortened.
    pub value: String,
}

impl fmt::Display for BadRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.what, self.value)
    }
}

/// Why a trace gives nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The source failed.
    #[error("reading stopped at line {line}: {error}")]
    Io {
        /// The line that could not be read.
        line: u64,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// None of the first lines looks like a known format.
    #[error("{}", unknown(.0))]
    Unknown(&'static str),
    /// No row could be read.
    #[error("no request in this trace of format {format}: {rows} bad rows, the first at {first}\n{FORMATS}")]
    Nothing {
        /// As given or found.
        format: Format,
        /// How many rows there were, all of them bad.
        rows: u64,
        /// The first of them.
        first: BadRow,
    },
    /// There is nothing to read.
    #[error("the trace is empty\n{FORMATS}")]
    Empty,
    /// More than fits into memory.
    #[error(
        "the trace has more than {REQUESTS_MAX} requests or {BLOCKS_MAX} block hashes; cut it into parts"
    )]
    TooLong,
}

const FORMATS: &str = "Formats that can be read, one row a line:\n\
    \x20 mooncake       {\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, \"hash_ids\": [46, 47]}\n\
    \x20 azure          TIMESTAMP,ContextTokens,GeneratedTokens with rows such as 2023-11-16 18:15:46.6805900,374,44\n\
    \x20 llmservingsim  {\"arrival_ns\": 46926808, \"input_toks\": 2358, \"output_toks\": 531, \"hash_ids\": [0, 1]}\n\
    \x20 gateway        the gateway's request log: {\"time\": \"2026-05-04T10:00:00Z\", \"request_id\": …, \
    \"prompt_tokens\": 374, \"completion_tokens\": 44, …}";

fn unknown(shape: &str) -> String {
    format!("the format of this trace is not known; its first line is {shape}\n{FORMATS}")
}

const PACKED: &str = "no text; unpack what is packed: zcat FILE.gz | weighbridge simulate --trace /dev/stdin";

/// What a line is, without its contents: a file that is given by mistake may hold anything, keys too.
fn shape(line: &str) -> &'static str {
    if line.starts_with("\u{1f}") || line.contains('\0') || line.contains('\u{fffd}') {
        PACKED
    } else if json::keys(line).is_some() {
        "a JSON object with none of the fields below"
    } else if line.trim_start().starts_with(['{', '[']) {
        "no whole JSON object"
    } else if line.contains(',') {
        "text with commas, without the columns below"
    } else {
        "text that is neither JSON nor CSV"
    }
}

/// Reads a trace in `format`, or in the one that its first lines look like. `name` goes into the workload.
///
/// Takes one line at a time, so a file of any size needs the memory of its requests.
///
/// # Errors
/// If the source fails, the format is not known, or no row can be read.
pub fn read(source: impl BufRead, name: &str, format: Option<Format>) -> Result<Read, ReadError> {
    let mut lines = Lines::new(source);
    let mut first = Vec::new();
    let mut found = format;
    while found.is_none() && first.len() < LOOKED_AT {
        let Some(line) = lines.next()? else { break };
        found = line.text.as_ref().ok().and_then(|text| Format::of(text));
        first.push(line);
    }
    let Some(format) = found else {
        let shape = first
            .first()
            .map(|line| line.text.as_ref().map_or(PACKED, |text| shape(text)));
        return Err(shape.map_or(ReadError::Empty, ReadError::Unknown));
    };
    let mut collector = Collector::new(name, format);
    for line in first {
        collector.take(line)?;
    }
    while let Some(line) = lines.next()? {
        collector.take(line)?;
    }
    collector.finish()
}

/// One format's reader of rows.
trait Rows {
    /// What one line, which is not blank, says. None: a header.
    fn row(&mut self, line: &str) -> Result<Option<Row>, Wrong>;

    /// Tokens of a block, as far as rows have told; 0: none.
    fn block_tokens(&self) -> u32 {
        0
    }

    /// Whether times are dates, and so count from the first of them.
    fn dated(&self) -> bool {
        false
    }
}

/// A row as its format tells it.
#[derive(Debug, Default)]
struct Row {
    /// Nanoseconds, since the trace's start or since 1970.
    at: i128,
    prompt_tokens: u32,
    output_tokens: u32,
    blocks: Vec<u64>,
    session: Option<u64>,
    tenant: Option<String>,
    class: Option<String>,
    slo: Option<Slo>,
    /// Which row it follows, counted from 0, and the time to think after that.
    follows: Option<(u64, Duration)>,
    max_concurrency: Option<u32>,
    estimated: bool,
}

/// What is wrong with a row.
#[derive(Debug)]
struct Wrong {
    what: String,
    value: String,
}

impl Wrong {
    fn new(what: impl Into<String>, value: impl fmt::Display) -> Self {
        Self {
            what: what.into(),
            value: shorten(&value.to_string()),
        }
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A prompt has a token at least.
fn prompt(name: &str, tokens: u32) -> Result<u32, Wrong> {
    match tokens {
        0 => Err(Wrong::new(format!("`{name}` must be at least 1"), 0)),
        tokens => Ok(tokens),
    }
}

/// Refuses more blocks than the tokens of prompt and answer can fill.
fn check_blocks(row: &Row, block_tokens: u32) -> Result<(), Wrong> {
    let tokens = u64::from(row.prompt_tokens) + u64::from(row.output_tokens);
    let most = tokens.div_ceil(u64::from(block_tokens.max(1)));
    if row.blocks.len() as u64 > most {
        return Err(Wrong::new(
            format!(
                "`hash_ids` has more blocks than the {most} of {block_tokens} tokens that prompt and answer fill"
            ),
            row.blocks.len(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
