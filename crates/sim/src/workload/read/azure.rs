//! Azure's rows: CSV without quotes, so splitting at commas is all it takes.

use super::{Row, Rows, Wrong, prompt};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

const TIME: &str = "TIMESTAMP";
const PROMPT: &str = "ContextTokens";
const OUTPUT: &str = "GeneratedTokens";

/// Whether this is the header, or a row without one.
pub(super) fn looks_like(line: &str) -> bool {
    Columns::of(line).is_some_and(|columns| columns.is_ok())
        || line.split(',').next().is_some_and(|first| nanos(first).is_some()) && line.contains(',')
}

/// Which column is which.
#[derive(Clone, Copy)]
struct Columns {
    time: usize,
    prompt: usize,
    output: usize,
}

impl Columns {
    /// Those that the header names; None where `line` is no header, an error where it lacks one.
    fn of(line: &str) -> Option<Result<Self, Wrong>> {
        let names: Vec<&str> = line.split(',').map(str::trim).collect();
        let place = |wanted: &str| names.iter().position(|name| name.eq_ignore_ascii_case(wanted));
        let places = [TIME, PROMPT, OUTPUT].map(place);
        if places.iter().all(Option::is_none) {
            return None;
        }
        let [Some(time), Some(prompt), Some(output)] = places else {
            let what = format!("the header must name {TIME}, {PROMPT} and {OUTPUT}");
            return Some(Err(Wrong::new(what, line)));
        };
        Some(Ok(Self { time, prompt, output }))
    }
}

/// Columns in their usual order, until a header says otherwise.
pub(super) struct Azure {
    columns: Columns,
}

impl Default for Azure {
    fn default() -> Self {
        let columns = Columns {
            time: 0,
            prompt: 1,
            output: 2,
        };
        Self { columns }
    }
}

/// A date with an offset from UTC, or without one and then in UTC.
fn nanos(text: &str) -> Option<i128> {
    let text = text.trim();
    let time = text.parse::<Timestamp>().ok().or_else(|| {
        let local: DateTime = text.parse().ok()?;
        TimeZone::UTC.to_timestamp(local).ok()
    })?;
    Some(time.as_nanosecond())
}

fn tokens(name: &str, text: &str) -> Result<u32, Wrong> {
    text.parse().map_err(|_| {
        Wrong::new(
            format!("`{name}` must be a whole number of tokens below 2^32"),
            text,
        )
    })
}

impl Rows for Azure {
    fn row(&mut self, line: &str) -> Result<Option<Row>, Wrong> {
        if let Some(columns) = Columns::of(line) {
            self.columns = columns?;
            return Ok(None);
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |place: usize, name: &str| {
            fields
                .get(place)
                .copied()
                .ok_or_else(|| Wrong::new(format!("`{name}` is missing: the row has too few columns"), line))
        };
        let time = field(self.columns.time, TIME)?;
        let at = nanos(time).ok_or_else(|| {
            Wrong::new(
                format!("`{TIME}` must be a date as in 2023-11-16 18:15:46.6805900"),
                time,
            )
        })?;
        let prompt_tokens = tokens(PROMPT, field(self.columns.prompt, PROMPT)?)?;
        Ok(Some(Row {
            at,
            prompt_tokens: prompt(PROMPT, prompt_tokens)?,
            output_tokens: tokens(OUTPUT, field(self.columns.output, OUTPUT)?)?,
            ..Row::default()
        }))
    }

    fn dated(&self) -> bool {
        true
    }
}
