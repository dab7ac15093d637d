//! Benches that are programs of their own: they do the same work a given number of times.

use super::{Counts, callgrind};
use crate::build::Built;
use crate::failure::{Failure, failed};
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};

/// Iterations of the short run, which warms up what the long run repeats.
const SHORT: u64 = 20;

struct Bench {
    name: &'static str,
    program: &'static str,
    args: &'static [&'static str],
    /// Iterations beyond the short run.
    iterations: u64,
}

/// Prefix, load and latency scorers, a prompt of 8k tokens, engines that tell of themselves, requests under way.
const fn aware(candidates: &'static str, inflight: &'static str) -> [&'static str; 9] {
    let policies = "prefix_cache,least_work,latency";
    [
        "--candidates",
        candidates,
        "--inflight",
        inflight,
        "--policies",
        policies,
        "--prompt-tokens",
        "8192",
        "--readings",
    ]
}

const AWARE_128: [&str; 9] = aware("128", "4");
/// Idle, since it is a matter of minutes to give as many engines work one decision after the other.
const AWARE_4000: [&str; 9] = aware("4000", "0");

/// What a route gets whose config says nothing of policies, as [`aware`] otherwise; requests take time, so that it has measured what a
/// token takes, and engines tell of requests of others, so that it looks for the owner of each prompt.
const fn auto(candidates: &'static str) -> [&'static str; 11] {
    [
        "--candidates",
        candidates,
        "--inflight",
        "4",
        "--preset",
        "auto",
        "--prompt-tokens",
        "8192",
        "--readings",
        "--takes",
        "40",
    ]
}

const AUTO_8: [&str; 11] = auto("8");
const AUTO_64: [&str; 11] = auto("64");
const AUTO_128: [&str; 11] = auto("128");
const AUTO_512: [&str; 11] = auto("512");

const BENCHES: [Bench; 21] = [
    decision("decision/8", &["--candidates", "8"], 2000),
    decision("decision/64", &["--candidates", "64"], 1000),
    decision("decision/512", &["--candidates", "512"], 200),
    decision("engine-aware/128", &AWARE_128, 400),
    decision("engine-aware/4000", &AWARE_4000, 40),
    decision("auto/8", &AUTO_8, 2000),
    decision("auto/64", &AUTO_64, 1000),
    decision("auto/128", &AUTO_128, 400),
    decision("auto/512", &AUTO_512, 200),
    bodies("peek/200B", &["peek", "200"], 1000),
    bodies("peek/16KiB", &["peek", "16384"], 200),
    bodies("peek/400KB", &["peek", "400000"], 20),
    bodies("prompt/2KiB", &["prompt", "2048"], 500),
    bodies("prompt/16KiB", &["prompt", "16384"], 200),
    bodies("prompt/400KB", &["prompt", "400000"], 20),
    bodies("rewrite_model/200B", &["rewrite", "200"], 1000),
    bodies("rewrite_model/16KiB", &["rewrite", "16384"], 200),
    bodies("rewrite_model/400KB", &["rewrite", "400000"], 20),
    bodies("observe/128-chunk-stream", &["observe", "128"], 50),
    bodies("inject/128-chunk-stream", &["inject", "128"], 50),
    bodies("inject/128-chunk-stream-with-nulls", &["inject-null", "128"], 50),
];

/// Arrival, choice, reservation and end of a request among candidates.
const fn decision(name: &'static str, args: &'static [&'static str], iterations: u64) -> Bench {
    Bench {
        name,
        program: "decision",
        args,
        iterations,
    }
}

/// Work on the bytes of a body.
const fn bodies(name: &'static str, args: &'static [&'static str], iterations: u64) -> Bench {
    Bench {
        name,
        program: "bodies",
        args,
        iterations,
    }
}

/// Counts every bench that `wanted` names, on each core one after the other: what is counted is no time.
pub(super) fn count(built: &Built, wanted: &(dyn Fn(&str) -> bool + Sync)) -> Result<Counts, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let left = Mutex::new(BENCHES.iter().filter(|bench| wanted(bench.name)));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || {
        std::iter::from_fn(next)
            .map(|bench| slope(built, bench))
            .collect()
    };
    std::thread::scope(|scope| {
        let counting: Vec<_> = (0..cores).map(|_| scope.spawn(some)).collect();
        let mut counts = Counts::new();
        for one in counting {
            let ended: Result<Counts, Failure> = one
                .join()
                .map_err(|_| Failure::Failed("counting ended in a panic".into()))?;
            counts.extend(ended?);
        }
        Ok(counts)
    })
}

/// Instructions per iteration, with the bench's name.
fn slope(built: &Built, bench: &Bench) -> Result<(String, u64), Failure> {
    eprintln!("{} …", bench.name);
    let program = built.path(bench.program)?;
    let short = executed(bench, program, SHORT)?;
    let long = executed(bench, program, SHORT + bench.iterations)?;
    Ok((
        bench.name.to_owned(),
        long.saturating_sub(short) / bench.iterations,
    ))
}

fn executed(bench: &Bench, program: &Path, iterations: u64) -> Result<u64, Failure> {
    let dir = tempfile::tempdir().map_err(failed("no temporary directory"))?;
    let out = dir.path().join("callgrind");
    let status = callgrind::command(program, &out)
        .args(bench.args)
        .args(["--iterations", &iterations.to_string()])
        .stdin(Stdio::null())
        .status()
        .map_err(failed("valgrind cannot be run"))?;
    if !status.success() {
        return Err(Failure::Failed(format!(
            "{} failed under valgrind: {status}",
            bench.name
        )));
    }
    callgrind::executed(&out, "")
}
