//! Loading a file: text → tree → sections → resolved config.

use crate::model::File;
use crate::problems::{self, Problem, Problems};
use crate::read::{FromNode as _, Reader};
use crate::resolve::resolve;
use crate::resolved::Config;
use crate::stand_ins::{StandIns, Written};
use crate::yaml::{self, Tree};
use sha2::{Digest as _, Sha256};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// A config that is good, with what may surprise.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The config.
    pub config: Config,
    /// What is allowed and will surprise, in the order of the file.
    pub warnings: Vec<Problem>,
    /// SHA-256 of the file's text in hexadecimal. Variables and files of secrets are not part of it.
    pub text_hash: String,
}

/// Loads a config file. Relative paths in it are relative to its directory; `env` gives the values of variables.
///
/// # Errors
/// Everything that is wrong with the file, or that it cannot be read.
pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Problems> {
    let name = path.display().to_string();
    let text = read_named(path, &name)?;
    load_text(
        &Source {
            name: &name,
            text: &text,
            directory: path.parent(),
            stand_ins: None,
        },
        env,
    )
}

/// Loads a config from its text; `name` stands for the file in problems. Relative paths are relative to the current
/// directory.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn load_str(name: &str, text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Problems> {
    load_text(
        &Source {
            name,
            text,
            directory: None,
            stand_ins: None,
        },
        env,
    )
}

/// Loads a config from a text that is not saved yet, as if it stood in the file at `path`: relative paths are relative to that
/// file's folder. `name` stands for the file in problems.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn load_beside(
    path: &Path,
    (name, text): (&str, &str),
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Problems> {
    load_text(
        &Source {
            name,
            text,
            directory: path.parent(),
            stand_ins: None,
        },
        env,
    )
}

/// A text to load.
pub(crate) struct Source<'a> {
    /// What it is called in problems.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    /// What relative paths in it are relative to; none: the current directory.
    pub(crate) directory: Option<&'a Path>,
    /// What stands for the values of variables, where somebody asks who may not know them.
    pub(crate) stand_ins: Option<&'a StandIns<'a>>,
}

/// Reads the file at `path`, called `name` in problems.
pub(crate) fn read_named(path: &Path, name: &str) -> Result<String, Problems> {
    named(name, read(path))
}

/// As [`read_named`], of a file that is watched.
pub(crate) fn read_watched(path: &Path, name: &str) -> Result<String, Problems> {
    let regular = regular(path).map_err(|reason| format!("the file cannot be read: {reason}"));
    named(name, regular.and_then(|_| read(path)))
}

fn named(name: &str, read: Result<String, String>) -> Result<String, Problems> {
    read.map_err(|message| {
        let problem = Problem {
            file: name.to_owned(),
            line: 0,
            column: 0,
            path: String::new(),
            message,
            hint: None,
        };
        Problems::new(vec![problem])
    })
}

/// A hash of what the file at `path` holds, as a look at a watched file takes it: nothing is read that could block or has
/// no end, nor more than a config may have.
///
/// # Errors
/// Why it cannot be read.
pub fn hash_file(path: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| crate::secret::reason(&error);
    if regular(path)? > yaml::BYTES_MAX as u64 {
        return Err("the file is larger than 4 MiB".to_owned());
    }
    let mut bytes = Vec::new();
    let limit = yaml::BYTES_MAX as u64 + 1;
    std::fs::File::open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(told)?;
    Ok(text_hash(&bytes))
}

/// The length of the regular file at `path`, in bytes. Opening anything else, a pipe above all, may block for ever.
pub(crate) fn regular(path: &Path) -> Result<u64, String> {
    let about = std::fs::metadata(path).map_err(|error| crate::secret::reason(&error))?;
    match about.is_file() {
        true => Ok(about.len()),
        false => Err("it is no regular file".to_owned()),
    }
}

fn read(path: &Path) -> Result<String, String> {
    let limit = yaml::BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(limit).read_to_end(&mut bytes))
        .map_err(|error| format!("the file cannot be read: {}", crate::secret::reason(&error)))?;
    String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        format!("the file is not UTF-8 text; the first wrong byte is on line {line}")
    })
}

/// As [`load`], whatever the text comes from.
pub(crate) fn load_text(
    source: &Source<'_>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Problems> {
    let (tree, faults) = yaml::parse(source.name, source.text);
    let Some(tree) = tree else {
        return Err(Problems::new(faults));
    };
    let used = Used::default();
    let noted = |name: &str| used.note(name, env(name));
    let mut reader = Reader::new(tree, source.name, &noted);
    reader.directory = source.directory;
    reader.stand_ins = source.stand_ins;
    reader.problems = faults;
    let now = jiff::Timestamp::now().as_second();
    let config = File::from_node(&mut reader, Tree::ROOT).map(|file| resolve(&mut reader, file, now));
    let (mut problems, mut warnings) = (reader.problems, reader.warnings);
    let (shown, urls) = (reader.shown, reader.urls);
    for problem in problems.iter_mut().chain(&mut warnings) {
        used.hide(problem);
    }
    match config {
        Some(mut config) if problems.is_empty() => {
            problems::sort(&mut warnings);
            config.written = Arc::new(Written {
                text: source.text.to_owned().into(),
                shown,
                urls,
            });
            Ok(Loaded {
                config,
                warnings,
                text_hash: text_hash(source.text.as_bytes()),
            })
        }
        _ => Err(Problems::new(problems).beside(warnings)),
    }
}

/// Values of variables that are at least this long are taken out of what is said. Shorter ones are no secrets, and would
/// take innocent letters with them.
const HIDDEN_FROM: usize = 6;

/// The variables that a file uses, with their values.
#[derive(Default)]
struct Used(RefCell<BTreeMap<String, String>>);

impl Used {
    fn note(&self, name: &str, value: Option<String>) -> Option<String> {
        if let Some(value) = value.as_ref().filter(|value| value.len() >= HIDDEN_FROM) {
            self.0.borrow_mut().insert(name.to_owned(), value.clone());
        }
        value
    }

    /// Puts the names of variables in the place of their values: a value may be a secret that stands in a place where
    /// none belongs, and the person who wrote the file knows it by the name.
    fn hide(&self, problem: &mut Problem) {
        for (name, value) in &*self.0.borrow() {
            for text in [Some(&mut problem.message), problem.hint.as_mut()]
                .into_iter()
                .flatten()
            {
                hide_value(text, value, &format!("${{{name}}}"));
            }
        }
    }
}

/// Puts `name` in the place of `value` in `text`, also where its letters are small, or where it is cut before a `…`.
fn hide_value(text: &mut String, value: &str, name: &str) {
    let small = value.to_ascii_lowercase();
    let mut from = 0;
    while let Some(at) = text[from..].to_ascii_lowercase().find(&small) {
        let start = from + at;
        text.replace_range(start..start + value.len(), name);
        from = start + name.len();
    }
    let cuts: Vec<usize> = text.match_indices('…').map(|(at, _)| at).collect();
    for cut in cuts.into_iter().rev() {
        let before = text[..cut].to_ascii_lowercase();
        let begun = |end: &usize| small.is_char_boundary(*end) && before.ends_with(&small[..*end]);
        if let Some(length) = (HIDDEN_FROM..small.len()).rev().find(begun) {
            text.replace_range(cut - length..cut, name);
        }
    }
}

/// The hash by which [`Loaded::text_hash`] tells one text from another.
#[must_use]
pub fn text_hash(text: &[u8]) -> String {
    Sha256::digest(text)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_hidden_as_they_are_shown() {
        for (text, expect) in [
            ("no `Secret-Value` here", "no `${A}` here"),
            ("secret-valueSECRET-VALUE", "${A}${A}"),
            ("`xxSecret-V…` is long", "`xx${A}…` is long"),
            ("`xxSecre…` is too little", "`xxSecre…` is too little"),
            ("ä…", "ä…"),
        ] {
            let mut text = text.to_owned();
            hide_value(&mut text, "Secret-Value", "${A}");
            assert_eq!(text, expect);
        }
    }
}
