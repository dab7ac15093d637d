//! The public recordings of real servers, which live outside the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// The recordings: `WEIGHBRIDGE_DATA`, else beside the repository.
fn root() -> PathBuf {
    let data = std::env::var_os("WEIGHBRIDGE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    data.join("wire")
}

pub(crate) fn read(path: &str) -> Vec<u8> {
    let path = root().join(path);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; set WEIGHBRIDGE_DATA", path.display()))
}

/// A recording that need not be there.
pub(crate) fn found(path: &str) -> Option<Vec<u8>> {
    fs::read(root().join(path)).ok()
}

/// All recordings whose name ends so, in order, as paths below the root.
pub(crate) fn ending(suffix: &str) -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    let folders = fs::read_dir(&root)
        .unwrap_or_else(|error| panic!("{}: {error}; set WEIGHBRIDGE_DATA", root.display()));
    for folder in folders
        .map(|folder| folder.unwrap().path())
        .filter(|folder| folder.is_dir())
    {
        for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
            if file.to_string_lossy().ends_with(suffix) {
                found.push(file.strip_prefix(&root).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "no recording ends in {suffix}");
    found
}

/// A recorded stream as it came over the wire. Some recordings keep only the data of each event, one a line.
pub(crate) fn stream(path: &str) -> Vec<u8> {
    let recorded = read(path);
    if !path.ends_with(".chunks.txt") {
        return recorded;
    }
    let mut stream = String::new();
    for line in String::from_utf8(recorded)
        .unwrap()
        .lines()
        .filter(|line| !line.trim().is_empty())
    {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        if let Some(name) = event["type"].as_str() {
            stream.push_str(&format!("event: {name}\n"));
        }
        stream.push_str(&format!("data: {line}\n\n"));
    }
    stream.into_bytes()
}

/// Every recorded stream, with its path.
pub(crate) fn streams() -> Vec<(String, Vec<u8>)> {
    let paths = [ending(".sse"), ending("_response.txt"), ending(".chunks.txt")].concat();
    paths
        .into_iter()
        .map(|path| (path.clone(), stream(&path)))
        .collect()
}

/// The streams that are recorded as a list of the data of their events, as the streams they were, with their paths.
pub(crate) fn snapshots() -> Vec<(String, Vec<u8>)> {
    let lists = ending(".json").into_iter().filter_map(|path| {
        let events: serde_json::Value = serde_json::from_slice(&read(&path)).ok()?;
        let events = events.as_array().filter(|events| !events.is_empty())?;
        let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        Some((path, stream.into_bytes()))
    });
    let found: Vec<_> = lists.collect();
    assert!(found.len() > 5, "{} lists", found.len());
    found
}
