//! Mooncake's rows, and the fields that our own writer adds to them.

use super::json::{Kind, parse};
use super::{Row, Rows, Slo, Wrong, check_blocks, prompt};
use serde::Deserialize;
use std::borrow::Cow;
use std::time::Duration;

/// Tokens of a block where rows do not say otherwise.
pub(in crate::workload) const BLOCK_TOKENS: u32 = 512;
/// Latest time in milliseconds: 100 years.
const MILLIS_MAX: f64 = 3.2e12;

const REQUIRED: [(&str, Kind); 3] = [
    ("timestamp", Kind::Number),
    ("input_length", Kind::Tokens),
    ("output_length", Kind::Tokens),
];

#[derive(Deserialize)]
struct Fields<'a> {
    timestamp: f64,
    input_length: u32,
    output_length: u32,
    #[serde(default)]
    hash_ids: Vec<u64>,
    block_tokens: Option<u32>,
    session: Option<u64>,
    #[serde(borrow)]
    tenant: Option<Cow<'a, str>>,
    #[serde(borrow)]
    class: Option<Cow<'a, str>>,
    slo: Option<Bounds>,
    after: Option<u64>,
    think_ms: Option<f64>,
    max_concurrency: Option<u32>,
}

#[derive(Deserialize)]
struct Bounds {
    ttft_ms: Option<f64>,
    tpot_ms: Option<f64>,
    e2e_ms: Option<f64>,
}

#[derive(Default)]
pub(super) struct Mooncake {
    block_tokens: Option<u32>,
}

fn nanos(name: &str, millis: f64) -> Result<u64, Wrong> {
    if (0.0..=MILLIS_MAX).contains(&millis) {
        Ok((millis * 1e6).round() as u64)
    } else {
        Err(Wrong::new(
            format!("`{name}` must be milliseconds from 0 to {MILLIS_MAX:e}"),
            millis,
        ))
    }
}

fn bound(name: &str, millis: Option<f64>) -> Result<Option<Duration>, Wrong> {
    millis
        .map(|millis| nanos(name, millis).map(Duration::from_nanos))
        .transpose()
}

impl Rows for Mooncake {
    fn row(&mut self, line: &str) -> Result<Option<Row>, Wrong> {
        let fields: Fields<'_> = match parse(line, &REQUIRED) {
            Ok(fields) => fields,
            // Only where it is there must it be right.
            Err(wrong) if line.contains("\"hash_ids\"") => {
                let fields = [REQUIRED.as_slice(), &[("hash_ids", Kind::Hashes)]].concat();
                return Err(parse::<Fields<'_>>(line, &fields).err().unwrap_or(wrong));
            }
            Err(wrong) => return Err(wrong),
        };
        let block_tokens = fields.block_tokens.unwrap_or(BLOCK_TOKENS);
        let of_file = self.block_tokens.unwrap_or(block_tokens);
        if block_tokens == 0 || block_tokens != of_file {
            let what = format!("`block_tokens` must be at least 1 and that of the rows before, {of_file}");
            return Err(Wrong::new(what, block_tokens));
        }
        let slo = fields.slo.map(|slo| {
            Ok(Slo {
                first_token: bound("ttft_ms", slo.ttft_ms)?,
                per_token: bound("tpot_ms", slo.tpot_ms)?,
                end_to_end: bound("e2e_ms", slo.e2e_ms)?,
            })
        });
        if fields.max_concurrency == Some(0) {
            return Err(Wrong::new("`max_concurrency` must be at least 1", 0));
        }
        let think = Duration::from_nanos(nanos("think_ms", fields.think_ms.unwrap_or(0.0))?);
        let row = Row {
            at: i128::from(nanos("timestamp", fields.timestamp)?),
            prompt_tokens: prompt("input_length", fields.input_length)?,
            output_tokens: fields.output_length,
            blocks: fields.hash_ids,
            session: fields.session,
            tenant: fields.tenant.map(Cow::into_owned),
            class: fields.class.map(Cow::into_owned),
            slo: slo.transpose()?,
            follows: fields.after.map(|row| (row, think)),
            max_concurrency: fields.max_concurrency,
            estimated: false,
        };
        check_blocks(&row, block_tokens)?;
        // A row without blocks must not decide their size for those that have some.
        if !row.blocks.is_empty() {
            self.block_tokens = Some(block_tokens);
        }
        Ok(Some(row))
    }

    fn block_tokens(&self) -> u32 {
        self.block_tokens.unwrap_or(0)
    }
}
