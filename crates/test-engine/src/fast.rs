//! A very cheap inference server: one thread, canned answers, next to no parsing. A benchmark that puts the
//! gateway before it measures the gateway.
//!
//! A POST is answered with a canned chat completion, or with a canned stream if its body holds `"stream":true`; the stream
//! ends with its usage if the body holds `"include_usage":true`.
//! A GET is answered as a probe would like it. Bodies need a `content-length` or chunks; requests may be
//! pipelined.

use crate::http1::{Body, head_end};
use memchr::memmem;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::time::Instant;

const BACKLOG: u32 = 4096;

/// What the server answers.
#[derive(Clone, Debug)]
pub struct FastOptions {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// Text events of a stream.
    pub chunks: usize,
    /// Time between two events of a stream. Events keep to a schedule from the start of their stream; the timer
    /// has a resolution of one millisecond, and events that are due at the same tick are written one by one.
    pub gap: Duration,
    /// Bytes of text in an answer in one piece.
    pub text: usize,
    /// The text of every event is the time at which it is written: see [`stamp`].
    pub stamped: bool,
}

impl FastOptions {
    /// 32 chunks without gaps, 256 bytes of text.
    pub fn new(listen: SocketAddr) -> FastOptions {
        FastOptions {
            listen,
            chunks: 32,
            gap: Duration::ZERO,
            text: 256,
            stamped: false,
        }
    }
}

/// What a stamped text begins with, followed by [`STAMP_DIGITS`] digits: nanoseconds since 1970.
pub(crate) const STAMP: &[u8] = b"\"at ";
/// Digits of a stamp.
pub(crate) const STAMP_DIGITS: usize = 19;

/// The time of now as a stamp has it.
pub(crate) fn stamp() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_nanos()).unwrap_or(u64::MAX))
}

/// The canned answers.
struct Canned {
    whole: Vec<u8>,
    stream_head: Vec<u8>,
    /// The chunks of a stream but for the last.
    events: Vec<Vec<u8>>,
    /// The last with the stream's end, without and with its usage.
    lasts: [Vec<u8>; 2],
    stamped: bool,
    models: Vec<u8>,
    metrics: Vec<u8>,
    empty: Vec<u8>,
    gap: Duration,
}

impl Canned {
    fn new(options: &FastOptions) -> Canned {
        let text = "lorem ipsum ".repeat(options.text / 12 + 1);
        let whole = format!(
            concat!(
                r#"{{"id":"chatcmpl-fast","object":"chat.completion","created":1700000000,"model":"fast","choices":"#,
                r#"[{{"index":0,"message":{{"role":"assistant","content":"{}"}},"finish_reason":"stop"}}],"#,
                r#""usage":{{"prompt_tokens":11,"completion_tokens":64,"total_tokens":75}}}}"#
            ),
            &text[..options.text]
        );
        let event = |delta: &str, finish: &str| {
            let data = format!(
                concat!(
                    r#"data: {{"id":"chatcmpl-fast","object":"chat.completion.chunk","created":1700000000,"#,
                    r#""model":"fast","choices":[{{"index":0,"delta":{},"finish_reason":{}}}]}}"#,
                    "\n\n"
                ),
                delta, finish
            );
            chunk(&data)
        };
        let token = match options.stamped {
            true => format!(r#"{{"content":"at {} "}}"#, "0".repeat(STAMP_DIGITS)),
            false => r#"{"content":"token "}"#.to_owned(),
        };
        let mut events = vec![event(r#"{"role":"assistant","content":""}"#, "null")];
        events.extend((0..options.chunks).map(|_| event(&token, "null")));
        let usage = chunk(concat!(
            r#"data: {"id":"chatcmpl-fast","object":"chat.completion.chunk","created":1700000000,"model":"fast","#,
            r#""choices":[],"usage":{"prompt_tokens":11,"completion_tokens":64,"total_tokens":75}}"#,
            "\n\n"
        ));
        let stop = event("{}", "\"stop\"");
        let end = [chunk("data: [DONE]\n\n"), b"0\r\n\r\n".to_vec()].concat();
        let lasts = [
            [&stop[..], &end[..]].concat(),
            [&stop[..], &usage[..], &end[..]].concat(),
        ];
        let json = "application/json";
        Canned {
            whole: response(json, &whole),
            stream_head:
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                    .to_vec(),
            events,
            lasts,
            stamped: options.stamped,
            models: response(
                json,
                r#"{"object":"list","data":[{"id":"fast","object":"model","owned_by":"fast"}]}"#,
            ),
            metrics: response(
                "text/plain; version=0.0.4",
                "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n",
            ),
            empty: response(json, "{}"),
            gap: options.gap,
        }
    }
}

fn response(content_type: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

fn chunk(data: &str) -> Vec<u8> {
    format!("{:x}\r\n{data}\r\n", data.len()).into_bytes()
}

/// A server on a thread of its own; it stops when dropped.
pub struct Fast {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Fast {
    /// Starts a server.
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn start(options: &FastOptions) -> io::Result<Fast> {
        let options = options.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("fast".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a runtime");
                runtime.block_on(async {
                    let listener = listen(options.listen);
                    let addr = listener
                        .as_ref()
                        .map_err(|e| io::Error::from(e.kind()))
                        .and_then(TcpListener::local_addr);
                    let _ = tell.send(addr);
                    let Ok(listener) = listener else { return };
                    tokio::select! {
                        () = accept(listener, Arc::new(Canned::new(&options))) => {}
                        _ = stopped => {}
                    }
                });
            })?;
        let addr = told
            .recv()
            .map_err(|_| io::Error::other("the server's thread ended"))??;
        Ok(Fast {
            addr,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://HOST:PORT`, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// Waits for ever.
    pub fn serve(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Fast {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

async fn accept(listener: TcpListener, canned: Arc<Canned>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                let canned = canned.clone();
                tokio::spawn(async move { drop(serve(&stream, &canned).await) });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// What a request head asks for, as far as it matters here.
struct Asked {
    head: usize,
    length: usize,
    chunked: bool,
    get: bool,
    close: bool,
    expects: bool,
}

fn asked(buf: &[u8]) -> Option<Asked> {
    let head = head_end(buf)?;
    let mut asked = Asked {
        head,
        length: 0,
        chunked: false,
        get: buf.starts_with(b"GET "),
        close: false,
        expects: false,
    };
    let mut at = 0;
    while let Some(end) = memchr::memchr(b'\n', &buf[at..head]) {
        let line = &buf[at..at + end];
        at += end + 1;
        // Only four headers matter; their first letters rule out most others without a comparison.
        match line.first().map(u8::to_ascii_lowercase) {
            Some(b'c') if named(line, b"content-length:") => {
                let digits = line[15..].iter().filter(|b| b.is_ascii_digit());
                asked.length = digits.fold(0, |n, d| {
                    n.saturating_mul(10).saturating_add(usize::from(d - b'0'))
                });
            }
            Some(b'c') if named(line, b"connection:") => {
                asked.close = line[11..].trim_ascii().eq_ignore_ascii_case(b"close")
            }
            Some(b't') if named(line, b"transfer-encoding:") => asked.chunked = true,
            Some(b'e') if named(line, b"expect:") => asked.expects = true,
            _ => {}
        }
    }
    Some(asked)
}

fn named(line: &[u8], name: &[u8]) -> bool {
    line.get(..name.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(name))
}

async fn serve(stream: &TcpStream, canned: &Canned) -> io::Result<()> {
    let mut buf = Vec::with_capacity(16 * 1024);
    loop {
        let asked = loop {
            match asked(&buf) {
                Some(asked) => break asked,
                None => fill(stream, &mut buf).await?,
            }
        };
        if asked.expects {
            write(stream, b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let (end, wanted) = if asked.chunked {
            read_chunks(stream, &mut buf, asked.head).await?
        } else {
            let end = asked.head + asked.length;
            while buf.len() < end {
                fill(stream, &mut buf).await?;
            }
            (end, Wanted::of(&buf[asked.head..end]))
        };
        if asked.get {
            write(stream, probe(&buf[..asked.head], canned)).await?;
        } else if wanted.stream {
            write_stream(stream, canned, wanted.usage).await?;
        } else {
            write(stream, &canned.whole).await?;
        }
        if asked.close {
            return Ok(());
        }
        buf.drain(..end);
    }
}

/// What a body asks for.
struct Wanted {
    stream: bool,
    usage: bool,
}

impl Wanted {
    fn of(body: &[u8]) -> Wanted {
        // From the end: clients put the long messages before it as often as not, and the search stops at the first.
        let stream = memmem::rfind(body, b"\"stream\"").is_some_and(|at| {
            let rest = body[at + 8..].trim_ascii_start();
            rest.strip_prefix(b":")
                .is_some_and(|rest| rest.trim_ascii_start().starts_with(b"true"))
        });
        let usage = stream && memmem::find(body, b"\"include_usage\":true").is_some();
        Wanted { stream, usage }
    }
}

fn probe<'a>(head: &[u8], canned: &'a Canned) -> &'a [u8] {
    match &head[4..] {
        path if path.starts_with(b"/v1/models") => &canned.models,
        path if path.starts_with(b"/metrics") => &canned.metrics,
        _ => &canned.empty,
    }
}

async fn read_chunks(stream: &TcpStream, buf: &mut Vec<u8>, head: usize) -> io::Result<(usize, Wanted)> {
    let (mut body, mut data, mut at) = (Body::chunked(), Vec::new(), head);
    loop {
        at += body
            .feed(&buf[at..], &mut |b| data.extend_from_slice(b))
            .map_err(|_| io::ErrorKind::InvalidData)?;
        if body.is_done() {
            return Ok((at, Wanted::of(&data)));
        }
        fill(stream, buf).await?;
    }
}

async fn fill(stream: &TcpStream, buf: &mut Vec<u8>) -> io::Result<()> {
    buf.reserve(16 * 1024);
    loop {
        match stream.try_read_buf(buf) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => stream.readable().await?,
            Err(e) => return Err(e),
        }
    }
}

async fn write(stream: &TcpStream, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match stream.try_write(data) {
            Ok(n) => data = &data[n..],
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

async fn write_stream(stream: &TcpStream, canned: &Canned, usage: bool) -> io::Result<()> {
    write(stream, &canned.stream_head).await?;
    let mut due = Instant::now();
    for event in canned.events.iter().chain([&canned.lasts[usize::from(usage)]]) {
        if !canned.gap.is_zero() {
            if due > Instant::now() {
                tokio::time::sleep_until(due).await;
            }
            due += canned.gap;
        }
        match memmem::find(event, STAMP).filter(|_| canned.stamped) {
            Some(at) => {
                let digits = format!("{:0width$}", stamp(), width = STAMP_DIGITS);
                let (start, end) = (at + STAMP.len(), at + STAMP.len() + STAMP_DIGITS);
                write(
                    stream,
                    &[&event[..start], digits.as_bytes(), &event[end..]].concat(),
                )
                .await?;
            }
            None => write(stream, event).await?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_matters_of_a_head() {
        let head = b"POST / HTTP/1.1\r\ncookie: x\r\nContent-Length: 42\r\nConnection: Close\r\n\r\n";
        let asked = asked(head).unwrap();
        assert_eq!(
            (asked.length, asked.close, asked.chunked, asked.get),
            (42, true, false, false)
        );
        let wanted = |body: &[u8]| (Wanted::of(body).stream, Wanted::of(body).usage);
        assert_eq!(wanted(br#"{"messages":[],"stream": true}"#), (true, false));
        assert_eq!(wanted(br#"{"stream":false}"#), (false, false));
        assert_eq!(
            wanted(br#"{"stream_options":{"include_usage":true},"stream":true}"#),
            (true, true)
        );
    }
}
