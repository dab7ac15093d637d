//! The command line of the test tools.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool: its result goes to stdout, its complaints to stderr"
)]

use clap::{Args, Parser, Subcommand};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use weighbridge_test_engine::fast::{Fast, FastOptions};
use weighbridge_test_engine::load::{Load, chat_body, hold};
use weighbridge_test_engine::upstream::{Options, Upstream};

/// Upstreams and load for tests and benchmarks of Weighbridge.
#[derive(Parser)]
#[command(name = "test-engine")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Scriptable upstreams, one per port; see the documentation of the library's `upstream` module.
    Upstream(UpstreamArgs),
    /// A very cheap upstream with canned answers.
    Fast(FastArgs),
    /// Sends load to a loopback address and prints one JSON object.
    Load(LoadArgs),
}

#[derive(Args)]
struct UpstreamArgs {
    /// Ports, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "9001,9002,9003")]
    ports: Vec<u16>,
    /// Names, separated by commas; A, B, C, … where none is given.
    #[arg(long, value_delimiter = ',')]
    names: Vec<String>,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// Mode keys for every answer, for example proto10.
    #[arg(long, default_value = "")]
    always: String,
}

#[derive(Args)]
struct FastArgs {
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1:18000")]
    listen: SocketAddr,
    /// Text events of a stream.
    #[arg(long, default_value_t = 32)]
    chunks: usize,
    /// Microseconds between the events of a stream.
    #[arg(long, default_value_t = 0)]
    gap_us: u64,
    /// Bytes of text in an answer in one piece.
    #[arg(long, default_value_t = 256)]
    text: usize,
    /// The text of every event is the time at which it is written.
    #[arg(long)]
    stamped: bool,
}

#[derive(Args)]
struct LoadArgs {
    /// Where to, for example http://127.0.0.1:8800/v1/chat/completions
    #[arg(long)]
    url: String,
    /// Connections, each with one request at a time.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// How long to begin requests: 5s, 500ms, 1m.
    #[arg(long, default_value = "5s", value_parser = duration)]
    duration: Duration,
    /// Requests per second; without it each connection sends as fast as it is answered.
    #[arg(long)]
    rate: Option<f64>,
    /// File with the body of every request.
    #[arg(long, conflicts_with = "size")]
    body: Option<PathBuf>,
    /// Size of a made-up chat request in bytes.
    #[arg(long, default_value_t = 200)]
    size: usize,
    /// Ask for streams and time their chunks.
    #[arg(long)]
    stream: bool,
    /// Header as NAME:VALUE; may be given several times.
    #[arg(long, value_parser = header)]
    header: Vec<(String, String)>,
    /// How long one request may take.
    #[arg(long, default_value = "30s", value_parser = duration)]
    timeout: Duration,
    /// In what time the connections begin, one after another.
    #[arg(long, default_value = "0s", value_parser = duration)]
    ramp: Duration,
    /// Open one stream a connection, say so once each has had its first event, and hold them until killed.
    #[arg(long)]
    hold: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(format!("{text:?} needs a unit: us, ms, s or m")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{number:?} is not a number"))?;
    Duration::try_from_secs_f64(number * factor).map_err(|e| e.to_string())
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?} is not NAME:VALUE"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Upstream(args) => upstream(&args),
        Command::Fast(args) => fast(&args),
        Command::Load(args) => load(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

fn upstream(args: &UpstreamArgs) -> Result<(), String> {
    if args.names.len() > args.ports.len() {
        return Err(format!(
            "{} names for {} ports",
            args.names.len(),
            args.ports.len()
        ));
    }
    let letters = ('A'..='Z').map(String::from);
    let names = args.names.iter().cloned().chain(letters.skip(args.names.len()));
    let upstreams: Vec<Upstream> = names
        .zip(&args.ports)
        .map(|(name, &port)| {
            Upstream::start_with(&Options {
                name,
                host: args.host,
                port,
                always: args.always.clone(),
            })
        })
        .collect();
    for upstream in &upstreams {
        println!("{} {}", upstream.name(), upstream.url());
    }
    loop {
        std::thread::park();
    }
}

fn fast(args: &FastArgs) -> Result<(), String> {
    let gap = Duration::from_micros(args.gap_us);
    let options = FastOptions {
        listen: args.listen,
        chunks: args.chunks,
        gap,
        text: args.text,
        stamped: args.stamped,
    };
    let server = Fast::start(&options).map_err(|e| format!("cannot listen on {}: {e}", args.listen))?;
    println!("fast {}", server.url());
    server.serve();
    Ok(())
}

fn load(args: LoadArgs) -> Result<(), String> {
    let body = match &args.body {
        Some(path) => std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?,
        None => chat_body(args.size, args.stream),
    };
    let load = Load {
        url: args.url,
        connections: args.connections,
        duration: args.duration,
        rate: args.rate,
        headers: args.header,
        body,
        stream: args.stream,
        timeout: args.timeout,
        ramp: args.ramp,
    };
    if args.hold {
        let streams = hold(&load)?;
        println!("{{\"open\":{}}}", streams.len());
        loop {
            std::thread::park();
        }
    }
    let report = load.run()?;
    println!("{}", serde_json::to_string(&report).map_err(|e| e.to_string())?);
    Ok(())
}
