//! The thread of one upstream: listening, and carrying out orders.

use super::serve::{Calls, connection};
use super::state::{Order, Shared};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;

const BACKLOG: u32 = 1024;
/// How long a bind may fail before it counts as failed: a port is free again only after its last listener.
const BIND_WITHIN: Duration = Duration::from_secs(5);

/// A socket that is bound and does not listen. While it lives, the port refuses connections but belongs to us:
/// nobody else is given it when they ask for any free port.
pub(crate) struct Reserved {
    _socket: TcpSocket,
    pub(crate) addr: SocketAddr,
}

impl Reserved {
    pub(crate) fn bind(addr: SocketAddr) -> io::Result<Reserved> {
        let socket = bound(addr)?;
        let addr = socket.local_addr()?;
        Ok(Reserved {
            _socket: socket,
            addr,
        })
    }
}

fn bound(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

async fn listen(addr: SocketAddr) -> TcpListener {
    let deadline = tokio::time::Instant::now() + BIND_WITHIN;
    loop {
        match bound(addr).and_then(|socket| socket.listen(BACKLOG)) {
            Ok(listener) => return listener,
            Err(e) if tokio::time::Instant::now() >= deadline => panic!("cannot listen on {addr}: {e}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Runs until it is told to quit.
pub(crate) async fn run(shared: Arc<Shared>, mut orders: mpsc::UnboundedReceiver<Order>) {
    let mut listener = None;
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                None | Some(Order::Quit) => return,
                Some(Order::Listen { done }) => {
                    if listener.is_none() {
                        listener = Some(listen(shared.addr).await);
                    }
                    let _ = done.send(());
                }
                Some(Order::Stop { kill, done }) => {
                    listener = None;
                    stop(&shared, kill).await;
                    let _ = done.send(());
                }
            },
            stream = accept(listener.as_ref()) => admit(&shared, stream),
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Out of descriptors, most likely: wait for some to come free.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

fn admit(shared: &Arc<Shared>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let id = shared.opened();
    // Subscribed here, not in the task: an order that comes before the task first runs must reach it.
    let calls = Calls {
        kill: shared.kill.subscribe(),
        close_idle: shared.close_idle.subscribe(),
    };
    tokio::spawn(connection(shared.clone(), stream, id, calls));
}

async fn stop(shared: &Arc<Shared>, kill: bool) {
    if kill {
        shared.kill.send_modify(|n| *n += 1);
        while shared.stats().open > 0 {
            tokio::task::yield_now().await;
        }
    } else {
        shared.close_idle.send_modify(|n| *n += 1);
        tokio::task::yield_now().await;
    }
}
