//! Where a publisher's connections come from: it connects to us, or we to it.

use super::link::{Link, LinkError};
use super::status::Status;
use socket2::{Domain, Protocol, Socket, Type};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;
use weighbridge_config::kv_events::{Place, Source};
use weighbridge_wire::zmtp::Role;

/// First and longest wait before another try.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Connections that may be about to say what they are, of one listener.
const HANDSHAKES_MAX: usize = 8;

/// Delivers connections to the publisher for ever, each to take the place of the one before. `lost` says that the last one
/// is gone.
pub(super) async fn run(
    source: Source,
    links: mpsc::Sender<Link>,
    (lost, status): (Rc<Notify>, Arc<Status>),
) {
    match source {
        Source::Bind(place) => listen(&place, &links, &status).await,
        Source::Connect(place) => connect(&place, &links, (&lost, &status)).await,
    }
}

async fn connect(place: &Place, links: &mpsc::Sender<Link>, (lost, status): (&Notify, &Status)) {
    let mut wait = AGAIN.0;
    loop {
        match Link::connect(place, Role::Subscriber).await {
            Ok(link) => {
                wait = AGAIN.0;
                if links.send(link).await.is_err() {
                    return;
                }
                lost.notified().await;
            }
            Err(error) => status.failed(&format!("{place}: {error}")),
        }
        sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    }
}

async fn listen(place: &Place, links: &mpsc::Sender<Link>, status: &Arc<Status>) {
    let mut wait = AGAIN.0;
    let listener = loop {
        match bind(place) {
            Ok(listener) => break listener,
            Err(error) => status.failed(&format!("cannot listen on {place}: {error}")),
        }
        // Whoever listened there may be about to leave: an endpoint of the config before a reload.
        sleep(wait).await;
        wait = (wait * 2).min(AGAIN.1);
    };
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    let mut tasks = JoinSet::new();
    loop {
        let Ok(permit) = handshakes.clone().acquire_owned().await else {
            return;
        };
        while tasks.try_join_next().is_some() {}
        let accepted = listener.accept().await;
        match accepted {
            Ok((stream, peer)) => {
                let (links, status) = (links.clone(), status.clone());
                tasks.spawn_local(async move {
                    let opened: Result<Link, LinkError> = Link::open(stream, Role::Subscriber).await;
                    match opened {
                        Ok(link) => drop(links.send(link).await),
                        Err(error) => status.failed(&format!("a connection from {}: {error}", peer.ip())),
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                status.failed(&format!("cannot accept connections: {error}"));
                sleep(AGAIN.0).await;
            }
        }
    }
}

fn bind(place: &Place) -> std::io::Result<TcpListener> {
    let host = match &*place.host {
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        host => host.parse().map_err(|_| std::io::ErrorKind::InvalidInput)?,
    };
    let address = SocketAddr::new(host, place.port);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(16)?;
    TcpListener::from_std(socket.into())
}
