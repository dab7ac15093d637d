//! What a blocking client speaks through: TCP, or TLS on it.

use super::request::Failure;
use super::stream::receive;
use crate::certificates::Trust;
use crate::url::Url;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Stream};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Connects to the host of a URL.
pub(super) fn connect(url: &Url) -> Result<TcpStream, Failure> {
    let socket = TcpStream::connect_timeout(&url.addr, CONNECT_WITHIN)?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// The name that a server's certificate must hold.
pub(super) fn server_name(url: &Url) -> ServerName<'static> {
    match url.addr.ip() {
        ip if url.authority.contains(&ip.to_string()) => ip.into(),
        _ => ServerName::try_from("localhost").expect("a name"),
    }
}

/// A stream of bytes to a server.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) socket: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Wire {
    pub(super) fn plain(socket: TcpStream) -> Wire {
        Wire { socket, tls: None }
    }

    /// Under TLS, whose handshake is made here.
    pub(super) fn encrypted(mut socket: TcpStream, url: &Url, trust: &Trust) -> Result<Wire, Failure> {
        let config = trust.config(&[b"http/1.1"]);
        let mut tls = ClientConnection::new(config, server_name(url)).map_err(|_| Failure::Tls)?;
        socket.set_read_timeout(Some(super::PATIENCE))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(Wire {
            socket,
            tls: Some(Box::new(tls)),
        })
    }

    /// Reads what comes next, for at most `within`.
    pub(super) fn read(&mut self, buf: &mut [u8], within: Duration) -> io::Result<usize> {
        let within = within.max(Duration::from_millis(1));
        self.socket.set_read_timeout(Some(within))?;
        let Some(tls) = &mut self.tls else {
            return receive(&mut self.socket, buf);
        };
        loop {
            match Stream::new(&mut **tls, &mut self.socket).read(buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Closed without TLS's word for it.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            None => self.socket.write_all(bytes),
            Some(tls) => {
                let mut stream = Stream::new(&mut **tls, &mut self.socket);
                stream.write_all(bytes).and_then(|()| stream.flush())
            }
        }
    }

    /// Says under TLS that nothing more comes; the connection below stays open.
    pub(super) fn close_notify(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            while tls.wants_write() {
                tls.write_tls(&mut self.socket)?;
            }
        }
        Ok(())
    }

    /// Closes the sending side.
    pub(super) fn half_close(&mut self) -> io::Result<()> {
        self.close_notify()?;
        self.socket.shutdown(Shutdown::Write)
    }

    /// The certificate that the server has shown.
    pub(super) fn peer_certificate(&self) -> Option<Vec<u8>> {
        Some(self.tls.as_ref()?.peer_certificates()?.first()?.to_vec())
    }
}
