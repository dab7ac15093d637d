//! `/api/config`.

use crate::answer::{Answer, Failure, Result};
use crate::table::Call;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::Path;
use weighbridge_config::{Problem, check_blind, masked};
use weighbridge_gateway::service::Service;

/// The config in force.
#[derive(Serialize, JsonSchema)]
pub(crate) struct InForce {
    /// None: made without a file.
    file: Option<String>,
    generation: u64,
    /// Under the keys of the file.
    config: Value,
}

/// A reload that was taken.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Reloaded {
    generation: u64,
    /// One line each.
    changes: Vec<String>,
    /// What needs somebody's attention now.
    warnings: Vec<String>,
}

/// What a check found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Checked {
    /// Whether a reload would take it.
    ok: bool,
    /// What is wrong: file, line, column, path, message, hint.
    #[schemars(with = "Vec<Value>")]
    problems: Vec<Problem>,
    /// What is allowed and will surprise.
    #[schemars(with = "Vec<Value>")]
    warnings: Vec<Problem>,
    /// What would change.
    changes: Vec<String>,
}

pub(crate) fn in_force(call: &Call<'_>) -> Result<Answer> {
    let snapshot = call.served.admin.gateway.snapshot();
    let reloader = call.served.admin.reloader.as_ref();
    Answer::json(&InForce {
        file: reloader.map(|reloader| reloader.path().display().to_string()),
        generation: snapshot.generation,
        config: masked(&snapshot.config),
    })
}

pub(crate) fn reload(call: &Call<'_>) -> Result<Answer> {
    let Some(reloader) = &call.served.admin.reloader else {
        let message = "the gateway was started without a config file: start it with --config FILE";
        return Err(Failure::new(StatusCode::CONFLICT, message));
    };
    let before = Service::of(&call.served.admin.gateway);
    let changes = reloader.reload().map_err(|refused| Failure {
        status: StatusCode::UNPROCESSABLE_ENTITY,
        message: refused.message,
        problems: Some(json!(refused.problems)),
    })?;
    Answer::json(&Reloaded {
        generation: call.served.admin.gateway.snapshot().generation,
        changes,
        warnings: before.lost(&call.served.admin.gateway),
    })
}

pub(crate) fn check(call: &Call<'_>) -> Result<Answer> {
    let text = std::str::from_utf8(call.body)
        .map_err(|_| Failure::bad("the body must be the YAML of a config, in UTF-8"))?;
    // Relative paths mean what they would mean in the file.
    let reloader = call.served.admin.reloader.as_ref();
    let beside = reloader.map_or(Path::new(""), |reloader| reloader.path());
    let running = call.served.admin.gateway.snapshot().config.clone();
    let env = |name: &str| std::env::var(name).ok();
    let found = check_blind(&running, beside, ("request body", text), &env);
    Answer::json(&Checked {
        ok: found.problems.is_empty(),
        problems: found.problems,
        warnings: found.warnings,
        changes: found.changes,
    })
}
