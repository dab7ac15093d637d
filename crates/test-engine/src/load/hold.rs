//! Streams that stay open, for measuring what an open one costs.

use super::{Load, loopback};
use memchr::memmem;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Opens as many streams as `load` has connections, one after another, and gives them back once each has had its first
/// event.
///
/// # Errors
/// A text that says which of them failed and how.
pub fn hold(load: &Load) -> Result<Vec<TcpStream>, String> {
    let url = loopback(&load.url)?;
    let request = load.request_bytes(&url);
    let open = |index: usize| {
        let mut stream = TcpStream::connect(url.addr)?;
        stream.set_read_timeout(Some(load.timeout))?;
        stream.write_all(&request)?;
        let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
        while memmem::find(&answer, b"data: {").is_none() {
            let read = stream.read(&mut piece)?;
            if read == 0 || (answer.len() > 12 && !answer[9..].starts_with(b"200")) {
                let said = String::from_utf8_lossy(&answer);
                return Err(std::io::Error::other(format!("stream {index} ended: {said:?}")));
            }
            answer.extend_from_slice(&piece[..read]);
        }
        Ok(stream)
    };
    (0..load.connections)
        .map(|index| open(index).map_err(|error| format!("stream {index}: {error}")))
        .collect()
}
