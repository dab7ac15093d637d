//! Where the requests come from.

use super::Traffic;
use crate::exit::Failure;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weighbridge_sim::workload::spec::Spec;
use weighbridge_sim::workload::{NAMED, Read, Workload, generate, named, read, transform};

/// The workload that is simulated without any being named.
const USUAL: &str = "shop";

/// Bad rows of a trace that are named in the report.
const BAD_NAMED: usize = 10;

/// Largest file of a workload's spec, bytes.
const SPEC_MAX: u64 = 1 << 20;

/// A trace that has been read, or what is generated anew for every seed.
pub(super) struct Source {
    kind: Kind,
    changes: Changes,
    /// What a reader should know of the trace.
    pub(super) notes: Vec<String>,
    /// The last workload that was made: the next run mostly wants the same.
    last: Mutex<Option<(u64, Arc<Workload>)>>,
}

enum Kind {
    Trace(Workload),
    Generated(Box<Spec>),
}

/// Seconds.
const DAY: u64 = 24 * 3600;
/// Virtual time up to the last request at most: engines are read every second, whether or not anything happens.
const LONGEST: Duration = Duration::from_secs(100 * DAY);

/// What is done to a workload before it runs.
struct Changes {
    speedup: f64,
    from: Option<Duration>,
    to: Option<Duration>,
    first: Option<usize>,
    jitter: bool,
}

impl Source {
    /// Reads what is asked for.
    pub(super) fn of(args: &Traffic) -> Result<Self, Failure> {
        let (kind, notes) = match (&args.trace, &args.spec) {
            (Some(path), _) => trace(path, args)?,
            (None, Some(spec)) => (Kind::Generated(spec.clone()), Vec::new()),
            (None, None) => (
                Kind::Generated(Box::new(spec(args.workload.as_deref().unwrap_or(USUAL))?)),
                Vec::new(),
            ),
        };
        if let (Some(from), Some(to)) = (args.from, args.to)
            && from >= to
        {
            return Err(Failure::BadInput("--from must be before --to".to_owned()));
        }
        let changes = Changes {
            speedup: args.speedup,
            from: args.from,
            to: args.to,
            first: args.first.map(std::num::NonZero::get),
            jitter: args.jitter,
        };
        Ok(Self {
            kind,
            changes,
            notes,
            last: Mutex::default(),
        })
    }

    /// Whether all seeds give the same requests.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self.kind, Kind::Trace(_)) && !self.changes.jitter
    }

    /// The requests of this seed.
    pub(super) fn workload(&self, seed: u64) -> Result<Arc<Workload>, Failure> {
        let seed = if self.is_fixed() { 0 } else { seed };
        let mut last = self
            .last
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((of, workload)) = last.as_ref()
            && *of == seed
        {
            return Ok(workload.clone());
        }
        // Given up before the next is made, which may be as large.
        *last = None;
        let workload = Arc::new(self.made(seed)?);
        *last = Some((seed, workload.clone()));
        Ok(workload)
    }

    fn made(&self, seed: u64) -> Result<Workload, Failure> {
        let mut workload = match &self.kind {
            Kind::Trace(workload) => workload.clone(),
            Kind::Generated(spec) => generate(spec, seed)
                .map_err(|error| Failure::BadInput(format!("--workload {}: {error}", spec.name)))?,
        };
        let Changes {
            speedup,
            from,
            to,
            first,
            jitter,
        } = self.changes;
        if from.is_some() || to.is_some() {
            transform::slice(
                &mut workload,
                from.unwrap_or_default()..to.unwrap_or(Duration::MAX),
            );
        }
        if let Some(first) = first {
            transform::first(&mut workload, first);
        }
        if jitter {
            transform::jitter(&mut workload, seed);
        }
        transform::speed_up(&mut workload, speedup);
        if workload.requests.is_empty() {
            return Err(Failure::BadInput("--from and --to leave no request".to_owned()));
        }
        let last = workload.requests.iter().map(|request| request.at).max();
        if last.is_some_and(|last| last > LONGEST) {
            return Err(Failure::BadInput(format!(
                "the last request would come after {} days, more than {} are not simulated; {}",
                last.unwrap_or_default().as_secs() / DAY,
                LONGEST.as_secs() / DAY,
                match speedup < 1.0 {
                    true => "give a larger --speedup",
                    false => "check the times in the trace, or take a part of it with --from and --to",
                }
            )));
        }
        Ok(workload)
    }
}

fn trace(path: &Path, args: &Traffic) -> Result<(Kind, Vec<String>), Failure> {
    let bad = |what: String| Failure::BadInput(format!("--trace {}: {what}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| bad(error.to_string()))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let source = std::io::BufReader::with_capacity(1 << 16, file);
    let read = read(source, &name, args.format).map_err(|error| bad(error.to_string()))?;
    let notes = notes(&read);
    Ok((Kind::Trace(read.workload), notes))
}

fn notes(read: &Read) -> Vec<String> {
    let mut notes = read.notes.clone();
    if read.bad_total > 0 {
        let named: Vec<String> = read.bad.iter().take(BAD_NAMED).map(ToString::to_string).collect();
        let more = read.bad_total.saturating_sub(named.len() as u64);
        let more = if more > 0 {
            format!("; and {more} more")
        } else {
            String::new()
        };
        let all = read.bad_total + read.workload.requests.len() as u64;
        notes.push(format!(
            "{} of {all} rows could not be read and are left out: {}{more}",
            read.bad_total,
            named.join("; ")
        ));
    }
    notes
}

/// A workload by name, or from a file.
fn spec(name: &str) -> Result<Spec, Failure> {
    let bad = |what: String| Failure::BadInput(format!("--workload {name}: {what}"));
    let path = Path::new(name);
    let looks_like_file = path.extension().is_some() || name.contains(std::path::MAIN_SEPARATOR);
    if !looks_like_file && !path.is_file() {
        return named(name).map_err(|_| {
            let names: Vec<String> = NAMED
                .iter()
                .map(|(name, what)| format!("  {name:<14} {what}"))
                .collect();
            bad(format!(
                "there is no such workload and no such file; there are\n{}",
                names.join("\n")
            ))
        });
    }
    let text = read_small(path).map_err(bad)?;
    from_yaml(&text).map_err(bad)
}

/// Reads what a person writes. An error has its place and no line of the file: one that is given by mistake may hold anything,
/// keys too.
pub(super) fn from_yaml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

/// A file that a person writes.
pub(super) fn read_small(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(SPEC_MAX)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 == SPEC_MAX {
        return Err("the file is larger than 1 MiB".to_owned());
    }
    Ok(text)
}
