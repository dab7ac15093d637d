//! The gateway process itself under callgrind: instructions of its worker thread per request and per chunk.
//!
//! One client sends one request after another on one connection, so the same code runs in the same order each time.
//! Threads that follow the clock (probes, log writer, signals) are not counted.

use super::{Counts, callgrind};
use crate::build::Built;
use crate::failure::{Failure, failed};
use crate::process::{self, Owned};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Text events of a stream; the first and the last event come on top.
const CHUNKS: u64 = 32;
/// Between two events, so that each arrives by itself however slow the gateway is under callgrind.
const GAP_US: u64 = 4000;
/// For one answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// A function that only the worker thread runs.
const WORKER: &str = "weighbridge_gateway::exchange::";

struct Bench {
    name: &'static str,
    /// Size of the body, bytes.
    body: usize,
    stream: bool,
    policies: &'static str,
    /// Requests of the short and of the long run.
    requests: [u64; 2],
}

/// What most rows have: what is decided does not depend on the prompt.
const PLAIN: &str = "session_affinity: {}, least_inflight: {}";
/// The prompt is read, and looked for in what endpoints are believed to hold.
const PREFIX: &str = "prefix_cache: {}, least_inflight: {}";

const BENCHES: [Bench; 7] = [
    Bench {
        name: "gateway/request-150B",
        body: 150,
        stream: false,
        policies: PLAIN,
        requests: [50, 550],
    },
    Bench {
        name: "gateway/request-16KiB",
        body: 16384,
        stream: false,
        policies: PLAIN,
        requests: [50, 350],
    },
    Bench {
        name: "gateway/request-400KB",
        body: 400_000,
        stream: false,
        policies: PLAIN,
        requests: [5, 35],
    },
    Bench {
        name: "gateway/stream-of-34-events",
        body: 150,
        stream: true,
        policies: PLAIN,
        requests: [3, 23],
    },
    Bench {
        name: "gateway/prefix-2KiB",
        body: 2048,
        stream: false,
        policies: PREFIX,
        requests: [50, 350],
    },
    Bench {
        name: "gateway/prefix-16KiB",
        body: 16384,
        stream: false,
        policies: PREFIX,
        requests: [50, 350],
    },
    Bench {
        name: "gateway/prefix-400KB",
        body: 400_000,
        stream: false,
        policies: PREFIX,
        requests: [5, 35],
    },
];

/// Times that a bench is counted. Whatever disturbs a count (two events read as one, a look at the socket too early)
/// comes from the clock, so the middle of three is what the code does.
const COUNTS: usize = 3;

/// Counts every bench that `wanted` names.
pub(super) fn count(built: &Built, wanted: &dyn Fn(&str) -> bool) -> Result<Counts, Failure> {
    let mut counts = Counts::new();
    for bench in BENCHES.iter().filter(|bench| wanted(bench.name)) {
        eprintln!("{} …", bench.name);
        let mut slopes = Vec::new();
        for _ in 0..COUNTS {
            slopes.push(slope(built, bench)?);
        }
        slopes.sort_unstable();
        counts.insert(bench.name.to_owned(), slopes[COUNTS / 2]);
    }
    Ok(counts)
}

/// Instructions per request.
fn slope(built: &Built, bench: &Bench) -> Result<u64, Failure> {
    let [short, long] = bench.requests;
    let executed = [executed(built, bench, short)?, executed(built, bench, long)?];
    Ok(executed[1].saturating_sub(executed[0]) / (long - short))
}

/// What the worker thread executes in a life of `requests` requests.
fn executed(built: &Built, bench: &Bench, requests: u64) -> Result<u64, Failure> {
    let dir = tempfile::tempdir().map_err(failed("no temporary directory"))?;
    let (mut upstream, address) = upstream(built.path("test-engine")?)?;
    let (mut gateway, listen) = gateway(built.path("weighbridge")?, (&address, bench.policies), dir.path())?;
    let mut client = Client::connect(&listen, bench)?;
    for _ in 0..requests {
        client.exchange()?;
    }
    drop(client);
    let ended = gateway.stop()?;
    if !ended.success() {
        return Err(Failure::Failed(format!(
            "the gateway did not end well under valgrind: {ended}"
        )));
    }
    upstream.stop()?;
    callgrind::executed(&dir.path().join("callgrind"), WORKER)
}

fn upstream(program: &Path) -> Result<(Owned, String), Failure> {
    let mut command = Command::new(program);
    command
        .args(["fast", "--listen", "127.0.0.1:0"])
        .arg(format!("--chunks={CHUNKS}"))
        .arg(format!("--gap-us={GAP_US}"))
        .stdout(Stdio::piped());
    let mut process = Owned::start("the upstream", &mut command)?;
    let line = process.first_line()?;
    let address = line.strip_prefix("fast ").unwrap_or_default().to_owned();
    Ok((process, address))
}

/// The gateway with keys, these policies, usage asked for and its request log, but without probes, which follow the clock.
fn gateway(
    program: &Path,
    (upstream, policies): (&str, &str),
    dir: &Path,
) -> Result<(Owned, String), Failure> {
    let endpoints: String = (1..=4)
        .map(|index| format!("      - {{name: e{index}, url: \"{upstream}\"}}\n"))
        .collect();
    let text = format!(
        "server: {{listen: 127.0.0.1:0}}\nadmin: {{listen: 127.0.0.1:0, token: bench}}\nauth: keys\n\
         keys:\n  - {{name: bench, key: wb-bench-key, tenant: bench}}\n\
         pools:\n  - name: pool\n    health: false\n    keepalive: 60s\n    endpoints:\n{endpoints}\
         routes:\n  - name: fast\n    targets: [pool]\n    usage: inject\n    policies: {{{policies}}}\n"
    );
    let config = dir.join("weighbridge.yaml");
    fs::write(&config, text).map_err(failed(config.display()))?;
    let mut command = callgrind::command(program, &dir.join("callgrind"));
    command.stdout(Stdio::null());
    process::gateway(command, &config, dir)
}

/// One connection with one request at a time.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    /// What ends an answer.
    stop: &'static [u8],
    answer: Vec<u8>,
}

impl Client {
    fn connect(listen: &str, bench: &Bench) -> Result<Self, Failure> {
        let stream = TcpStream::connect(listen).map_err(failed(format!("connecting to {listen}")))?;
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(ANSWER_WITHIN)));
        set.map_err(failed("setting up a socket"))?;
        let flag = if bench.stream { ",\"stream\":true" } else { "" };
        let frame = |text: &str| {
            format!(
                "{{\"model\":\"fast\",\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]{flag}}}"
            )
        };
        let room = bench.body.saturating_sub(frame("").len());
        let body = frame(&"a few words of a prompt ".repeat(room / 24 + 1)[..room]);
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {listen}\r\ncontent-type: application/json\r\n\
             authorization: Bearer wb-bench-key\r\nsession-id: bench\r\nx-request-id: bench-request-id\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(Self {
            stream,
            request: request.into_bytes(),
            stop: if bench.stream { b"\r\n0\r\n\r\n" } else { b"}}" },
            answer: Vec::new(),
        })
    }

    /// Sends the request and reads its answer to the end.
    fn exchange(&mut self) -> Result<(), Failure> {
        self.answer.clear();
        self.stream
            .write_all(&self.request)
            .map_err(failed("sending a request"))?;
        let mut piece = [0; 16 * 1024];
        while !self.answer.ends_with(self.stop) {
            let read = self
                .stream
                .read(&mut piece)
                .map_err(failed("reading an answer"))?;
            if read == 0 {
                return Err(Failure::Failed("the gateway closed the connection".into()));
            }
            self.answer.extend_from_slice(&piece[..read]);
        }
        if !self.answer.starts_with(b"HTTP/1.1 200 ") {
            let said = String::from_utf8_lossy(&self.answer);
            return Err(Failure::Failed(format!(
                "the gateway did not answer with 200: {said}"
            )));
        }
        Ok(())
    }
}
