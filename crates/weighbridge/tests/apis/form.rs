//! Forms, as clients write them.

use sha2::{Digest, Sha256};
use weighbridge_test_engine::client::Request;

pub(crate) const TYPE: &str = "multipart/form-data; boundary=\"edge 0\"";

/// One part: its name, the rest of its disposition, its content.
pub(crate) fn part(name: &str, more: &str, content: impl AsRef<[u8]>) -> Vec<u8> {
    let head = format!("--edge 0\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n");
    [head.as_bytes(), content.as_ref(), b"\r\n"].concat()
}

pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    part(name, "", value)
}

pub(crate) fn file(content: impl AsRef<[u8]>) -> Vec<u8> {
    part("file", "; filename=\"a.wav\"\r\nContent-Type: audio/wav", content)
}

/// A form of these parts, with something before the first boundary and after the last.
pub(crate) fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    [
        b"a preamble\r\n",
        parts.concat().as_slice(),
        b"--edge 0--\r\nan epilogue",
    ]
    .concat()
}

pub(crate) fn post(url: &str, body: impl AsRef<[u8]>) -> Request {
    Request::post(url, body).header("content-type", TYPE)
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
