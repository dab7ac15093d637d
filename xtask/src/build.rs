//! Building what is measured.

use crate::failure::{Failure, failed};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The executables of a build, by name.
pub(crate) struct Built(BTreeMap<String, PathBuf>);

impl Built {
    /// Where `name` is.
    pub(crate) fn path(&self, name: &str) -> Result<&Path, Failure> {
        self.0
            .get(name)
            .map(PathBuf::as_path)
            .ok_or_else(|| Failure::Failed(format!("cargo built no executable {name}")))
    }

    /// Puts another program in the place of `name`.
    pub(crate) fn replace(&mut self, name: &str, path: PathBuf) {
        self.0.insert(name.to_owned(), path);
    }
}

#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Builds with `cargo build` and `args`, whose own output goes to standard error.
pub(crate) fn build(args: &[&str]) -> Result<Built, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(root())
        .args(["build", "--locked", "--message-format=json-render-diagnostics"])
        .args(args)
        .stderr(Stdio::inherit())
        .output()
        .map_err(failed("cargo cannot be run"))?;
    if !output.status.success() {
        return Err(Failure::Failed("cargo build failed".into()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Message>(line).ok());
    Ok(Built(
        messages
            .filter_map(|message| Some((message.target?.name, message.executable?)))
            .collect(),
    ))
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The compiler's version, for example `1.95.0`.
pub(crate) fn rustc_version() -> Result<String, Failure> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .arg("--version")
        .output()
        .map_err(failed("rustc cannot be run"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().nth(1).unwrap_or("unknown").to_owned())
}

/// Whether `program` can be started with `args`.
pub(crate) fn is_installed(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
