//! `corpus write TARGET FOLDER` puts the seeds of a target into a folder; `corpus replay TARGET FOLDER` checks every input there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a tool of scripts/fuzz, which shows its panic"
)]

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::time::{Duration, Instant};
use weighbridge_fuzz_targets::{TARGETS, seeds};

/// Inputs that take longer are told of.
const SLOW: Duration = Duration::from_millis(500);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [how, name, folder] = arguments.as_slice() else {
        panic!("corpus write|replay TARGET FOLDER");
    };
    let folder = Path::new(folder);
    let target = TARGETS.iter().find(|target| target.name == *name);
    let target = target.expect("a target of this name");
    match how.as_str() {
        "write" => write(name, folder),
        _ => replay(target.check, folder),
    }
}

fn write(name: &str, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    let recorded = seeds::recorded(name);
    println!("{name}: {} recorded seeds", recorded.len());
    let borrowed = seeds::borrowed(name);
    for seed in seeds::own(name).into_iter().chain(recorded).chain(borrowed) {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        let file = folder.join(format!("{:016x}", hasher.finish()));
        fs::write(file, seed).expect("a file");
    }
}

fn replay(check: fn(&[u8]), folder: &Path) {
    let mut count = 0_u32;
    for file in fs::read_dir(folder).expect("a folder").flatten() {
        // A fuzzer at work drops what it can do without.
        if let Ok(input) = fs::read(file.path()) {
            let began = Instant::now();
            check(&input);
            if began.elapsed() > SLOW {
                println!("{:?} for {}", began.elapsed(), file.path().display());
            }
            count += 1;
        }
    }
    println!("{count} inputs hold");
}
