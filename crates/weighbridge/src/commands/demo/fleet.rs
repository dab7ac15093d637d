//! The simulated engines, each on a port that stays its own even while it is dead.

use crate::commands::engine::{self, EngineConfig};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::TcpSocket;
use tokio::task::JoinHandle;
use weighbridge_sim::engine::Settings;

/// Pool, name, and speed beside the others.
const ENGINES: [(&str, &str, f64); 4] = [
    ("llama-8b", "a", 1.0),
    ("llama-8b", "b", 1.0),
    ("llama-8b", "c", 0.5),
    ("mini", "d", 3.0),
];
/// Waiting connections, as engines have it.
const BACKLOG: u32 = 1024;

/// All engines.
pub(super) struct Fleet {
    pub(super) engines: Vec<Engine>,
}

/// One engine.
pub(super) struct Engine {
    pub(super) pool: &'static str,
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    pub(super) config: EngineConfig,
    /// Bound and never listening: connections are refused while the engine is dead, and no other program, nor a client's
    /// end of a connection, gets the port.
    _reserved: TcpSocket,
    server: Option<JoinHandle<()>>,
}

impl Fleet {
    /// Starts all engines on free ports of the loopback interface.
    pub(super) fn start(speed: f64, seed: u64) -> io::Result<Self> {
        let engines = ENGINES.iter().map(|&(pool, name, relative)| {
            let config = EngineConfig {
                models: vec![pool.to_owned()],
                speed: speed * relative,
                seed,
                settings: Settings::default(),
            };
            Engine::start(pool, name, config)
        });
        Ok(Self {
            engines: engines.collect::<io::Result<_>>()?,
        })
    }
}

impl Engine {
    fn start(pool: &'static str, name: &'static str, config: EngineConfig) -> io::Result<Self> {
        let reserved = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let mut engine = Self {
            pool,
            name,
            address: reserved.local_addr()?,
            config,
            _reserved: reserved,
            server: None,
        };
        engine.revive()?;
        Ok(engine)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.server.is_some()
    }

    /// Ends it as a dead process ends: the port is closed, and so is every connection, whatever it carries.
    pub(super) async fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            server.abort();
            let _ = server.await;
            // Its connections are tasks that the runtime drops at its next turn.
            tokio::task::yield_now().await;
        }
    }

    /// Starts it anew, with an empty cache, on its own port.
    pub(super) fn revive(&mut self) -> io::Result<()> {
        let listener = bound(self.address)?.listen(BACKLOG)?;
        let serving = engine::serve(self.config.clone(), listener, std::future::pending());
        self.server = Some(tokio::spawn(serving));
        Ok(())
    }
}

/// Sockets that reuse addresses may share one as long as none listens; then the first that listens has it.
fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    async fn answers(address: SocketAddr) -> io::Result<String> {
        let mut stream = TcpStream::connect(address).await?;
        stream
            .write_all(b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok(text)
    }

    #[tokio::test]
    async fn a_dead_engine_refuses_and_comes_back_on_its_port() {
        let mut fleet = Fleet::start(1.0, 1).unwrap();
        let engine = &mut fleet.engines[3];
        for _ in 0..3 {
            assert!(answers(engine.address).await.unwrap().contains("\"mini\""));
            engine.kill().await;
            let refused = TcpStream::connect(engine.address).await.unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            engine.revive().unwrap();
        }
    }
}
