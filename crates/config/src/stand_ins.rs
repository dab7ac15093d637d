//! Checking a config for somebody who may not know what variables and files of secrets hold.
//!
//! Whatever is said of a value gives some of it away, as soon as the asker chooses where it stands: cut or in small
//! letters in a message, in the order of a list, or as nothing but "the same key as". So such a check never has the values:
//! stand-ins take their place, in the checked text and in that of the running config which it is compared with.

use crate::diff::{diff, refuses_reload};
use crate::load::{Source, load_text};
use crate::problems::Problem;
use crate::resolved::Config;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::path::Path;

/// What a config was written as: its text, and the variables whose values it shows by itself.
#[derive(Clone, Default)]
pub struct Written {
    pub(crate) text: SecretString,
    /// By name. They stand in places that [`masked`](crate::masked) does not mask.
    pub(crate) shown: BTreeMap<String, String>,
    /// URLs with variables, as they are written.
    pub(crate) urls: BTreeSet<String>,
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written")
    }
}

/// What a check of a text found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Why it would not be taken; empty: it would.
    pub problems: Vec<Problem>,
    /// What is allowed and will surprise.
    pub warnings: Vec<Problem>,
    /// What would change.
    pub changes: Vec<String>,
}

/// Values that are used in the place of those of variables.
pub(crate) struct StandIns<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    running: &'a Written,
    /// The variable that each stands for.
    made: RefCell<BTreeMap<String, String>>,
}

impl<'a> StandIns<'a> {
    fn new(env: &'a dyn Fn(&str) -> Option<String>, running: &'a Written) -> Self {
        Self {
            env,
            running,
            made: RefCell::default(),
        }
    }

    /// The values themselves.
    pub(crate) fn env(&self) -> &'a dyn Fn(&str) -> Option<String> {
        self.env
    }

    /// The value to use for a variable: its own if the running config shows it, and a text of one length, made from the
    /// name, if not. Whether it is set, and not empty, is told.
    fn value(&self, name: &str) -> Option<String> {
        if let Some(value) = self.running.shown.get(name) {
            return Some(value.clone());
        }
        if (self.env)(name)?.is_empty() {
            return Some(String::new());
        }
        let made = Self::of("variable", name);
        self.made.borrow_mut().insert(made.clone(), name.to_owned());
        Some(made)
    }

    /// A text that is a host, a name and a secret alike, and the same in small letters.
    pub(crate) fn of(kind: &str, name: &str) -> String {
        let mut made = format!("{kind}-");
        for byte in &Sha256::digest(name.as_bytes())[..8] {
            let _ = write!(made, "{byte:02x}");
        }
        made
    }

    /// A URL for one that is written as `raw`, has become `text` with stand-ins and is none then: known to be good where the
    /// running config has it.
    pub(crate) fn url(&self, raw: &str, text: &str) -> Option<String> {
        self.running
            .urls
            .contains(raw)
            .then(|| format!("http://{}", Self::of("url", text)))
    }

    /// The variables that `text` holds stand-ins of.
    pub(crate) fn within(&self, text: &str) -> Vec<String> {
        let made = self.made.borrow();
        let within = made.iter().filter(|(made, _)| text.contains(made.as_str()));
        within.map(|(_, name)| format!("`${{{name}}}`")).collect()
    }

    /// Puts the names of variables in the place of their stand-ins.
    fn name(&self, text: &mut String) {
        for (made, name) in &*self.made.borrow() {
            if text.contains(made.as_str()) {
                *text = text.replace(made.as_str(), &format!("${{{name}}}"));
            }
        }
    }

    fn name_all(&self, checked: &mut Checked) {
        let problems = checked.problems.iter_mut().chain(&mut checked.warnings);
        let texts = problems.flat_map(|problem| [Some(&mut problem.message), problem.hint.as_mut()]);
        for text in texts.flatten().chain(&mut checked.changes) {
            self.name(text);
        }
    }
}

/// Checks `text`, called `name` in problems, as what is to take the place of the `running` config, whose file is at `path`.
/// `env` tells which variables are set; their values have no influence on what is said, except of those that the running
/// config shows.
#[must_use]
pub fn check_blind(
    running: &Config,
    path: &Path,
    (name, text): (&str, &str),
    env: &dyn Fn(&str) -> Option<String>,
) -> Checked {
    let stand_ins = StandIns::new(env, &running.written);
    let load = |name, text| {
        let source = Source {
            name,
            text,
            directory: path.parent(),
            stand_ins: Some(&stand_ins),
        };
        load_text(&source, &|name| stand_ins.value(name))
    };
    let mut checked = match load(name, text) {
        Err(problems) => Checked {
            warnings: problems.warnings().to_vec(),
            problems: problems.iter().cloned().collect(),
            changes: Vec::new(),
        },
        Ok(loaded) => {
            let refused = refuses_reload(running, &loaded.config).map(|message| Problem {
                file: name.to_owned(),
                line: 0,
                column: 0,
                path: String::new(),
                message,
                hint: None,
            });
            Checked {
                problems: refused.into_iter().collect(),
                warnings: loaded.warnings,
                changes: match load("the running config", running.written.text.expose_secret()) {
                    Ok(before) => diff(&as_loaded(before.config, running), &loaded.config),
                    Err(_) => vec![
                        "what would change is not known: a file that the running config names can no longer be read"
                            .to_owned(),
                    ],
                },
            }
        }
    };
    stand_ins.name_all(&mut checked);
    checked
}

/// Certificates as they were loaded, not as their files hold them now.
fn as_loaded(mut before: Config, running: &Config) -> Config {
    before.server.tls.clone_from(&running.server.tls);
    before
}
