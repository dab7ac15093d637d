//! `weighbridge serve`: the gateway.

mod found;
mod memory;
pub(crate) mod ready;
pub(crate) mod stop;
pub(crate) mod token;

use crate::exit::Failure;
use crate::messages;
use secrecy::{ExposeSecret, SecretString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use weighbridge_admin::Admin;
use weighbridge_config::{Config, Loaded};
use weighbridge_gateway::driver::EventLog;
use weighbridge_gateway::gateway::Setup;
use weighbridge_gateway::reload::Reloader;
use weighbridge_gateway::{limits, server};

const EXAMPLE: &str = "\
Examples:
  weighbridge serve --config weighbridge.yaml
  weighbridge serve                 (finds the engines that run on this machine)";

/// The file that is taken where none is named.
pub(crate) const USUAL_CONFIG: &str = "weighbridge.yaml";

/// Arguments of `weighbridge serve`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub(crate) struct Args {
    /// What people write who mean `--config`.
    #[arg(hide = true, value_name = "FILE")]
    misplaced: Option<PathBuf>,
    /// Config file [default: weighbridge.yaml if there is one, else the engines found on this machine].
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Threads of the data plane [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Written once the gateway serves: a JSON object with `listen`, `admin`, `pid` and `token_file`.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
    /// Record the scheduler's events and actions here, for a replay.
    #[arg(long, value_name = "FILE")]
    event_log: Option<PathBuf>,
    /// Bytes after which the event log ends.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 30)]
    event_log_max: u64,
    /// Without a config: ports to look for engines on, instead of the usual ones.
    #[arg(long, value_name = "PORT", value_delimiter = ',', conflicts_with = "config")]
    find_on: Option<Vec<u16>>,
}

/// A config and where it came from.
pub(crate) struct Chosen {
    pub(crate) loaded: Loaded,
    /// None: made from the engines that were found.
    pub(crate) path: Option<PathBuf>,
}

/// Runs until told to stop.
pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if let Some(file) = &args.misplaced {
        let file = file.display();
        return Err(Failure::BadInput(format!(
            "unexpected argument `{file}`: the config file is named by --config: weighbridge serve --config {file}"
        )));
    }
    let Chosen { loaded, path } = choose(&args)?;
    let _flushed = init_log(&loaded.config.log.level)?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let text_hash = loaded.text_hash;
    let started = start(&args, loaded.config)?;
    let reloader = path.map(|path| {
        let reloader = Reloader::new(started.running.gateway.clone(), path, text_hash);
        Arc::new(reloader.telling(|config| messages::set_level(&config.log.level)))
    });
    let runtime = runtime()?;
    let ended = runtime.block_on(supervise(&args, started, reloader));
    ended?.report()
}

/// One thread for everything that is not the data plane.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start: {error}")))
}

fn choose(args: &Args) -> Result<Chosen, Failure> {
    let usual = PathBuf::from(USUAL_CONFIG);
    let path = match &args.config {
        Some(path) => path.clone(),
        None if args.find_on.is_none() && usual.exists() => usual,
        None => return found::config(args.find_on.as_deref()).map(|loaded| Chosen { loaded, path: None }),
    };
    let loaded = weighbridge_config::load(&path, &|name| std::env::var(name).ok())
        .map_err(|problems| Failure::BadInput(format!("the config is refused\n{problems}")))?;
    Ok(Chosen {
        loaded,
        path: Some(path),
    })
}

/// Messages of the gateway itself go to standard error; request lines to standard output. Kept until the command ends.
pub(crate) fn init_log(level: &str) -> Result<messages::Flush, Failure> {
    messages::start(level)
        .map_err(|error| Failure::Failed(format!("cannot start the thread for messages: {error}")))
}

/// A gateway that serves, with its admin listener bound.
pub(crate) struct Started {
    pub(crate) running: server::Running,
    pub(crate) admin: Option<(Admin, std::net::TcpListener)>,
    pub(crate) admin_listen: Option<SocketAddr>,
    pub(crate) token_file: Option<token::File>,
}

impl Started {
    /// Serves the admin listener on the runtime that this is called on.
    pub(crate) fn serve_admin(&mut self, reloader: Option<Arc<Reloader>>) {
        if let Some((mut admin, listener)) = self.admin.take() {
            admin.reloader = reloader;
            tokio::spawn(async move {
                if let Err(error) = weighbridge_admin::serve(admin, listener).await {
                    tracing::error!(%error, "the admin listener failed");
                }
            });
        }
    }
}

/// The log of the process before, whose end may be what somebody wants to replay, stays as `FILE.before`.
fn keep_before(path: &std::path::Path) {
    let is_log = std::fs::metadata(path).is_ok_and(|about| about.is_file() && about.len() > 0);
    if !is_log {
        return;
    }
    let mut before = path.as_os_str().to_owned();
    before.push(".before");
    if let Err(error) = std::fs::rename(path, &before) {
        tracing::warn!(%error, "the event log of the process before cannot be kept");
    }
}

fn start(args: &Args, config: Config) -> Result<Started, Failure> {
    let event_log = args.event_log.as_ref().map(|path| {
        keep_before(path);
        let file = std::fs::File::create(path)
            .map_err(|error| Failure::BadInput(format!("--event-log {}: {error}", path.display())))?;
        Ok(EventLog::new(Box::new(file), args.event_log_max))
    });
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let workers = args.workers.map_or_else(cores, usize::from);
    begin(
        config,
        (event_log.transpose()?, Box::new(std::io::stdout())),
        workers,
    )
}

/// Binds both listeners, then starts the data plane.
pub(crate) fn begin(
    config: Config,
    (event_log, request_log): (Option<EventLog>, Box<dyn std::io::Write + Send>),
    workers: usize,
) -> Result<Started, Failure> {
    let failed = |error: server::StartError| Failure::Failed(error.to_string());
    let wanted = config.server.max_connections;
    let open_files = limits::raise_open_files(wanted).map_err(Failure::Failed)?;
    if let Some(shortage) = limits::shortage(wanted, open_files) {
        tracing::warn!("{shortage}");
    }
    let listener = server::bind(config.server.listen).map_err(failed)?;
    let admin_listener = config
        .admin
        .listen
        .map(server::bind)
        .transpose()
        .map_err(failed)?;
    let admin_listen = admin_listener
        .as_ref()
        .and_then(|listener| listener.local_addr().ok());
    let (token, token_file) = admin_token(config.admin.token.as_ref(), admin_listen)?;
    let setup = Setup {
        config,
        request_log,
        event_log,
        clients_max: open_files.clients,
    };
    let running = server::start(setup, listener, workers).map_err(failed)?;
    if let Some(dropped) = messages::dropped() {
        running.gateway.metrics().show_dropped_messages(dropped);
    }
    let admin = admin_listener.map(|listener| {
        (
            Admin {
                gateway: running.gateway.clone(),
                reloader: None,
                token,
            },
            listener,
        )
    });
    Ok(Started {
        running,
        admin,
        admin_listen,
        token_file,
    })
}

/// The configured token, or a new one in a file that only this user can read.
fn admin_token(
    configured: Option<&SecretString>,
    listen: Option<SocketAddr>,
) -> Result<(Arc<str>, Option<token::File>), Failure> {
    match (configured, listen) {
        (Some(token), _) => Ok((token.expose_secret().into(), None)),
        (None, None) => Ok(("".into(), None)),
        (None, Some(listen)) => {
            let (token, file) = token::make(listen.port())
                .map_err(|error| Failure::Failed(format!("cannot write the admin token's file: {error}")))?;
            Ok((token.into(), Some(file)))
        }
    }
}

async fn supervise(
    args: &Args,
    mut started: Started,
    reloader: Option<Arc<Reloader>>,
) -> Result<stop::Stopped, Failure> {
    // Before anything says that the gateway is ready, so that no signal finds the default disposition.
    let signals = stop::Signals::listen()?;
    let gateway = started.running.gateway.clone();
    started.serve_admin(reloader.clone());
    ready::announce(&started, args.ready_file.as_deref())?;
    if let Some(reloader) = reloader.clone() {
        tokio::spawn(async move { reloader.watch().await });
    }
    tokio::spawn(memory::give_back());
    Ok(stop::wait(&gateway, signals, reloader).await)
}
