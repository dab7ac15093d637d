//! Running a program under callgrind and reading what it counted.

use crate::build;
use crate::failure::{Failure, failed};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Refuses to go on without valgrind.
pub(super) fn check_installed() -> Result<(), Failure> {
    match build::is_installed("valgrind", &["--version"]) {
        true => Ok(()),
        false => Err(Failure::BadInput(
            "valgrind is missing: apt-get install valgrind".into(),
        )),
    }
}

/// `program` under callgrind, which writes one file per thread beside `out`.
pub(super) fn command(program: &Path, out: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command
        .args(["--tool=callgrind", "--quiet", "--separate-threads=yes"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program);
    command
}

/// What the threads whose functions include one that holds `function` have executed; all threads where it is empty.
pub(super) fn executed(out: &Path, function: &str) -> Result<u64, Failure> {
    let unreadable = || Failure::Failed(format!("callgrind wrote no counts to {}", out.display()));
    let (Some(dir), Some(name)) = (out.parent(), out.file_name().and_then(|name| name.to_str())) else {
        return Err(unreadable());
    };
    let thread = format!("{name}-");
    let mut total = 0;
    for entry in fs::read_dir(dir).map_err(failed(dir.display()))?.flatten() {
        let of_thread = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(&thread));
        if !of_thread {
            continue;
        }
        let text = fs::read_to_string(entry.path()).map_err(failed(entry.path().display()))?;
        if function.is_empty()
            || text
                .lines()
                .any(|line| line.starts_with("fn=") && line.contains(function))
        {
            total += summary(&text).ok_or_else(unreadable)?;
        }
    }
    match total {
        0 => Err(unreadable()),
        total => Ok(total),
    }
}

/// The number after `totals:`.
fn summary(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_by_their_functions() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("out", "");
        write("out-01", "thread: 1\nfn=(1) main\n3 4\ntotals: 100\n");
        write("out-02", "thread: 2\nfn=(7) gateway::serve\n3 4\ntotals: 23\n");
        write("other-01", "totals: 5\n");
        assert_eq!(executed(&out, "").unwrap(), 123);
        assert_eq!(executed(&out, "gateway::").unwrap(), 23);
        assert!(executed(&out, "nowhere").is_err());
    }
}
