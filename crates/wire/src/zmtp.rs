//! ZMTP 3, the protocol of ZeroMQ's sockets, for the two kinds of sockets that read an engine's events: SUB and DEALER.
//!
//! From the specifications 23/ZMTP (the mechanism NULL), 29/PUBSUB and 28/REQREP. A peer is not trusted: what it
//! announces is not allocated, a message has at most [`MESSAGE_BYTES_MAX`] bytes in [`PARTS_MAX`] parts, and everything
//! that does not belong ends the connection. (The crate zeromq 0.7 reserves whatever a frame's header announces, so
//! that nine bytes from anyone who reaches a bound port end the process; and it tells nobody that a peer is another one.)

use bytes::{Buf, Bytes, BytesMut};

/// Most bytes of a message.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Most parts of a message.
pub const PARTS_MAX: usize = 8;
/// Length of a greeting, bytes.
const GREETING: usize = 64;
/// Longest command, bytes.
const COMMAND_MAX: usize = 4096;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What this end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Receives what a PUB publishes, all of it.
    Subscriber,
    /// Asks a ROUTER, and receives its answers.
    Dealer,
}

impl Role {
    fn name(self) -> &'static str {
        match self {
            Self::Subscriber => "SUB",
            Self::Dealer => "DEALER",
        }
    }

    fn peers(self) -> &'static [&'static [u8]] {
        match self {
            Self::Subscriber => &[b"PUB", b"XPUB"],
            Self::Dealer => &[b"ROUTER", b"REP", b"DEALER"],
        }
    }
}

/// Why a connection cannot go on. Quotes nothing of the peer's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZmtpError {
    /// The peer does not speak ZMTP 3 or later.
    NotZmtp,
    /// The peer wants to know who one is (PLAIN or CURVE), which is not offered.
    Mechanism,
    /// The peer is no socket that goes with this one.
    WrongPeer {
        /// What this end is.
        role: &'static str,
    },
    /// The peer refused the connection with an error.
    Refused,
    /// A frame or a command is not as the protocol has it: what is wrong with it.
    Broken(&'static str),
    /// A message is larger than [`MESSAGE_BYTES_MAX`] or has more than [`PARTS_MAX`] parts.
    TooLarge,
}

impl std::fmt::Display for ZmtpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotZmtp => f.write_str("the peer does not speak ZMTP 3 (ZeroMQ 4 or later)"),
            Self::Mechanism => {
                f.write_str("the peer asks for ZeroMQ authentication (PLAIN or CURVE); only NULL is spoken")
            }
            Self::WrongPeer { role: "SUB" } => f.write_str("the peer is no PUB socket"),
            Self::WrongPeer { .. } => f.write_str("the peer is no ROUTER socket"),
            Self::Refused => f.write_str("the peer refused the connection"),
            Self::Broken(what) => write!(f, "broken ZMTP: {what}"),
            Self::TooLarge => {
                write!(
                    f,
                    "a message of more than {MESSAGE_BYTES_MAX} bytes or {PARTS_MAX} parts"
                )
            }
        }
    }
}

impl std::error::Error for ZmtpError {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Greeting,
    Ready,
    Messages,
}

/// One connection: what to send, and what the received bytes say.
#[derive(Debug)]
pub struct Zmtp {
    role: Role,
    stage: Stage,
    parts: Vec<Bytes>,
    parts_bytes: usize,
}

/// What came of received bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// More bytes are needed.
    Nothing,
    /// The peer is a socket that goes with this one; messages follow.
    Ready,
    /// A message, in parts.
    Message(Vec<Bytes>),
}

impl Zmtp {
    /// A connection that was just made, by either side. `out` gets what is to be sent at once.
    pub fn new(role: Role, out: &mut Vec<u8>) -> Self {
        let mut greeting = [0; GREETING];
        greeting[0] = 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        greeting[12..16].copy_from_slice(b"NULL");
        out.extend_from_slice(&greeting);
        Self {
            role,
            stage: Stage::Greeting,
            parts: Vec::new(),
            parts_bytes: 0,
        }
    }

    /// Takes one thing off received bytes; `out` gets what is to be sent back. To be called until it says
    /// [`Received::Nothing`].
    ///
    /// # Errors
    ///
    /// What ends the connection.
    pub fn receive(&mut self, bytes: &mut BytesMut, out: &mut Vec<u8>) -> Result<Received, ZmtpError> {
        if self.stage == Stage::Greeting {
            if bytes.len() < GREETING {
                // A peer of another kind is told early, since it may wait for an answer.
                return if bytes.first().is_some_and(|first| *first != 0xff) {
                    Err(ZmtpError::NotZmtp)
                } else {
                    Ok(Received::Nothing)
                };
            }
            self.greeting(&bytes.split_to(GREETING), out)?;
        }
        loop {
            let Some((flags, body)) = self.frame(bytes)? else {
                return Ok(Received::Nothing);
            };
            if flags & COMMAND != 0 {
                if self.command(&body, out)? {
                    return Ok(Received::Ready);
                }
                continue;
            }
            if self.stage != Stage::Messages {
                return Err(ZmtpError::Broken("a message before the peer has said what it is"));
            }
            self.parts_bytes += body.len();
            self.parts.push(body);
            if flags & MORE == 0 {
                self.parts_bytes = 0;
                return Ok(Received::Message(std::mem::take(&mut self.parts)));
            }
        }
    }

    fn greeting(&mut self, greeting: &[u8], out: &mut Vec<u8>) -> Result<(), ZmtpError> {
        if greeting[0] != 0xff || greeting[9] & 1 == 0 || greeting[10] < 3 {
            return Err(ZmtpError::NotZmtp);
        }
        if greeting[12..32] != *b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" {
            return Err(ZmtpError::Mechanism);
        }
        let mut ready = Vec::with_capacity(48);
        ready.extend_from_slice(b"\x05READY");
        property(&mut ready, "Socket-Type", self.role.name().as_bytes());
        if self.role == Role::Dealer {
            property(&mut ready, "Identity", b"");
        }
        frame_into(COMMAND, &ready, out);
        self.stage = Stage::Ready;
        Ok(())
    }

    /// The next frame, once all of it is there.
    fn frame(&self, bytes: &mut BytesMut) -> Result<Option<(u8, Bytes)>, ZmtpError> {
        let Some(&flags) = bytes.first() else {
            return Ok(None);
        };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
            return Err(ZmtpError::Broken("a frame of an unknown kind"));
        }
        let head = if flags & LONG != 0 { 9 } else { 2 };
        let Some(length) = bytes.get(1..head) else {
            return Ok(None);
        };
        let length = length
            .iter()
            .fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        let length = usize::try_from(length).map_err(|_| ZmtpError::TooLarge)?;
        if flags & COMMAND != 0 {
            if length > COMMAND_MAX {
                return Err(ZmtpError::TooLarge);
            }
        } else if length > MESSAGE_BYTES_MAX - self.parts_bytes || self.parts.len() >= PARTS_MAX {
            return Err(ZmtpError::TooLarge);
        }
        if bytes.len() - head < length {
            return Ok(None);
        }
        bytes.advance(head);
        Ok(Some((flags, bytes.split_to(length).freeze())))
    }

    /// Whether the command makes the connection ready.
    fn command(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<bool, ZmtpError> {
        let (name, data) = short(body).ok_or(ZmtpError::Broken("a command without a name"))?;
        match (name, self.stage) {
            (b"READY", Stage::Ready) => {
                let socket = socket_type(data)?;
                if !self.role.peers().contains(&socket) {
                    return Err(ZmtpError::WrongPeer {
                        role: self.role.name(),
                    });
                }
                self.stage = Stage::Messages;
                if self.role == Role::Subscriber {
                    // In ZMTP 3.0 a subscription is a message: 1 and the topic, here any.
                    frame_into(0, &[1], out);
                }
                Ok(true)
            }
            (b"ERROR", _) => Err(ZmtpError::Refused),
            (b"PING", Stage::Messages) => {
                // Two bytes say for how long; what follows is sent back.
                let context = data.get(2..).unwrap_or_default();
                let mut pong = b"\x04PONG".to_vec();
                pong.extend_from_slice(&context[..context.len().min(16)]);
                frame_into(COMMAND, &pong, out);
                Ok(false)
            }
            (_, Stage::Messages) => Ok(false),
            _ => Err(ZmtpError::Broken("another command before READY")),
        }
    }
}

/// A message of `parts`, as it is sent.
pub fn message(parts: &[&[u8]], out: &mut Vec<u8>) {
    for (place, part) in parts.iter().enumerate() {
        let more = if place + 1 < parts.len() { MORE } else { 0 };
        frame_into(more, part, out);
    }
}

fn frame_into(flags: u8, body: &[u8], out: &mut Vec<u8>) {
    if let Ok(length) = u8::try_from(body.len()) {
        out.extend_from_slice(&[flags, length]);
    } else {
        out.push(flags | LONG);
        out.extend_from_slice(&(body.len() as u64).to_be_bytes());
    }
    out.extend_from_slice(body);
}

fn property(name: &mut Vec<u8>, key: &'static str, value: &'static [u8]) {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "names and values of ours, of a few bytes"
    )]
    {
        name.push(key.len() as u8);
        name.extend_from_slice(key.as_bytes());
        name.extend_from_slice(&(value.len() as u32).to_be_bytes());
    }
    name.extend_from_slice(value);
}

/// Bytes behind one byte that says how many they are, and the rest.
fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length))
}

/// The property `Socket-Type`, whose name has no case.
fn socket_type(mut properties: &[u8]) -> Result<&[u8], ZmtpError> {
    const BROKEN: ZmtpError = ZmtpError::Broken("a property that is cut off");
    let mut socket: &[u8] = b"";
    while !properties.is_empty() {
        let (name, rest) = short(properties).ok_or(BROKEN)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(BROKEN)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(|_| BROKEN)?;
        let (value, rest) = rest.split_at_checked(length).ok_or(BROKEN)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            socket = value;
        }
        properties = rest;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests;
