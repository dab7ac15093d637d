//! Taking a new config while serving: when the file changes, on SIGHUP, when asked.

use crate::gateway::Gateway;
use crate::service::Service;
use crate::settling::Settling;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use weighbridge_config::{Config, Loaded, Problem, diff, load, refuses_reload};

/// How often the files are looked at. Their content is compared, so that every way of changing them is seen: writing,
/// renaming over them, swapping a symbolic link above them, on any file system. A change is taken at the second look that
/// finds it.
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
    taken: fn(&Config),
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the files held when they were last tried.
    seen: Seen,
    last: Option<LastReload>,
}

/// What the files hold, in short.
#[derive(Clone, Default, PartialEq)]
struct Seen {
    /// The config file; none: it cannot be read.
    config: Option<String>,
    /// The certificates and keys of `server.tls`.
    tls: Option<String>,
}

impl Reloader {
    /// For a gateway that was started with the file at `path`, which then held `text_hash`.
    #[must_use]
    pub fn new(gateway: Arc<Gateway>, path: PathBuf, text_hash: String) -> Self {
        let reloader = Self {
            gateway,
            path,
            taken: |_| {},
            state: Mutex::default(),
        };
        reloader.state().seen = Seen {
            config: Some(text_hash),
            tls: reloader.loaded_tls(),
        };
        reloader
    }

    /// Has `taken` told of each config that is taken, for what the process has beside its gateway.
    #[must_use]
    pub fn telling(self, taken: fn(&Config)) -> Self {
        Self { taken, ..self }
    }

    fn loaded_tls(&self) -> Option<String> {
        let running = self.gateway.snapshot();
        let tls = running.config.server.tls.as_ref();
        tls.map(|tls| tls.identity.hash().to_owned())
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
        state.seen = self.look();
        let result = self.take();
        if result.is_ok() {
            state.seen.tls = self.loaded_tls();
        }
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
        let before = Service::of(&self.gateway);
        self.gateway.reconfigure(config)?;
        (self.taken)(&self.gateway.snapshot().config);
        for unserved in before.lost(&self.gateway) {
            tracing::warn!("{unserved}");
        }
        Ok(changes)
    }

    /// Reloads whenever the content of the config file, or of one that `server.tls` names, changes; for ever.
    pub async fn watch(&self) {
        let mut looks = Settling::new(self.state().seen.clone());
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let settled = looks.settled(self.look());
            if settled.is_some_and(|now| *now != self.state().seen) {
                // The result has been logged; the next change is looked at all the same.
                let _ = self.reload();
            }
        }
    }

    fn look(&self) -> Seen {
        let running = self.gateway.snapshot().config.clone();
        Seen {
            config: hash(&self.path),
            tls: running.server.tls.as_ref().map(|tls| tls.hash_now()),
        }
    }
}

/// What the file holds, in short; none if it cannot be read.
fn hash(path: &Path) -> Option<String> {
    std::fs::read(path)
        .ok()
        .map(|text| weighbridge_config::text_hash(&text))
}
