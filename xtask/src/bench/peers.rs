//! The upstreams, and the routers before them.

use super::config::{self, Addresses};
use crate::build::Built;
use crate::failure::{Failure, failed};
use crate::process::{self, Owned};
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const START_WITHIN: Duration = Duration::from_secs(20);

/// Core of the router under test.
const ROUTER_CORE: &str = "0";
/// Core of the upstreams and the load generator.
pub(super) const LOAD_CORE: &str = "1";

/// `program`, to run on `core` alone.
pub(super) fn pinned(core: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program);
    command
}

/// Text events of a stream that comes as fast as it can.
const FAST_CHUNKS: &str = "128";
/// Text events, and microseconds between them, of a stream whose first chunk is timed.
const PACED: [&str; 2] = ["4", "1000"];

/// Two cheap servers with canned answers.
pub(super) struct Upstreams {
    /// Streams of 128 chunks without gaps, and whole answers.
    fast: Upstream,
    /// Short streams with gaps.
    paced: Upstream,
}

struct Upstream {
    address: String,
    _process: Owned,
}

impl Upstreams {
    pub(super) fn start(built: &Built) -> Result<Self, Failure> {
        let program = built.path("test-engine")?;
        let [chunks, gap] = PACED;
        Ok(Self {
            fast: upstream(program, &["--chunks", FAST_CHUNKS])?,
            paced: upstream(program, &["--chunks", chunks, "--gap-us", gap])?,
        })
    }

    fn addresses(&self) -> Addresses<'_> {
        Addresses {
            fast: &self.fast.address,
            paced: &self.paced.address,
        }
    }
}

fn upstream(program: &Path, args: &[&str]) -> Result<Upstream, Failure> {
    let mut command = pinned(LOAD_CORE, program);
    command
        .args(["fast", "--listen", "127.0.0.1:0"])
        .args(args)
        .stdout(Stdio::piped());
    let mut process = Owned::start("the upstream", &mut command)?;
    let line = process.first_line()?;
    let address = line
        .rsplit_once("http://")
        .map(|(_, address)| address.to_owned())
        .ok_or_else(|| Failure::Failed(format!("the upstream did not say where it listens: {line:?}")))?;
    Ok(Upstream {
        address,
        _process: process,
    })
}

/// What stands between load and upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PeerKind {
    Direct,
    Nginx,
    NginxLog,
    Weighbridge,
}

impl PeerKind {
    pub(super) const ALL: [Self; 4] = [Self::Direct, Self::Nginx, Self::NginxLog, Self::Weighbridge];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::NginxLog => "nginx-log",
            Self::Weighbridge => "weighbridge",
        }
    }

    pub(super) fn is_nginx(self) -> bool {
        matches!(self, Self::Nginx | Self::NginxLog)
    }
}

/// A peer that runs.
pub(super) struct Peer {
    pub(super) kind: PeerKind,
    /// `host:port` before the upstream without gaps, and before the paced one.
    pub(super) addresses: [String; 2],
    process: Option<Owned>,
    /// The router's processes; none without one.
    pids: Vec<u32>,
    /// Memory before any request, MiB.
    pub(super) idle_rss_mib: f64,
}

impl Peer {
    pub(super) fn start(
        kind: PeerKind,
        built: &Built,
        upstreams: &Upstreams,
        dir: &Path,
    ) -> Result<Self, Failure> {
        let dir = dir.join(kind.name());
        fs::create_dir(&dir).map_err(failed(dir.display()))?;
        let upstreams = upstreams.addresses();
        let (addresses, process) = match kind {
            PeerKind::Direct => {
                let addresses = [upstreams.fast, upstreams.paced].map(str::to_owned);
                (addresses, None)
            }
            PeerKind::Nginx | PeerKind::NginxLog => {
                let (addresses, process) = nginx(kind, &upstreams, &dir)?;
                (addresses, Some(process))
            }
            PeerKind::Weighbridge => {
                let (address, process) = weighbridge(built.path("weighbridge")?, &upstreams, &dir)?;
                ([address.clone(), address], Some(process))
            }
        };
        let pids = process
            .as_ref()
            .map(|process| process::with_children(process.pid()))
            .unwrap_or_default();
        Ok(Self {
            kind,
            addresses,
            process,
            idle_rss_mib: process::rss_mib(&pids),
            pids,
        })
    }

    /// CPU time of the router so far; none without a router.
    pub(super) fn cpu_time(&self) -> Result<Option<Duration>, Failure> {
        match self.pids.is_empty() {
            true => Ok(None),
            false => process::cpu_time(&self.pids).map(Some),
        }
    }

    pub(super) fn rss_mib(&self) -> f64 {
        process::rss_mib(&self.pids)
    }

    pub(super) fn stop(self) -> Result<(), Failure> {
        match self.process {
            Some(mut process) => process.stop().map(|_| ()),
            None => Ok(()),
        }
    }
}

fn nginx(kind: PeerKind, upstreams: &Addresses<'_>, dir: &Path) -> Result<([String; 2], Owned), Failure> {
    // Both are held until both are known, so that they differ.
    let free = [free_port()?, free_port()?];
    let ports = [free[0].1, free[1].1];
    drop(free);
    let config = dir.join("nginx.conf");
    let text = config::nginx(ports, upstreams, dir, kind == PeerKind::NginxLog);
    fs::write(&config, text).map_err(failed(config.display()))?;
    let mut command = pinned(ROUTER_CORE, Path::new("nginx"));
    command
        .arg("-p")
        .arg(dir)
        .arg("-e")
        .arg(dir.join("error.log"))
        .arg("-c")
        .arg(&config)
        .args(["-g", "daemon off;"]);
    let mut process = Owned::start("nginx", &mut command)?;
    let addresses = ports.map(|port| format!("127.0.0.1:{port}"));
    for address in &addresses {
        process.wait_until(START_WITHIN, || TcpStream::connect(address).is_ok())?;
    }
    let pid = process.pid();
    process.wait_until(START_WITHIN, || process::with_children(pid).len() > 1)?;
    Ok((addresses, process))
}

fn free_port() -> Result<(TcpListener, u16), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed("no free port on 127.0.0.1"))?;
    let port = listener.local_addr().map_err(failed("no free port"))?.port();
    Ok((listener, port))
}

fn weighbridge(program: &Path, upstreams: &Addresses<'_>, dir: &Path) -> Result<(String, Owned), Failure> {
    let config = dir.join("weighbridge.yaml");
    fs::write(&config, config::weighbridge(upstreams)).map_err(failed(config.display()))?;
    let create = |name: &str| {
        let path = dir.join(name);
        File::create(&path).map_err(failed(path.display()))
    };
    let ready = dir.join("ready.json");
    let mut command = pinned(ROUTER_CORE, program);
    command
        .args(["serve", "--workers", "1", "--config"])
        .arg(&config)
        .arg("--ready-file")
        .arg(&ready)
        .stdout(create("requests.log")?)
        .stderr(create("stderr")?);
    let mut process = Owned::start("weighbridge", &mut command)?;
    process
        .wait_until(START_WITHIN, || ready.exists())
        .map_err(|failure| {
            let said = fs::read_to_string(dir.join("stderr")).unwrap_or_default();
            Failure::Failed(format!("{failure}\n{said}"))
        })?;
    let text = fs::read_to_string(&ready).map_err(failed(ready.display()))?;
    let ready: serde_json::Value = serde_json::from_str(&text).map_err(failed("the ready file"))?;
    let address = ready["listen"].as_str().unwrap_or_default().to_owned();
    Ok((address, process))
}
