//! An answer to a client of whom nothing is read: it is written as HTTP/1.1, which those understand who can understand
//! anything plain.

use std::io;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use weighbridge_wire::{ErrorBody, Protocol};

/// Writes `error` as the only answer of a connection.
pub(crate) async fn tell(stream: &mut TcpStream, error: &ErrorBody) -> io::Result<()> {
    let body = error.render(Protocol::OpenAi);
    let reason = http::StatusCode::from_u16(error.status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default();
    let retry_after = error
        .retry_after
        .map(|wait| format!("retry-after: {}\r\n", wait.as_secs().max(1)))
        .unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {} {reason}\r\ncontent-type: application/json\r\n{retry_after}connection: close\r\ncontent-length: {}\r\n\r\n",
        error.status,
        body.len()
    );
    stream.write_all(&[head.as_bytes(), &body].concat()).await
}
