//! The gateway's own request log. It tells tokens and times, but no contents: no blocks, so nothing is shared.

use super::json::{Kind, parse};
use super::{Row, Rows, Wrong, prompt};
use crate::text::mix;
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tenant: Option<Cow<'a, str>>,
    #[serde(borrow)]
    session: Option<Cow<'a, str>>,
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
    #[serde(default)]
    usage_estimated: bool,
    status: Option<u16>,
    #[serde(borrow)]
    outcome: Option<Cow<'a, str>>,
}

pub(super) struct Gateway;

impl Rows for Gateway {
    fn row(&mut self, line: &str) -> Result<Option<Row>, Wrong> {
        let fields: Fields<'_> = parse(line, &[("time", Kind::Text)])?;
        let at: jiff::Timestamp = fields
            .time
            .parse()
            .map_err(|_| Wrong::new("`time` must be a date as in 2026-05-04T10:00:00Z", &fields.time))?;
        let (Some(prompt_tokens), Some(output_tokens)) = (fields.prompt_tokens, fields.completion_tokens)
        else {
            let status = fields
                .status
                .map_or("none".to_owned(), |status| status.to_string());
            return Err(Wrong::new(
                "no token counts, so its size is not known",
                format!(
                    "status {status}, outcome {}",
                    fields.outcome.as_deref().unwrap_or("none")
                ),
            ));
        };
        // Whoever holds a key is one user where no session is told.
        let session = fields.session.as_ref().or(fields.key.as_ref()).map(|name| {
            name.bytes()
                .fold(mix(name.len() as u64), |state, byte| mix(state ^ u64::from(byte)))
        });
        Ok(Some(Row {
            at: at.as_nanosecond(),
            prompt_tokens: prompt("prompt_tokens", prompt_tokens)?,
            output_tokens,
            session,
            tenant: fields.tenant.or(fields.key).map(Cow::into_owned),
            estimated: fields.usage_estimated,
            ..Row::default()
        }))
    }

    fn dated(&self) -> bool {
        true
    }
}
