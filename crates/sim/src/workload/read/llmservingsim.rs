//! LLMServingSim's rows. The hashes of the answer's blocks may follow those of the prompt.

use super::json::{Kind, parse};
use super::{Row, Rows, Wrong, check_blocks, prompt};
use serde::Deserialize;

const BLOCK_TOKENS: u32 = 16;

const REQUIRED: [(&str, Kind); 4] = [
    ("arrival_ns", Kind::Number),
    ("input_toks", Kind::Tokens),
    ("output_toks", Kind::Tokens),
    ("hash_ids", Kind::Hashes),
];

#[derive(Deserialize)]
struct Fields {
    arrival_ns: u64,
    input_toks: u32,
    output_toks: u32,
    hash_ids: Vec<u64>,
}

pub(super) struct LlmServingSim;

impl Rows for LlmServingSim {
    fn row(&mut self, line: &str) -> Result<Option<Row>, Wrong> {
        let fields: Fields = parse(line, &REQUIRED)?;
        let row = Row {
            at: i128::from(fields.arrival_ns),
            prompt_tokens: prompt("input_toks", fields.input_toks)?,
            output_tokens: fields.output_toks,
            blocks: fields.hash_ids,
            ..Row::default()
        };
        check_blocks(&row, BLOCK_TOKENS)?;
        Ok(Some(row))
    }

    fn block_tokens(&self) -> u32 {
        BLOCK_TOKENS
    }
}
