//! A bare connection, for bytes that no client would send.

use super::request::Failure;
use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// A connection without any protocol.
#[derive(Debug)]
pub struct Raw {
    socket: TcpStream,
    /// Everything read so far.
    pub received: Vec<u8>,
}

/// Connects.
///
/// # Panics
/// If the connection fails.
pub fn raw(addr: impl Into<SocketAddr>) -> Raw {
    let addr = addr.into();
    Raw::connect(addr).unwrap_or_else(|e| panic!("{addr}: {e}"))
}

impl Raw {
    /// Connects.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn connect(addr: SocketAddr) -> Result<Raw, Failure> {
        let socket = TcpStream::connect_timeout(&addr, Duration::from_secs(5))?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(super::PATIENCE))?;
        Ok(Raw {
            socket,
            received: Vec::new(),
        })
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// When the peer is gone or takes nothing for 30 s.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
        self.socket.write_all(bytes.as_ref()).map_err(Failure::from)
    }

    /// Closes the sending side.
    pub fn half_close(&self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads what comes next: the number of bytes, 0 at the end of the connection.
    ///
    /// # Errors
    /// [`Failure::TimedOut`] when nothing comes, [`Failure::Reset`] when the peer resets.
    pub fn read(&mut self, within: Duration) -> Result<usize, Failure> {
        self.socket
            .set_read_timeout(Some(within.max(Duration::from_millis(1))))?;
        let mut buf = vec![0; 64 * 1024];
        let n = super::stream::receive(&mut self.socket, &mut buf)?;
        self.received.extend_from_slice(&buf[..n]);
        Ok(n)
    }

    /// Reads until `text` has been received; says whether it was.
    pub fn read_until(&mut self, text: &str, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        while memchr::memmem::find(&self.received, text.as_bytes()).is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !matches!(self.read(left), Ok(n) if n > 0) {
                return false;
            }
        }
        true
    }

    /// Reads to the end of the connection and gives everything received.
    ///
    /// # Errors
    /// When the peer does not close within the time, or resets.
    pub fn read_to_end(&mut self, within: Duration) -> Result<&[u8], Failure> {
        let deadline = Instant::now() + within;
        while self.read(deadline.saturating_duration_since(Instant::now()))? > 0 {}
        Ok(&self.received)
    }

    /// Everything received so far, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.received).into_owned()
    }

    /// The socket, to set its options.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Makes the next drop of this connection a reset.
    pub fn reset_on_drop(&self) {
        let _ = rustix::net::sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO));
    }
}
