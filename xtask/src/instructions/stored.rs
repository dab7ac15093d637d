//! The numbers in the repository.

use super::Counts;
use crate::build;
use crate::failure::{Failure, failed};
use serde::{Deserialize, Serialize};
use std::fs;

const FILE: &str = "benches/instructions.json";
/// Largest rise that passes, per cent.
const RISE_MAX: u64 = 5;

/// What is stored.
#[derive(Deserialize, Serialize)]
pub(super) struct Stored {
    /// The compiler that the counts are of.
    rustc: String,
    /// Instructions per unit of work.
    instructions: Counts,
}

impl Stored {
    pub(super) fn read() -> Result<Self, Failure> {
        let path = build::root().join(FILE);
        if !path.exists() {
            return Ok(Self {
                rustc: String::new(),
                instructions: Counts::new(),
            });
        }
        let text = fs::read_to_string(&path).map_err(failed(FILE))?;
        serde_json::from_str(&text)
            .map_err(|error| Failure::BadInput(format!("{FILE}: {error}; mend it or take it from git")))
    }

    /// Stores `counts`; benches that were not counted keep their numbers.
    pub(super) fn update(&mut self, counts: Counts) -> Result<(), Failure> {
        for (name, count) in &counts {
            println!("{}", line(name, self.instructions.get(name).copied(), *count));
        }
        self.rustc = build::rustc_version()?;
        self.instructions.extend(counts);
        let text = serde_json::to_string_pretty(self).map_err(failed(FILE))?;
        let path = build::root().join(FILE);
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(failed(FILE))?;
        }
        fs::write(&path, text + "\n").map_err(failed(FILE))?;
        println!("stored in {FILE}");
        Ok(())
    }

    /// Prints every count beside its stored one.
    ///
    /// # Errors
    /// When one rose too far, or none is stored.
    pub(super) fn compare(&self, counts: &Counts) -> Result<(), Failure> {
        let mut complaints = Vec::new();
        for (name, count) in counts {
            let before = self.instructions.get(name).copied();
            println!("{}", line(name, before, *count));
            match before {
                None => complaints.push(format!("{name}: {count} instructions, and none stored")),
                Some(before) if count * 100 > before * (100 + RISE_MAX) => complaints.push(format!(
                    "{name}: {count} instructions, {before} stored: {:+.1} %",
                    rise(before, *count)
                )),
                Some(_) => {}
            }
        }
        if complaints.is_empty() {
            return Ok(());
        }
        let rustc = build::rustc_version()?;
        if rustc != self.rustc {
            complaints.push(format!(
                "the stored counts are of rustc {}, this is rustc {rustc}",
                self.rustc
            ));
        }
        Err(Failure::Failed(format!(
            "instruction counts rose by more than {RISE_MAX} %:\n  {}\nIf that is meant, store the new ones: \
             cargo xtask instructions --update, and say why in the commit",
            complaints.join("\n  ")
        )))
    }
}

/// Per cent.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn rise(before: u64, now: u64) -> f64 {
    (now as f64 / before.max(1) as f64 - 1.0) * 100.0
}

fn line(name: &str, before: Option<u64>, now: u64) -> String {
    match before {
        Some(before) => format!(
            "{name:<28} {now:>10}  stored {before:>10}  {:+.1} %",
            rise(before, now)
        ),
        None => format!("{name:<28} {now:>10}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Stored {
        Stored {
            rustc: "1.0.0".into(),
            instructions: Counts::from([("a".into(), 1000), ("b".into(), 1000)]),
        }
    }

    #[test]
    fn small_rises_pass_and_large_ones_say_what_to_do() {
        let counts = |a, b| Counts::from([("a".into(), a), ("b".into(), b)]);
        assert!(stored().compare(&counts(1050, 200)).is_ok());
        let failure = stored().compare(&counts(1051, 1000)).unwrap_err().to_string();
        for part in [
            "a: 1051 instructions, 1000 stored: +5.1 %",
            "--update",
            "rustc 1.0.0",
        ] {
            assert!(failure.contains(part), "{failure}");
        }
        assert!(!failure.contains("b:"), "{failure}");
    }

    #[test]
    fn a_new_bench_must_be_stored() {
        let failure = stored().compare(&Counts::from([("c".into(), 1)])).unwrap_err();
        assert!(failure.to_string().contains("c: 1 instructions, and none stored"));
    }
}
