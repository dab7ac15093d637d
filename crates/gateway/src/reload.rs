//! Taking a new config while serving: when the file changes, on SIGHUP, when asked.

use crate::gateway::Gateway;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use weighbridge_config::{Loaded, Problem, diff, load, refuses_reload};

/// How often the file is looked at. Its content is compared, so that every way of changing it is seen: writing, renaming
/// over it, swapping a symbolic link above it, on any file system.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How the newest reload went.
#[derive(Clone, Debug)]
pub struct LastReload {
    /// When.
    pub time: SystemTime,
    /// What changed, or what is wrong.
    pub result: Result<Vec<String>, Refused>,
}

/// A config that was not taken; the running one stays in force.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// Everything that is wrong, for a person.
    pub message: String,
    /// What is wrong with the file, problem by problem; empty where the file is good and something else is in the way.
    pub problems: Vec<Problem>,
}

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self {
            message,
            problems: Vec::new(),
        }
    }
}

/// Reloads one gateway's config file.
pub struct Reloader {
    gateway: Arc<Gateway>,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the file held when it was last tried; none: it could not be read.
    seen: Option<String>,
    last: Option<LastReload>,
}

impl Reloader {
    /// For a gateway that was started with the file at `path`, which then held `text_hash`.
    #[must_use]
    pub fn new(gateway: Arc<Gateway>, path: PathBuf, text_hash: String) -> Self {
        Self {
            gateway,
            path,
            state: Mutex::new(State {
                seen: Some(text_hash),
                last: None,
            }),
        }
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How the newest reload went; none: there was none yet.
    #[must_use]
    pub fn last(&self) -> Option<LastReload> {
        self.state().last.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file and takes it; a bad one changes nothing.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn reload(&self) -> Result<Vec<String>, Refused> {
        // Held throughout, so that two reloads never interleave.
        let mut state = self.state();
        state.seen = hash(&self.path);
        let result = self.take();
        self.gateway.metrics().reloaded(result.is_ok());
        match &result {
            Ok(changes) => tracing::info!(file = %self.path.display(), ?changes, "config reloaded"),
            Err(error) => {
                tracing::error!(file = %self.path.display(), %error, "config refused, the running one stays in force");
            }
        }
        state.last = Some(LastReload {
            time: SystemTime::now(),
            result: result.clone(),
        });
        result
    }

    fn take(&self) -> Result<Vec<String>, Refused> {
        let Loaded { config, warnings, .. } =
            load(&self.path, &|name| std::env::var(name).ok()).map_err(|problems| Refused {
                message: problems.to_string(),
                problems: problems.iter().cloned().collect(),
            })?;
        let running = self.gateway.snapshot().config.clone();
        if let Some(why) = refuses_reload(&running, &config) {
            return Err(format!("{}: {why}", self.path.display()).into());
        }
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let changes = diff(&running, &config);
        self.gateway.reconfigure(config)?;
        for unserved in crate::service::unserved(&self.gateway, None) {
            tracing::warn!("{unserved}");
        }
        Ok(changes)
    }

    /// Reloads whenever the file's content changes, for ever.
    pub async fn watch(&self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if hash(&self.path) != self.state().seen {
                // The result has been logged; the next change is looked at all the same.
                let _ = self.reload();
            }
        }
    }
}

/// What the file holds, in short; none if it cannot be read.
fn hash(path: &Path) -> Option<String> {
    std::fs::read(path)
        .ok()
        .map(|text| weighbridge_config::text_hash(&text))
}
