//! Telling what a connection speaks by its first bytes, which are looked at and left to the codec: HTTP/2 from HTTP/1 on a
//! plain one (RFC 9113, section 3.4), TLS from plain HTTP.

use rustix::net::{RecvFlags, recv};
use std::io::{self, ErrorKind};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// What every HTTP/2 client sends first. No method of HTTP/1 is `PRI`.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Waits for the first bytes and says whether they are HTTP/2's. One look is enough but for a client whose preface comes
/// in pieces.
pub(crate) async fn is_http2(stream: &TcpStream) -> io::Result<bool> {
    loop {
        let ready = stream.ready(Interest::READABLE).await?;
        let looked = stream.try_io(Interest::READABLE, || {
            let mut first = [0; PREFACE.len()];
            let (came, _) = recv(stream, &mut first, RecvFlags::PEEK)?;
            let undecided = (1..PREFACE.len()).contains(&came) && PREFACE.starts_with(&first[..came]);
            if undecided && !ready.is_read_closed() {
                // Takes the readiness back: more bytes give a new one.
                return Err(ErrorKind::WouldBlock.into());
            }
            Ok(first == *PREFACE)
        });
        match looked {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            looked => return looked,
        }
    }
}

/// Waits for the first byte, which stays where it is; none: the client has closed its sending half without one.
pub(crate) async fn first_byte(stream: &TcpStream) -> io::Result<Option<u8>> {
    let mut first = [0];
    let came = stream.peek(&mut first).await?;
    Ok((came > 0).then_some(first[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use tokio::net::TcpListener;

    /// What is said of a client that sends these pieces, and closes if it says no more.
    async fn said(pieces: &[&[u8]]) -> bool {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let looking = is_http2(&stream);
        let sending = async {
            for piece in pieces {
                client.write_all(piece).unwrap();
                tokio::task::yield_now().await;
            }
            client.shutdown(std::net::Shutdown::Write).unwrap();
        };
        tokio::join!(looking, sending).0.unwrap()
    }

    #[tokio::test]
    async fn the_first_bytes_decide() {
        assert!(said(&[PREFACE]).await);
        assert!(said(&[&PREFACE[..1], &PREFACE[1..7], &PREFACE[7..]]).await);
        assert!(!said(&[b"POST / HTTP/1.1\r\n"]).await);
        assert!(!said(&[b"P", b"UT / HTTP/1.1\r\n"]).await);
        assert!(!said(&[b"PRI * HTTP/1.1\r\n\r\n"]).await);
        assert!(!said(&[b"PRI"]).await);
        assert!(!said(&[]).await);
    }
}
