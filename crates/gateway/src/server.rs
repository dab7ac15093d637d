//! Listening: one socket, one thread per core with its own runtime and its own upstream connections.

use crate::burst;
use crate::client::socket::Socket as ClientSocket;
use crate::client::{connection, plainly};
use crate::exchange::waiting::Leftovers;
use crate::gateway::{Gateway, Setup};
use crate::upstream::pool::Connections;
use crate::{calibrate, discovery, driver, kv_events, probes, scrape};
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use weighbridge_wire::ErrorBody;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4096;
/// Wait after an accept that failed for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What one thread works with.
pub(crate) struct Worker {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) upstreams: Connections,
    /// Answers whose clients have left.
    pub(crate) leftovers: Leftovers,
}

impl Worker {
    /// One for this thread, with the tasks that it needs.
    fn on_this_thread(gateway: Arc<Gateway>) -> Rc<Self> {
        let (leftovers, reading) = Leftovers::new();
        let worker = Rc::new(Self {
            gateway,
            upstreams: Connections::default(),
            leftovers,
        });
        tokio::task::spawn_local(reading);
        tokio::task::spawn_local(Connections::keep_tidy(worker.clone()));
        worker
    }
}

/// A gateway that listens.
pub struct Running {
    /// What is shared with everybody else.
    pub gateway: Arc<Gateway>,
    /// Where clients connect, with the real port where 0 was asked for.
    pub listen: SocketAddr,
    threads: Vec<JoinHandle<()>>,
}

/// Why a gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}{hint}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
        /// How to mend it, or empty.
        hint: &'static str,
    },
    /// Something of the config could not be loaded.
    #[error("{0}")]
    Config(String),
    /// No thread could be started.
    #[error("cannot start a worker thread: {0}")]
    Thread(std::io::Error),
}

/// Binds `address` for listening.
///
/// # Errors
/// [`StartError::Listen`].
pub fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    let listen = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(TcpListener::from(socket))
    };
    listen().map_err(|source: std::io::Error| {
        let hint = match source.kind() {
            std::io::ErrorKind::AddrInUse => {
                ": another program listens there; stop it or choose another port"
            }
            std::io::ErrorKind::PermissionDenied => ": ports below 1024 need privileges",
            std::io::ErrorKind::AddrNotAvailable => ": this machine has no such address",
            _ => "",
        };
        StartError::Listen {
            address,
            source,
            hint,
        }
    })
}

/// Starts the data plane on `listener`, with `workers` threads.
///
/// # Errors
/// [`StartError`].
pub fn start(setup: Setup, listener: TcpListener, workers: usize) -> Result<Running, StartError> {
    let listen = listener.local_addr().map_err(StartError::Thread)?;
    let (gateway, queues) = Gateway::with_queues(setup).map_err(StartError::Config)?;
    gateway.fleet.own.listens(listen);
    let keeper = gateway.clone();
    let mut threads = vec![spawn("keeper".into(), move || async move {
        tokio::task::spawn_local(probes::run(keeper.clone(), queues.probes));
        tokio::task::spawn_local(discovery::run(keeper.clone(), queues.watches));
        tokio::task::spawn_local(scrape::run(keeper.clone()));
        let worker = Worker::on_this_thread(keeper.clone());
        tokio::task::spawn_local(calibrate::run(worker, queues.calibrations));
        tokio::task::spawn_local(calibrate::keep_schedule(keeper.clone()));
        driver::keep_time(keeper).await;
    })?];
    let follower = gateway.clone();
    threads.push(spawn("kv-events".into(), move || kv_events::run(follower))?);
    // Clients that connect meanwhile wait to be accepted, which is better than telling them that nobody serves them.
    gateway.await_sources();
    for index in 0..workers.max(1) {
        let listener = listener.try_clone().map_err(StartError::Thread)?;
        let worker_gateway = gateway.clone();
        threads.push(spawn(format!("worker-{index}"), move || {
            accept(worker_gateway, listener)
        })?);
    }
    Ok(Running {
        gateway,
        listen,
        threads,
    })
}

/// A thread with a current-thread runtime that runs what `work` makes.
fn spawn<F, W>(name: String, work: W) -> Result<JoinHandle<()>, StartError>
where
    W: FnOnce() -> F + Send + 'static,
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(burst::rest)
        .build()
        .map_err(StartError::Thread)?;
    std::thread::Builder::new()
        .name(name)
        .spawn(move || LocalSet::new().block_on(&runtime, work()))
        .map_err(StartError::Thread)
}

impl Running {
    /// The threads run until the process ends; this says whether one of them has died.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }
}

async fn accept(gateway: Arc<Gateway>, listener: TcpListener) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a worker cannot listen");
            return;
        }
    };
    let worker = Worker::on_this_thread(gateway);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => admit(&worker, stream, peer),
            Err(error) => {
                if error.kind() != std::io::ErrorKind::ConnectionAborted {
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn admit(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr) {
    let snapshot = worker.gateway.snapshot();
    let most = snapshot
        .config
        .server
        .max_connections
        .min(worker.gateway.clients_max);
    if worker.gateway.connections.fetch_add(1, Ordering::AcqRel) >= most {
        worker.gateway.connections.fetch_sub(1, Ordering::AcqRel);
        // A client that speaks TLS understands nothing that is written plainly.
        if snapshot.tls.is_none() {
            tokio::task::spawn_local(turn_away(stream));
        }
        return;
    }
    if let Err(error) = ClientSocket::prepare(&stream) {
        tracing::debug!(%peer, %error, "a socket option cannot be set");
    }
    let serving = connection::serve(worker.clone(), (stream, peer), snapshot.tls.clone());
    tokio::task::spawn_local(serving);
}

/// Tells a client that the gateway has all the connections it may have.
async fn turn_away(mut stream: TcpStream) {
    let error = ErrorBody {
        kind: Some("overloaded_error".into()),
        code: Some("overloaded".into()),
        ..ErrorBody::new(503, "the gateway has as many connections as it may have")
            .with_retry_after(Duration::from_secs(1))
    };
    if plainly::tell(&mut stream, &error).await.is_ok() {
        let _ = stream.shutdown().await;
    }
}
