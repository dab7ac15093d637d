//! `/api/config`.

use crate::answer::{Answer, Failure, Result};
use crate::table::Call;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::path::Path;
use weighbridge_config::{Problem, diff, load_beside, masked, refuses_reload};
use weighbridge_gateway::service::Service;

/// Values of variables that are at least this long are taken out of what a check says. Shorter ones are no secrets, and
/// would take innocent letters with them.
const HIDDEN_FROM: usize = 6;

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
    let used = RefCell::new(Vec::new());
    let env = |name: &str| {
        let value = std::env::var(name).ok()?;
        used.borrow_mut().push((name.to_owned(), value.clone()));
        Some(value)
    };
    // Relative paths mean what they would mean in the file.
    let reloader = call.served.admin.reloader.as_ref();
    let beside = reloader.map_or(Path::new(""), |reloader| reloader.path());
    let checked = match load_beside(beside, ("request body", text), &env) {
        Err(problems) => Checked {
            ok: false,
            problems: problems.iter().cloned().collect(),
            warnings: problems.warnings().to_vec(),
            changes: Vec::new(),
        },
        Ok(loaded) => {
            let running = call.served.admin.gateway.snapshot().config.clone();
            let refused = refuses_reload(&running, &loaded.config).map(|message| Problem {
                file: "request body".to_owned(),
                line: 0,
                column: 0,
                path: String::new(),
                message,
                hint: None,
            });
            Checked {
                ok: refused.is_none(),
                problems: refused.into_iter().collect(),
                warnings: loaded.warnings,
                changes: diff(&running, &loaded.config),
            }
        }
    };
    Answer::json(&hide(json!(checked), &used.into_inner()))
}

/// Puts the names of variables in the place of their values: whoever may check a config need not know the secrets of
/// the gateway's environment.
fn hide(value: Value, used: &[(String, String)]) -> Value {
    match value {
        Value::String(mut text) => {
            for (name, secret) in used.iter().filter(|(_, secret)| secret.len() >= HIDDEN_FROM) {
                text = text.replace(secret.as_str(), &format!("${{{name}}}"));
            }
            Value::String(text)
        }
        Value::Array(list) => list.into_iter().map(|value| hide(value, used)).collect(),
        Value::Object(object) => object
            .into_iter()
            .map(|(key, value)| (key, hide(value, used)))
            .collect(),
        other => other,
    }
}
