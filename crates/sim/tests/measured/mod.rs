//! Measured runs, read from the data folder.

#![allow(dead_code, reason = "each of the tests that share this takes a part")]

use serde_json::Value;
use std::path::{Path, PathBuf};

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn data() -> PathBuf {
    std::env::var_os("WEIGHBRIDGE_DATA").map_or_else(|| repository().join("../shared/data"), PathBuf::from)
}

pub(crate) fn read(path: &str) -> String {
    let path = data().join("calib").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}; set WEIGHBRIDGE_DATA to the folder of test data",
            path.display()
        )
    })
}

/// A JSON value's number at `path`, its keys parted by dots.
pub(crate) fn number(value: &Value, path: &str) -> f64 {
    let found = path.split('.').fold(value, |value, key| &value[key]);
    found.as_f64().unwrap_or_else(|| panic!("no number {path}"))
}
