//! HTTP/1.1 without sockets: message heads, and bodies by length, in chunks or up to the end of the connection.
//! Source: RFC 9112, sections 2, 6 and 7.

use memchr::memmem;

/// The start line and the headers of a message, decoded byte by byte (ISO 8859-1), nothing normalised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Request line or status line.
    pub start: String,
    /// Name and value as sent, in order, with blanks around the value removed.
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// The first value of a header; names are compared without case.
    pub fn get(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The status code of a status line.
    pub fn status(&self) -> Option<u16> {
        self.start.split(' ').nth(1)?.parse().ok()
    }
}

/// The first value of a header in a list of pairs; names are compared without case.
pub fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers
        .iter()
        .find(|(k, _)| k.eq_ignore_ascii_case(name))
        .map(|(_, v)| v.as_str())
}

/// Where the head in `buf` ends (the index after the empty line), if it is complete.
pub fn head_end(buf: &[u8]) -> Option<usize> {
    memmem::find(buf, b"\r\n\r\n").map(|i| i + 4)
}

/// Splits a complete head into start line and headers. Lines without a colon are left out.
pub fn parse_head(bytes: &[u8]) -> Head {
    let text: String = bytes.iter().map(|&b| char::from(b)).collect();
    let mut lines = text.split("\r\n");
    let start = lines.next().unwrap_or_default().to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()))
        .collect();
    Head { start, headers }
}

/// A chunk size line that is not a hexadecimal number, or data that runs past its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadChunk;

/// Cuts the bytes of one body out of a connection's bytes.
#[derive(Clone, Debug)]
pub struct Body(State);

#[derive(Clone, Debug)]
enum State {
    Length(u64),
    Size(Vec<u8>),
    Data(u64),
    DataEnd(u8),
    Trailer(Vec<u8>),
    ToEnd,
    Done,
}

/// No chunk size line or trailer line of ours comes near this many bytes.
const LINE_MAX: usize = 16 * 1024;

impl Body {
    /// A body of exactly `n` bytes.
    pub fn length(n: u64) -> Body {
        Body(if n == 0 { State::Done } else { State::Length(n) })
    }

    /// A body in chunks.
    pub fn chunked() -> Body {
        Body(State::Size(Vec::new()))
    }

    /// A body that ends with the connection.
    pub fn to_end() -> Body {
        Body(State::ToEnd)
    }

    /// The body that follows a request head: none unless it says so.
    pub fn of_request(head: &Head) -> Body {
        Body::of(head).unwrap_or(Body(State::Done))
    }

    /// The body that follows a response head with this status, to a request that was not HEAD.
    pub fn of_response(head: &Head) -> Body {
        match head.status() {
            Some(100..=199 | 204 | 304) => Body(State::Done),
            _ => Body::of(head).unwrap_or(Body(State::ToEnd)),
        }
    }

    fn of(head: &Head) -> Option<Body> {
        let coding = head.get("transfer-encoding").unwrap_or_default();
        if coding.to_ascii_lowercase().contains("chunked") {
            return Some(Body::chunked());
        }
        head.get("content-length")
            .and_then(|n| n.parse().ok())
            .map(Body::length)
    }

    /// True when the whole body has been read.
    pub fn is_done(&self) -> bool {
        matches!(self.0, State::Done)
    }

    /// True when only the end of the connection ends this body.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.0, State::ToEnd)
    }

    /// Takes bytes of the connection and hands the body's bytes to `out`, piece by piece. Gives the number of
    /// bytes used: what is left belongs to the next message.
    ///
    /// # Errors
    /// [`BadChunk`] when the chunk framing is broken.
    pub fn feed(&mut self, input: &[u8], out: &mut dyn FnMut(&[u8])) -> Result<usize, BadChunk> {
        let mut at = 0;
        while at < input.len() && !self.is_done() {
            at += self.step(&input[at..], out)?;
        }
        Ok(at)
    }

    fn step(&mut self, input: &[u8], out: &mut dyn FnMut(&[u8])) -> Result<usize, BadChunk> {
        match &mut self.0 {
            State::Done => Ok(0),
            State::ToEnd => {
                out(input);
                Ok(input.len())
            }
            State::Length(left) | State::Data(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                out(&input[..n]);
                *left -= n as u64;
                let finished = *left == 0;
                if finished {
                    self.0 = if matches!(self.0, State::Data(_)) {
                        State::DataEnd(0)
                    } else {
                        State::Done
                    };
                }
                Ok(n)
            }
            State::DataEnd(seen) => {
                if input[0] != b"\r\n"[usize::from(*seen)] {
                    return Err(BadChunk);
                }
                self.0 = if *seen == 1 {
                    State::Size(Vec::new())
                } else {
                    State::DataEnd(1)
                };
                Ok(1)
            }
            State::Size(line) => {
                let (n, complete) = take_line(line, input)?;
                if complete {
                    let size = chunk_size(line)?;
                    self.0 = if size == 0 {
                        State::Trailer(Vec::new())
                    } else {
                        State::Data(size)
                    };
                }
                Ok(n)
            }
            State::Trailer(line) => {
                let (n, complete) = take_line(line, input)?;
                if complete {
                    self.0 = if line.is_empty() {
                        State::Done
                    } else {
                        State::Trailer(Vec::new())
                    };
                }
                Ok(n)
            }
        }
    }
}

/// Moves bytes up to a line's end into `line` (without the end); gives the bytes used and whether it ended.
fn take_line(line: &mut Vec<u8>, input: &[u8]) -> Result<(usize, bool), BadChunk> {
    let (n, complete) = match memchr::memchr(b'\n', input) {
        Some(i) => (i + 1, true),
        None => (input.len(), false),
    };
    line.extend_from_slice(&input[..n]);
    if line.len() > LINE_MAX {
        return Err(BadChunk);
    }
    if complete {
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
    }
    Ok((n, complete))
}

fn chunk_size(line: &[u8]) -> Result<u64, BadChunk> {
    let text = std::str::from_utf8(line).map_err(|_| BadChunk)?;
    let digits = text.split(';').next().unwrap_or_default().trim();
    u64::from_str_radix(digits, 16).map_err(|_| BadChunk)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut body: Body, input: &[u8], step: usize) -> (Vec<u8>, usize, bool) {
        let (mut out, mut used) = (Vec::new(), 0);
        while used < input.len() && !body.is_done() {
            let end = (used + step).min(input.len());
            used += body
                .feed(&input[used..end], &mut |b| out.extend_from_slice(b))
                .unwrap();
        }
        (out, used, body.is_done())
    }

    #[test]
    fn chunks_are_the_same_however_the_bytes_arrive() {
        let input = b"4\r\nabcd\r\nA;x=y\r\n0123456789\r\n0\r\nx-t: 1\r\n\r\nNEXT";
        for step in 1..input.len() {
            let (out, used, done) = read(Body::chunked(), input, step);
            assert_eq!(out, b"abcd0123456789", "step {step}");
            assert_eq!((used, done), (input.len() - 4, true), "step {step}");
        }
    }

    #[test]
    fn broken_chunks_are_errors() {
        for input in [&b"zz\r\n"[..], b"\r\n", b"2\r\nabc\r\n"] {
            assert_eq!(Body::chunked().feed(input, &mut |_| {}), Err(BadChunk));
        }
    }

    #[test]
    fn a_length_leaves_the_next_message_alone() {
        assert_eq!(read(Body::length(3), b"abcdef", 2), (b"abc".to_vec(), 3, true));
        assert_eq!(read(Body::length(9), b"abc", 2), (b"abc".to_vec(), 3, false));
        assert!(Body::length(0).is_done());
    }

    #[test]
    fn heads_keep_order_case_and_duplicates() {
        let bytes = b"GET /x HTTP/1.1\r\nX-A: 1\r\nx-a:2 \r\njunk\r\n\r\nrest";
        let end = head_end(bytes).unwrap();
        let head = parse_head(&bytes[..end]);
        assert_eq!(head.start, "GET /x HTTP/1.1");
        assert_eq!(
            head.headers,
            [("X-A".into(), "1".into()), ("x-a".into(), "2".into())]
        );
        assert_eq!(head.get("X-a"), Some("1"));
    }
}
