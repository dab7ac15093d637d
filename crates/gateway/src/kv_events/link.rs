//! A connection that speaks ZMTP.

use bytes::{Bytes, BytesMut};
use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use weighbridge_config::kv_events::Place;
use weighbridge_wire::zmtp::{self, Received, Role, Zmtp, ZmtpError};

/// Longest wait for a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// Longest wait for a peer to say what it is.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Longest time for the whole answer of a publisher that was asked. It looks at its replay socket between two batches, at least every 100 ms.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// Silence after which the kernel asks whether the peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Why a connection is none, or no longer.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    #[error("no connection within {} s", CONNECT.as_secs())]
    ConnectTime,
    #[error("the peer did not say what it is within {} s", HANDSHAKE.as_secs())]
    HandshakeTime,
    #[error("no whole answer within {} s", ANSWER.as_secs())]
    AnswerTime,
    #[error("the answer is full of batches that were not asked for")]
    Useless,
    #[error("the connection broke: {0}")]
    Broken(#[from] std::io::Error),
    #[error("the peer closed the connection")]
    Closed,
    #[error("{0}")]
    Protocol(#[from] ZmtpError),
}

/// A connection whose peer has said that it is the socket it should be.
pub(super) struct Link {
    stream: TcpStream,
    zmtp: Zmtp,
    input: BytesMut,
    output: Vec<u8>,
}

impl Link {
    /// Connects.
    pub(super) async fn connect(place: &Place, role: Role) -> Result<Self, LinkError> {
        let stream = timeout(CONNECT, TcpStream::connect((&*place.host, place.port)))
            .await
            .map_err(|_| LinkError::ConnectTime)?
            .map_err(LinkError::Connect)?;
        Self::open(stream, role).await
    }

    /// Takes a connection that was just made, by either side.
    pub(super) async fn open(stream: TcpStream, role: Role) -> Result<Self, LinkError> {
        stream.set_nodelay(true)?;
        SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
        let mut output = Vec::new();
        let zmtp = Zmtp::new(role, &mut output);
        let mut link = Self {
            stream,
            zmtp,
            input: BytesMut::new(),
            output,
        };
        match timeout(HANDSHAKE, link.next()).await {
            Err(_) => Err(LinkError::HandshakeTime),
            Ok(Err(error)) => Err(error),
            // The protocol gives nothing before it is ready.
            Ok(Ok(_)) => {
                link.flush().await?;
                Ok(link)
            }
        }
    }

    /// The parts of the next message. Nothing is lost when the future is dropped.
    pub(super) async fn receive(&mut self) -> Result<Vec<Bytes>, LinkError> {
        loop {
            if let Received::Message(parts) = self.next().await? {
                return Ok(parts);
            }
        }
    }

    /// Sends a message.
    pub(super) async fn send(&mut self, parts: &[&[u8]]) -> Result<(), LinkError> {
        zmtp::message(parts, &mut self.output);
        self.flush().await
    }

    async fn next(&mut self) -> Result<Received, LinkError> {
        loop {
            let received = self.zmtp.receive(&mut self.input, &mut self.output)?;
            if received != Received::Nothing {
                return Ok(received);
            }
            self.flush().await?;
            if self.stream.read_buf(&mut self.input).await? == 0 {
                return Err(LinkError::Closed);
            }
        }
    }

    async fn flush(&mut self) -> Result<(), LinkError> {
        while !self.output.is_empty() {
            let written = self.stream.write(&self.output).await?;
            if written == 0 {
                return Err(LinkError::Closed);
            }
            self.output.drain(..written);
        }
        Ok(())
    }
}
