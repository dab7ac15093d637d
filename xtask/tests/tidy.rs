//! Tidy checks over the repository's files: what reviewers should not have to look for.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed check is reported by its panic"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest source file, lines; most are a quarter of that.
const LINES_MAX: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_path_buf()
}

/// The files of the repository, tracked or new, without what is ignored.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git lists the files");
    assert!(
        listed.status.success(),
        "git: {}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let names = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<PathBuf> = names
        .lines()
        .map(PathBuf::from)
        .filter(|file| root().join(file).is_file())
        .collect();
    assert!(files.len() > 50, "the list of files is too short to be true");
    files
}

fn ends_with(file: &Path, endings: &[&str]) -> bool {
    file.extension()
        .and_then(|end| end.to_str())
        .is_some_and(|end| endings.contains(&end))
}

fn text(file: &Path) -> Option<String> {
    String::from_utf8(std::fs::read(root().join(file)).unwrap()).ok()
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn no_source_file_is_too_long() {
    let long = files()
        .into_iter()
        .filter(|file| ends_with(file, &["rs", "py"]))
        .filter_map(|file| {
            let lines = text(&file)?.lines().count();
            (lines > LINES_MAX).then(|| format!("{}: {lines} lines; split it", file.display()))
        });
    report(&long.collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_unfinished_or_skipped() {
    // In halves, so that this file does not find itself.
    let halves = [
        ("TO", "DO"),
        ("FIX", "ME"),
        ("XX", "X"),
        ("#[ign", "ore"),
        ("unittest.sk", "ip"),
        ("pytest.mark.sk", "ip"),
    ];
    let marks = halves.map(|(one, other)| format!("{one}{other}"));
    let mut problems = Vec::new();
    for file in files()
        .into_iter()
        .filter(|file| ends_with(file, &["rs", "py", "sh", "toml"]))
    {
        for (number, line) in text(&file).unwrap_or_default().lines().enumerate() {
            if let Some(mark) = marks.iter().find(|mark| line.contains(mark.as_str())) {
                problems.push(format!("{}:{}: {mark}", file.display(), number + 1));
            }
        }
    }
    report(&problems);
}

#[test]
fn no_file_names_a_place_outside_the_repository() {
    let places = [("/ro", "ot/"), ("/wo", "rk/"), ("/ho", "me/")].map(|(one, other)| format!("{one}{other}"));
    let mut problems = Vec::new();
    for file in files() {
        if file.ends_with("Cargo.lock") {
            continue;
        }
        for (number, line) in text(&file).unwrap_or_default().lines().enumerate() {
            let bytes = line.as_bytes();
            let found = places.iter().any(|place| {
                line.match_indices(place.as_str()).any(|(at, _)| {
                    at == 0 || !(bytes[at - 1].is_ascii_alphanumeric() || b"._-/}$".contains(&bytes[at - 1]))
                })
            });
            if found {
                problems.push(format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    report(&problems);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut problems = Vec::new();
    for file in files().into_iter().filter(|file| ends_with(file, &["md"])) {
        let text = text(&file).unwrap_or_default();
        let here = file.parent().unwrap_or(Path::new(""));
        for (at, _) in text.match_indices("](") {
            let Some(target) = text[at + 2..].split(')').next() else {
                continue;
            };
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            if !root().join(here).join(path).exists() {
                problems.push(format!("{}: ({target}) is not there", file.display()));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_crate_of_the_map_exists_and_the_reverse() {
    let map = text(Path::new("ARCHITECTURE.md")).unwrap();
    let rows = |name: &str| map.contains(&format!("| `{name}` |"));
    let crates: Vec<String> = std::fs::read_dir(root().join("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let unmapped: Vec<_> = crates
        .iter()
        .filter(|name| !rows(name))
        .map(|name| format!("crates/{name} is not in the code map"))
        .collect();
    report(&unmapped);
}
