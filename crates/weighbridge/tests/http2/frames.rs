//! Frames of HTTP/2 (RFC 9113), written by hand: what no library sends.

use crate::support::{PATIENCE, address};
use std::time::{Duration, Instant};
use weighbridge_test_engine::client::{Raw, raw};
use weighbridge_test_engine::harness::Gateway;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const ACK: u8 = 1;

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The code at the end of a GOAWAY or RST_STREAM.
    pub(crate) fn code(&self) -> u32 {
        let at = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

pub(crate) fn frame(kind: u8, flags: u8, (stream, payload): (u32, &[u8])) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header field, literal and without a table (RFC 7541, section 6.2.2).
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        number(text.len(), &mut bytes);
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// A number after a seven-bit prefix (RFC 7541, section 5.1).
fn number(value: usize, bytes: &mut Vec<u8>) {
    if value < 127 {
        bytes.push(u8::try_from(value).unwrap());
        return;
    }
    bytes.push(127);
    let mut rest = value - 127;
    while rest >= 128 {
        bytes.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    bytes.push(u8::try_from(rest).unwrap());
}

/// The fields of a request for `path`.
pub(crate) fn request(method: &str, path: &str) -> Vec<u8> {
    let fields = [
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        (":authority", "gateway"),
    ];
    fields
        .iter()
        .flat_map(|(name, value)| field(name, value))
        .collect()
}

/// A connection that has shaken hands.
pub(crate) fn open(gateway: &Gateway) -> Raw {
    let mut client = raw(address(gateway));
    client.write(PREFACE).unwrap();
    client.write(frame(SETTINGS, 0, (0, &[]))).unwrap();
    client.write(frame(SETTINGS, ACK, (0, &[]))).unwrap();
    client
}

/// Takes the frames that have come whole.
fn take(client: &mut Raw) -> Vec<Frame> {
    let mut frames = Vec::new();
    loop {
        let bytes = &client.received;
        let Some(head) = bytes.first_chunk::<9>() else {
            break;
        };
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        if bytes.len() < 9 + length {
            break;
        }
        frames.push(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload: bytes[9..9 + length].to_vec(),
        });
        client.received.drain(..9 + length);
    }
    frames
}

/// Reads until a frame is `wanted`, and gives it; none: the connection ended first.
pub(crate) fn wait_for(client: &mut Raw, wanted: impl Fn(&Frame) -> bool) -> Option<Frame> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = take(client).into_iter().find(&wanted) {
            return Some(found);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        assert!(left > Duration::ZERO, "no such frame, and no end");
        if !matches!(client.read(left), Ok(1..)) {
            return None;
        }
    }
}

/// Waits for a GOAWAY and gives its code.
pub(crate) fn goaway(client: &mut Raw) -> Option<u32> {
    wait_for(client, |frame| frame.kind == GOAWAY).map(|frame| frame.code())
}
