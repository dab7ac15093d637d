//! Metrics, liveness, readiness.

use crate::answer::{Answer, Result};
use crate::table::{Call, OPEN_METRICS};
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use weighbridge_gateway::lifecycle::Phase;

/// One word.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `alive`, `ready` or `draining`.
    status: &'static str,
}

pub(crate) fn metrics(call: &Call<'_>) -> Result<Answer> {
    Ok(Answer {
        status: StatusCode::OK,
        media: OPEN_METRICS,
        body: call.served.admin.gateway.metrics().encode().into(),
    })
}

pub(crate) fn health(_: &Call<'_>) -> Result<Answer> {
    Answer::json(&Health { status: "alive" })
}

pub(crate) fn ready(call: &Call<'_>) -> Result<Answer> {
    let status = phase(call);
    let mut answer = Answer::json(&Health { status })?;
    if status != READY {
        answer.status = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(answer)
}

const READY: &str = "ready";

/// `ready` or `draining`.
pub(crate) fn phase(call: &Call<'_>) -> &'static str {
    match call.served.admin.gateway.lifecycle.phase() {
        Phase::Serving => READY,
        Phase::Leaving | Phase::Draining | Phase::Cutting => "draining",
    }
}
