//! `cargo xtask bench`: what the gateway costs, beside other proxies and beside none at all.
//!
//! Every peer stands before the same upstream and gets the same load. The router under test has core 0 to itself and
//! one worker; the load generator and the upstream share core 1. Peers take turns window by window, so that what else
//! the machine does meets all of them. CPU time per request is the figure to trust: it depends least on the rest.

mod config;
mod figures;
mod memory;
mod peers;
mod report;
mod rows;
mod window;

use crate::build;
use crate::failure::{Failure, failed};
use crate::process;
use figures::Spread;
use memory::Values;
use peers::{Peer, PeerKind, Programs, Starter, Upstream};
use report::{Line, Report};
use rows::{Row, Spec};
use std::path::PathBuf;
use std::time::Duration;
use window::{Generator, Window};

const EXAMPLE: &str = "\
Examples:
  cargo xtask bench
  cargo xtask bench --peers ~/peers --rounds 5 --seconds 8
  cargo xtask bench stream slow --only weighbridge,nginx --rounds 1";

/// A window with failures is measured again this often before a peer is left out of its row.
const TRIES: u32 = 3;
/// Unmeasured load on every peer before the first window.
const WARM_UP: Duration = Duration::from_millis(500);

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Rows: requests bodies latency stream first-byte slow prompts idle memory; all where none is named.
    rows: Vec<String>,
    /// Windows of every row and peer; the rows idle and memory, whose peers start anew, have one.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds a window lasts, where its row does not say.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=300))]
    seconds: u32,
    /// Folder with programs of peers, in it, in its `bin`, or in the `bin` of a folder in it (as Python's environments
    /// have it). Peers that are neither there nor on the path are left out and named.
    #[arg(long, value_name = "DIR")]
    peers: Option<PathBuf>,
    /// Peers, separated by commas: direct weighbridge nginx nginx-log haproxy envoy caddy vllm-router sglang-router smg.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// A gateway that is already built, for example with profile-guided optimisation.
    #[arg(long, value_name = "PROGRAM")]
    gateway: Option<PathBuf>,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// What of `all` has one of `names`; all where there is none.
fn chosen<T: Copy>(names: &[String], all: &[T], name: fn(T) -> &'static str) -> Result<Vec<T>, Failure> {
    let find = |wanted: &String| {
        let found = all.iter().copied().find(|item| name(*item) == wanted.as_str());
        found.ok_or_else(|| {
            let known: Vec<&str> = all.iter().map(|item| name(*item)).collect();
            Failure::BadInput(format!("{wanted:?} is none of: {}", known.join(" ")))
        })
    };
    match names {
        [] => Ok(all.to_vec()),
        names => names.iter().map(find).collect(),
    }
}

fn check() -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cores < 2 {
        return Err(Failure::BadInput(
            "the bench needs two cores: one for the router, one for upstream and load".into(),
        ));
    }
    if !build::is_installed("taskset", &["--version"]) {
        return Err(Failure::BadInput(
            "taskset is missing: apt-get install util-linux".into(),
        ));
    }
    Ok(())
}

/// Measures and prints.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let rows = chosen(&args.rows, &Row::ALL, Row::name)?;
    let kinds = chosen(&args.only, &PeerKind::ALL, PeerKind::name)?;
    check()?;
    let (programs, missing) = Programs::find(&kinds, args.peers.as_deref());
    let kinds: Vec<PeerKind> = kinds.into_iter().filter(|kind| !missing.contains(kind)).collect();
    let packages = ["--package=weighbridge", "--package=weighbridge-test-engine"];
    let mut built = build::build(&[&["--release", "--bins"], &packages[..]].concat())?;
    if let Some(gateway) = &args.gateway {
        built.replace("weighbridge", gateway.clone());
    }
    let dir = tempfile::Builder::new()
        .prefix("weighbridge-bench-")
        .tempdir()
        .map_err(failed("no temporary directory"))?;
    let load_before = process::load_average();
    let mut bench = Bench {
        load: Generator::new(&built, dir.path())?,
        starter: Starter {
            built: &built,
            programs: &programs,
            dir: dir.path(),
        },
        args,
        refused: 0,
        notes: Vec::new(),
    };
    bench.notes.extend(
        missing
            .iter()
            .map(|kind| format!("{} is not installed", kind.name())),
    );
    let mut lines = Vec::new();
    for row in rows {
        lines.extend(bench.row(row, &kinds)?);
    }
    let report = Report {
        rounds: args.rounds,
        seconds: args.seconds,
        load_average: [load_before, process::load_average()],
        refused: bench.refused,
        notes: bench.notes,
        peers: kinds,
        lines,
    };
    report.print(args.json);
    Ok(())
}

struct Bench<'a> {
    load: Generator,
    starter: Starter<'a>,
    args: &'a Args,
    refused: u32,
    /// For the reader: what is missing and why.
    notes: Vec<String>,
}

/// What a row gave: the values of every round, by peer.
type Measured = Vec<(PeerKind, Vec<Values>)>;

impl Bench<'_> {
    fn row(&mut self, row: Row, kinds: &[PeerKind]) -> Result<Vec<Line>, Failure> {
        let measured = match row.needs_fresh_peers() {
            true => self.fresh(row, kinds),
            false => self.in_turns(row, kinds)?,
        };
        let line = |figure: figures::Figure| {
            let spread = |(kind, rounds): &(PeerKind, Vec<Values>)| {
                let values = rounds.iter().filter_map(|values| values.get(figure.key).copied());
                Some((*kind, Spread::of(values)?))
            };
            Line {
                by_peer: measured.iter().filter_map(spread).collect(),
                figure,
            }
        };
        Ok(row.figures().into_iter().map(line).collect())
    }

    /// One window after another, each peer newly started before an upstream of its own: one that waits between two
    /// events does not see that a router has gone.
    fn fresh(&mut self, row: Row, kinds: &[PeerKind]) -> Measured {
        let window = Duration::from_secs(u64::from(self.args.seconds));
        let mut measured = Measured::new();
        for kind in kinds.iter().filter(|kind| **kind != PeerKind::Direct) {
            eprintln!("{}: {} …", row.name(), kind.name());
            let values = || {
                let upstream = Upstream::start(self.starter.built, &row.upstream())?;
                let mut peer = self.starter.start(*kind, (&upstream, row.policies()))?;
                let values = match row {
                    Row::Idle => memory::idle(&self.load, &mut peer),
                    _ => memory::memory(&self.load, &mut peer, window),
                };
                peer.stop()?;
                values
            };
            match values() {
                Ok(values) => measured.push((*kind, vec![values])),
                Err(failure) => self.note(row, *kind, &failure),
            }
        }
        measured
    }

    /// All peers at once, one window of each after another; each round begins with another peer.
    fn in_turns(&mut self, row: Row, kinds: &[PeerKind]) -> Result<Measured, Failure> {
        let upstream = Upstream::start(self.starter.built, &row.upstream())?;
        let mut peers = Vec::new();
        for kind in kinds {
            match self
                .starter
                .start(*kind, (&upstream, row.policies()))
                .and_then(|peer| self.warm(row, peer))
            {
                Ok(peer) => peers.push(peer),
                Err(failure) => self.note(row, *kind, &failure),
            }
        }
        let mut measured: Measured = peers.iter().map(|peer| (peer.kind, Vec::new())).collect();
        for round in 0..self.args.rounds as usize {
            eprintln!("{}: round {} of {} …", row.name(), round + 1, self.args.rounds);
            let mut windows: Vec<(usize, Vec<Window>)> = Vec::new();
            for turn in 0..peers.len() {
                let index = (turn + round) % peers.len();
                let peer = &mut peers[index];
                match row.specs().iter().map(|spec| self.window(peer, spec)).collect() {
                    Ok(of_peer) => windows.push((index, of_peer)),
                    Err(failure) => {
                        let kind = peers[index].kind;
                        self.note(row, kind, &failure);
                    }
                }
            }
            let direct = windows
                .iter()
                .find_map(|(index, windows)| (peers[*index].kind == PeerKind::Direct).then_some(windows));
            for (index, of_peer) in &windows {
                measured[*index]
                    .1
                    .push(values(row, of_peer, direct.map(Vec::as_slice)));
            }
        }
        for peer in peers {
            peer.stop()?;
        }
        Ok(measured)
    }

    fn note(&mut self, row: Row, kind: PeerKind, failure: &Failure) {
        let note = format!("{}, {}: {failure}", row.name(), kind.name());
        eprintln!("{note}");
        self.notes.push(note);
    }

    fn warm(&self, row: Row, mut peer: Peer) -> Result<Peer, Failure> {
        for spec in row.specs() {
            // Slow streams last longer than any warming up.
            let spec = Spec {
                connections: spec.connections.min(64),
                stream: spec.stream && spec.seconds.is_none(),
                ..*spec
            };
            self.load.run(&mut peer, &spec, WARM_UP)?;
        }
        Ok(peer)
    }

    /// One window without failures.
    fn window(&mut self, peer: &mut Peer, spec: &Spec) -> Result<Window, Failure> {
        let seconds = spec.seconds.unwrap_or(self.args.seconds);
        let mut said = String::new();
        for _ in 0..TRIES {
            let window = self
                .load
                .run(peer, spec, Duration::from_secs(u64::from(seconds)))?;
            match window.failures() {
                None => return Ok(window),
                Some(failures) => said = failures,
            }
            self.refused += 1;
            eprintln!("{}: window refused: {said}", peer.kind.name());
        }
        Err(Failure::Failed(format!(
            "failed requests in {TRIES} windows: {said}"
        )))
    }
}

/// The figures of one peer in one round.
fn values(row: Row, windows: &[Window], direct: Option<&[Window]>) -> Values {
    let value = |figure: figures::Figure| {
        let own = figure.of(windows)?;
        let value = match figure.is_added {
            // Without a proxy nothing is added.
            true => own - figure.of(direct.filter(|direct| !std::ptr::eq(*direct, windows))?)?,
            false => own,
        };
        Some((figure.key, value))
    };
    row.figures().into_iter().filter_map(value).collect()
}
