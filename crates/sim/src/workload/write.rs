//! Writing a workload as a Mooncake trace.

use super::order::nominal;
use super::read::MOONCAKE_BLOCK_TOKENS;
use super::{Class, Request, Workload};
use serde::Serialize;
use serde_json::Number;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

/// Mooncake's own fields, and after them those of ours that a request has need of. Readers of Mooncake traces pass over the
/// latter.
#[derive(Serialize)]
struct Row<'a> {
    timestamp: Number,
    input_length: u32,
    output_length: u32,
    hash_ids: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slo: Option<Bounds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think_ms: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_concurrency: Option<u32>,
}

#[derive(Serialize)]
struct Bounds {
    #[serde(skip_serializing_if = "Option::is_none")]
    ttft_ms: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tpot_ms: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e2e_ms: Option<Number>,
}

/// Whole milliseconds stay whole, as other readers expect them; others keep their nanoseconds.
fn millis(duration: Duration) -> Number {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let whole = Number::from(nanos / 1_000_000);
    if nanos.is_multiple_of(1_000_000) {
        return whole;
    }
    Number::from_f64(nanos as f64 / 1e6).unwrap_or(whole)
}

fn bounds(class: &Class) -> Bounds {
    Bounds {
        ttft_ms: class.slo.first_token.map(millis),
        tpot_ms: class.slo.per_token.map(millis),
        e2e_ms: class.slo.end_to_end.map(millis),
    }
}

/// What has been said once and need not be again.
struct Said {
    /// Numbers of the hashes in the order in which they come up, as in the public traces.
    hashes: HashMap<u64, u64>,
    classes: Vec<bool>,
}

impl Said {
    fn row<'a>(&mut self, workload: &'a Workload, request: &'a Request, at: Duration) -> Row<'a> {
        let mut hash_ids = Vec::with_capacity(request.blocks.len());
        for block in request.blocks.iter() {
            let next = self.hashes.len() as u64;
            hash_ids.push(*self.hashes.entry(*block).or_insert(next));
        }
        let class = workload.classes.get(usize::from(request.class));
        let new = self.classes.get_mut(usize::from(request.class));
        let new = new.is_some_and(|said| !std::mem::replace(said, true));
        let block_tokens = workload.block_tokens;
        Row {
            timestamp: millis(at),
            input_length: request.prompt_tokens,
            output_length: request.output_tokens,
            block_tokens: (!hash_ids.is_empty() && block_tokens != MOONCAKE_BLOCK_TOKENS)
                .then_some(block_tokens),
            hash_ids,
            session: request.session,
            tenant: workload
                .tenants
                .get(usize::from(request.tenant))
                .map(|name| &**name),
            class: class.map(|class| &*class.name),
            slo: class
                .filter(|class| new && class.slo != super::Slo::default())
                .map(bounds),
            after: request.after,
            think_ms: request.after.map(|_| millis(request.at)),
            max_concurrency: None,
        }
    }
}

/// Writes `workload` as JSON lines that [`read`](super::read()) and other readers of Mooncake traces take.
///
/// Hashes are numbered as they come up; equal ones stay equal. A request that follows another gets the time at which it
/// would be due if answers took none, and in fields of ours the row it follows and the time to think.
///
/// # Errors
/// Those of `out`.
pub fn write_mooncake(workload: &Workload, mut out: impl Write) -> io::Result<()> {
    let mut said = Said {
        hashes: HashMap::new(),
        classes: vec![false; workload.classes.len()],
    };
    let times = nominal(&workload.requests);
    for (place, (request, at)) in workload.requests.iter().zip(times).enumerate() {
        let mut row = said.row(workload, request, at);
        if place == 0 {
            row.max_concurrency = workload.max_concurrency;
        }
        serde_json::to_writer(&mut out, &row)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}
