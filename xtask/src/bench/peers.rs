//! The upstream, and the routers before it.

use super::config;
use crate::build::{Built, is_installed};
use crate::failure::{Failure, failed};
use crate::process::{self, Owned};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// For the answer that shows that a router is ready.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Core of the router under test.
const ROUTER_CORE: &str = "0";
/// Core of the upstream and the load generator.
pub(super) const LOAD_CORE: &str = "1";

/// `program`, to run on `core` alone.
pub(super) fn pinned(core: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", core]).arg(program);
    command
}

/// A cheap server with canned answers.
pub(super) struct Upstream {
    address: String,
    _process: Owned,
}

impl Upstream {
    pub(super) fn start(built: &Built, args: &[String]) -> Result<Self, Failure> {
        let mut command = pinned(LOAD_CORE, built.path("test-engine")?);
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
        Ok(Self {
            address,
            _process: process,
        })
    }
}

/// What stands between load and upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PeerKind {
    Direct,
    Nginx,
    NginxLog,
    Haproxy,
    Envoy,
    Caddy,
    VllmRouter,
    SglangRouter,
    Smg,
    Weighbridge,
}

impl PeerKind {
    pub(super) const ALL: [Self; 10] = [
        Self::Direct,
        Self::Weighbridge,
        Self::Nginx,
        Self::NginxLog,
        Self::Haproxy,
        Self::Envoy,
        Self::Caddy,
        Self::VllmRouter,
        Self::SglangRouter,
        Self::Smg,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::NginxLog => "nginx-log",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Caddy => "caddy",
            Self::VllmRouter => "vllm-router",
            Self::SglangRouter => "sglang-router",
            Self::Smg => "smg",
            Self::Weighbridge => "weighbridge",
        }
    }

    /// Its program, where it is not built here, and arguments that show whether it runs.
    fn program(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Direct | Self::Weighbridge => None,
            Self::Nginx | Self::NginxLog => Some(("nginx", "-v")),
            Self::Haproxy => Some(("haproxy", "-v")),
            Self::Envoy => Some(("envoy", "--version")),
            Self::Caddy => Some(("caddy", "version")),
            Self::VllmRouter => Some(("vllm-router", "--help")),
            Self::SglangRouter => Some(("sglang-router", "--help")),
            Self::Smg => Some(("smg", "--help")),
        }
    }
}

/// The programs of the peers that are here.
pub(super) struct Programs(Vec<(PeerKind, PathBuf)>);

impl Programs {
    /// Looks for the programs of `kinds` in `dir`, its `bin` and those of its folders, and on the path; gives what is
    /// missing too.
    pub(super) fn find(kinds: &[PeerKind], dir: Option<&Path>) -> (Self, Vec<PeerKind>) {
        let mut folders = vec![PathBuf::new()];
        if let Some(dir) = dir {
            let inner = fs::read_dir(dir).into_iter().flatten().flatten();
            folders.extend([dir.to_owned(), dir.join("bin")]);
            folders.extend(inner.map(|entry| entry.path().join("bin")));
        }
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for kind in kinds {
            let Some((program, proof)) = kind.program() else {
                continue;
            };
            // Whatever is in the folder goes before what is on the path.
            let mut paths = folders.iter().rev().map(|folder| folder.join(program));
            match paths.find(|path| is_installed(&path.to_string_lossy(), &[proof])) {
                Some(path) => found.push((*kind, path)),
                None => missing.push(*kind),
            }
        }
        (Self(found), missing)
    }

    fn path(&self, kind: PeerKind) -> Result<&Path, Failure> {
        let found = self.0.iter().find(|(found, _)| *found == kind);
        found
            .map(|(_, path)| path.as_path())
            .ok_or_else(|| Failure::BadInput(format!("{} is not installed", kind.name())))
    }
}

/// A peer that runs.
pub(super) struct Peer {
    pub(super) kind: PeerKind,
    /// `host:port`.
    pub(super) address: String,
    process: Option<Owned>,
    /// The router's processes; none without one.
    pids: Vec<u32>,
}

/// What peers are started with.
pub(super) struct Starter<'a> {
    pub(super) built: &'a Built,
    pub(super) programs: &'a Programs,
    pub(super) dir: &'a Path,
}

impl Starter<'_> {
    /// Starts a peer and waits until it answers.
    ///
    /// `policies` are those of the gateway's route.
    pub(super) fn start(
        &self,
        kind: PeerKind,
        (upstream, policies): (&Upstream, &str),
    ) -> Result<Peer, Failure> {
        let dir = tempfile::Builder::new()
            .prefix(kind.name())
            .tempdir_in(self.dir)
            .map_err(failed(self.dir.display()))?
            .keep();
        let (address, process) = match kind {
            PeerKind::Direct => (upstream.address.clone(), None),
            PeerKind::Weighbridge => {
                let (address, process) = self.weighbridge((&upstream.address, policies), &dir)?;
                (address, Some(process))
            }
            _ => {
                let (address, process) = self.foreign(kind, &upstream.address, &dir)?;
                (address, Some(process))
            }
        };
        let pids = process
            .as_ref()
            .map(|process| process::with_descendants(process.pid()))
            .unwrap_or_default();
        Ok(Peer {
            kind,
            address,
            process,
            pids,
        })
    }

    fn foreign(&self, kind: PeerKind, upstream: &str, dir: &Path) -> Result<(String, Owned), Failure> {
        // Both are held until both are known, so that they differ.
        let free = [free_port()?, free_port()?];
        let [port, metrics] = [free[0].1, free[1].1];
        drop(free);
        let mut command = pinned(ROUTER_CORE, self.programs.path(kind)?);
        let config = dir.join("config");
        let text = match kind {
            PeerKind::Nginx | PeerKind::NginxLog => {
                command.arg("-p").arg(dir).arg("-e").arg(dir.join("error.log"));
                command.args(["-g", "daemon off;", "-c"]).arg(&config);
                config::nginx(port, upstream, dir, kind == PeerKind::NginxLog)
            }
            PeerKind::Haproxy => {
                command.args(["-db", "-f"]).arg(&config);
                config::haproxy(port, upstream)
            }
            PeerKind::Envoy => {
                command.args(["--concurrency", "1", "-l", "error", "--disable-hot-restart"]);
                command.args(["--config-path"]).arg(dir.join("config.yaml"));
                config::envoy(port, upstream)
            }
            PeerKind::Caddy => {
                command
                    .args(["run", "--adapter", "caddyfile", "--config"])
                    .arg(&config);
                command.env("GOMAXPROCS", "1").env("HOME", dir);
                config::caddy(port, upstream)
            }
            _ => {
                router(&mut command, kind, [port, metrics], upstream);
                String::new()
            }
        };
        for path in [&config, &dir.join("config.yaml")] {
            fs::write(path, &text).map_err(failed(path.display()))?;
        }
        let output = dir.join("output");
        let create = || File::create(&output).map_err(failed(output.display()));
        command.stdout(create()?).stderr(create()?);
        let mut process = Owned::start(kind.name(), &mut command)?;
        let address = format!("127.0.0.1:{port}");
        process.wait_ready(|| answers(&address), &output)?;
        Ok((address, process))
    }

    fn weighbridge(
        &self,
        (upstream, policies): (&str, &str),
        dir: &Path,
    ) -> Result<(String, Owned), Failure> {
        let config = dir.join("weighbridge.yaml");
        fs::write(&config, config::weighbridge(upstream, policies)).map_err(failed(config.display()))?;
        let log = dir.join("requests.log");
        let mut command = pinned(ROUTER_CORE, self.built.path("weighbridge")?);
        command.stdout(File::create(&log).map_err(failed(log.display()))?);
        let (process, address) = process::gateway(command, &config, dir)?;
        Ok((address, process))
    }
}

/// The routers of the inference engines' projects, which take nearly the same arguments.
fn router(command: &mut Command, kind: PeerKind, [port, metrics]: [u16; 2], upstream: &str) {
    match kind {
        PeerKind::SglangRouter => drop(command.arg("launch")),
        PeerKind::Smg => drop(command.args(["launch", "--disable-tokenizer-autoload"])),
        _ => {}
    }
    let level = match kind {
        PeerKind::VllmRouter => "warning",
        _ => "warn",
    };
    command
        .args(["--host", "127.0.0.1", "--prometheus-host", "127.0.0.1"])
        .args(["--policy", "round_robin", "--log-level", level])
        .arg("--port")
        .arg(port.to_string())
        .arg("--prometheus-port")
        .arg(metrics.to_string())
        .arg("--worker-urls")
        .arg(format!("http://{upstream}"))
        .env("TOKIO_WORKER_THREADS", "1");
}

/// Whether a chat request at `address` is answered well.
fn answers(address: &str) -> bool {
    let exchange = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        let body = r#"{"model":"fast","messages":[{"role":"user","content":"ready?"}]}"#;
        let length = body.len();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )?;
        let mut start = [0; 12];
        stream.read_exact(&mut start)?;
        Ok(&start == b"HTTP/1.1 200")
    };
    exchange().unwrap_or(false)
}

fn free_port() -> Result<(TcpListener, u16), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed("no free port on 127.0.0.1"))?;
    let port = listener.local_addr().map_err(failed("no free port"))?.port();
    Ok((listener, port))
}

impl Peer {
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
