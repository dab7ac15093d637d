//! `cargo xtask bench`: what the gateway costs, beside nginx and beside no proxy at all.
//!
//! Every peer stands before the same upstreams and gets the same load. The router under test has core 0 to itself and
//! one worker; the load generator and the upstreams share core 1. Peers take turns window by window, so that what else
//! the machine does meets all of them. CPU time per request is the figure to trust: it depends least on the rest.

mod config;
mod figures;
mod load;
mod peers;
mod report;

use crate::build::{self, Built};
use crate::failure::Failure;
use crate::process;
use figures::{Figures, Round};
use load::{Measure, Window};
use peers::{Peer, PeerKind, Upstreams};
use report::Report;
use std::time::Duration;

const EXAMPLE: &str = "\
Examples:
  cargo xtask bench
  cargo xtask bench --rounds 5 --seconds 8
  cargo xtask bench --only weighbridge,nginx,requests --rounds 1";

/// A window with failures is measured again this often before the bench gives up.
const TRIES: u32 = 3;
/// Unmeasured load on every peer before the first window.
const WARM_UP: Duration = Duration::from_millis(500);

/// Arguments of `cargo xtask bench`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// Windows of every measure and peer.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds a window lasts.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=300))]
    seconds: u32,
    /// Peers (direct nginx nginx-log weighbridge) and measures (requests latency first-chunk chunks), separated by
    /// commas; all where none is named.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// What is to be measured.
struct Selection {
    peers: Vec<PeerKind>,
    measures: Vec<Measure>,
}

impl Selection {
    fn new(only: &[String]) -> Result<Self, Failure> {
        let mut chosen = Self {
            peers: Vec::new(),
            measures: Vec::new(),
        };
        for name in only {
            if let Some(peer) = PeerKind::ALL.into_iter().find(|peer| peer.name() == name) {
                chosen.peers.push(peer);
            } else if let Some(measure) = Measure::ALL.into_iter().find(|measure| measure.name() == name) {
                chosen.measures.push(measure);
            } else {
                let peers = PeerKind::ALL.map(PeerKind::name).join(" ");
                let measures = Measure::ALL.map(Measure::name).join(" ");
                return Err(Failure::BadInput(format!(
                    "--only: {name:?} is neither a peer ({peers}) nor a measure ({measures})"
                )));
            }
        }
        if chosen.peers.is_empty() {
            chosen.peers = PeerKind::ALL.to_vec();
        }
        if chosen.measures.is_empty() {
            chosen.measures = Measure::ALL.to_vec();
        }
        Ok(chosen)
    }

    fn check(&self) -> Result<(), Failure> {
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
        let nginx = self.peers.iter().any(|peer| peer.is_nginx());
        if nginx && !build::is_installed("nginx", &["-v"]) {
            return Err(Failure::BadInput(
                "nginx is missing: apt-get install nginx (or leave it out: --only direct,weighbridge)".into(),
            ));
        }
        Ok(())
    }
}

/// Measures and prints.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let selection = Selection::new(&args.only)?;
    selection.check()?;
    let packages = ["--package=weighbridge", "--package=weighbridge-test-engine"];
    let built = build::build(&[&["--release", "--bins"], &packages[..]].concat())?;
    let load_before = process::load_average();
    let measured = measure(args, &selection, &built)?;
    let report = Report {
        rounds: args.rounds,
        seconds: args.seconds,
        load_average: [load_before, process::load_average()],
        refused: measured.refused,
        peers: measured.peers,
    };
    report.print(args.json);
    Ok(())
}

struct Measured {
    peers: Vec<(PeerKind, Figures)>,
    refused: u32,
}

fn measure(args: &Args, selection: &Selection, built: &Built) -> Result<Measured, Failure> {
    let dir = tempfile::Builder::new()
        .prefix("weighbridge-bench-")
        .tempdir()
        .map_err(crate::failure::failed("no temporary directory"))?;
    let upstreams = Upstreams::start(built)?;
    let mut peers = Vec::new();
    for kind in &selection.peers {
        peers.push(Peer::start(*kind, built, &upstreams, dir.path())?);
    }
    let mut bench = Bench {
        load: load::Generator::new(built, dir.path())?,
        window: Duration::from_secs(u64::from(args.seconds)),
        refused: 0,
    };
    for peer in &mut peers {
        for measure in &selection.measures {
            bench.load.run(peer, *measure, WARM_UP)?;
        }
    }
    let mut rounds = Vec::new();
    for number in 0..args.rounds {
        eprintln!("round {} of {} …", number + 1, args.rounds);
        rounds.push(bench.round(&mut peers, &selection.measures, number)?);
    }
    let idle: Vec<f64> = peers.iter().map(|peer| peer.idle_rss_mib).collect();
    let figures = figures::of_rounds(&selection.peers, &idle, &rounds);
    for peer in peers {
        peer.stop()?;
    }
    Ok(Measured {
        peers: figures,
        refused: bench.refused,
    })
}

struct Bench {
    load: load::Generator,
    window: Duration,
    refused: u32,
}

impl Bench {
    /// One window of every measure on every peer; each round begins with another peer.
    fn round(&mut self, peers: &mut [Peer], measures: &[Measure], number: u32) -> Result<Round, Failure> {
        let mut round = Round::default();
        for measure in measures {
            for turn in 0..peers.len() {
                let index = (turn + number as usize) % peers.len();
                let window = self.window(&mut peers[index], *measure)?;
                round.add(peers[index].kind, *measure, window);
            }
        }
        Ok(round)
    }

    /// One window without failures.
    fn window(&mut self, peer: &mut Peer, measure: Measure) -> Result<Window, Failure> {
        let mut said = String::new();
        for _ in 0..TRIES {
            let window = self.load.run(peer, measure, self.window)?;
            match window.failures() {
                None => return Ok(window),
                Some(failures) => said = failures,
            }
            self.refused += 1;
            eprintln!("{}, {}: window refused: {said}", peer.kind.name(), measure.name());
        }
        Err(Failure::Failed(format!(
            "{} failed requests in {TRIES} windows of {}: {said}",
            peer.kind.name(),
            measure.name()
        )))
    }
}
