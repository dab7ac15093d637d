//! Building and sending one request.

use super::http2::{Answer, Session};
use super::stream::StreamClient;
use super::wire::{Wire, connect};
use super::{End, PATIENCE, Response};
use crate::certificates::Trust;
use crate::url::Url;
use bytes::Bytes;
use std::fmt;
use std::io;
use std::time::{Duration, Instant};

/// The protocol that a request is sent in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http {
    /// HTTP/1.1, or 1.0 where the request says so.
    #[default]
    One,
    /// HTTP/2: with prior knowledge, or by ALPN under TLS.
    Two,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection was refused.
    Refused,
    /// The peer closed before a complete head.
    Closed,
    /// The peer reset the connection before a complete head.
    Reset,
    /// Nothing (or not enough) came in time.
    TimedOut,
    /// Any other failure of the connection.
    Io(io::ErrorKind),
    /// What came is not HTTP.
    NotHttp,
    /// The TLS handshake failed, or TLS's alert came.
    Tls,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused => f.write_str("connection refused"),
            Failure::Closed => f.write_str("closed before an answer"),
            Failure::Reset => f.write_str("reset before an answer"),
            Failure::TimedOut => f.write_str("no answer in time"),
            Failure::Io(kind) => write!(f, "{kind}"),
            Failure::Tls => f.write_str("TLS failed"),
            Failure::NotHttp => f.write_str("the answer is not HTTP"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        use io::ErrorKind as K;
        match e.kind() {
            K::ConnectionRefused => Failure::Refused,
            K::ConnectionReset | K::BrokenPipe | K::ConnectionAborted => Failure::Reset,
            K::WouldBlock | K::TimedOut => Failure::TimedOut,
            K::InvalidData => Failure::Tls,
            kind => Failure::Io(kind),
        }
    }
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    chunked: Option<usize>,
    http10: bool,
    half_close: bool,
    unfinished: bool,
    http: Http,
    trust: Option<Trust>,
    patience: Duration,
}

impl Request {
    /// A request with this method and no body.
    pub fn new(method: &str, url: &str) -> Request {
        Request {
            method: method.to_owned(),
            url: url.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            chunked: None,
            http10: false,
            half_close: false,
            unfinished: false,
            http: Http::One,
            trust: None,
            patience: PATIENCE,
        }
    }

    /// A GET.
    pub fn get(url: &str) -> Request {
        Request::new("GET", url)
    }

    /// A POST, with `content-type: application/json` unless a header says otherwise.
    pub fn post(url: &str, body: impl AsRef<[u8]>) -> Request {
        Request::new("POST", url).body(body)
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Request {
        self.body = body.as_ref().to_vec();
        self
    }

    /// Adds a header. One of `host`, `content-type` and `content-length` replaces the client's own.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds headers.
    #[must_use]
    pub fn headers(mut self, headers: &[(&str, &str)]) -> Request {
        self.headers
            .extend(headers.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())));
        self
    }

    /// Sends the body in chunks of this size instead of with a length.
    #[must_use]
    pub fn chunked(mut self, size: usize) -> Request {
        self.chunked = Some(size.max(1));
        self
    }

    /// Speaks HTTP/1.0.
    #[must_use]
    pub fn http10(mut self) -> Request {
        self.http10 = true;
        self
    }

    /// Closes the sending side after the request.
    #[must_use]
    pub fn half_close(mut self) -> Request {
        self.half_close = true;
        self
    }

    /// Says that the body is one byte longer than it is, or does not end it.
    #[must_use]
    pub fn unfinished(mut self) -> Request {
        self.unfinished = true;
        self
    }

    /// Sends it in this protocol; without this in HTTP/1.1.
    #[must_use]
    pub fn over(mut self, http: Http) -> Request {
        self.http = http;
        self
    }

    /// What a request to an `https` URL needs.
    #[must_use]
    pub fn trusting(mut self, trust: &Trust) -> Request {
        self.trust = Some(trust.clone());
        self
    }

    /// How long to wait for the head, and again for the body; 30 s if not set.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Request {
        self.patience = patience;
        self
    }

    /// Sends and gives the whole answer.
    ///
    /// # Panics
    /// If no whole answer comes.
    pub fn send(&self) -> Response {
        let response = self
            .try_send()
            .unwrap_or_else(|e| panic!("{} {}: {e}", self.method, self.url));
        let whole = response.end.is_whole();
        assert!(
            whole,
            "{} {}: body ended as {:?}: {}",
            self.method,
            self.url,
            response.end,
            response.text()
        );
        response
    }

    /// Sends and gives the answer however its body ended.
    ///
    /// # Errors
    /// When there is no complete head.
    pub fn try_send(&self) -> Result<Response, Failure> {
        let mut stream = self.try_open()?;
        let end = stream.finish(self.patience);
        Ok(stream.into_response(end))
    }

    /// Sends and gives the answer as it comes.
    ///
    /// # Panics
    /// If no head comes.
    pub fn open(&self) -> StreamClient {
        self.try_open()
            .unwrap_or_else(|e| panic!("{} {}: {e}", self.method, self.url))
    }

    /// Sends and gives the answer as it comes.
    ///
    /// # Errors
    /// When there is no complete head.
    pub fn try_open(&self) -> Result<StreamClient, Failure> {
        self.begin()?.head(self.patience)
    }

    /// Sends and does not wait for anything.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn begin(&self) -> Result<Pending, Failure> {
        let started = Instant::now();
        if self.http == Http::Two {
            let session = Session::to(&self.url, self.trust.as_ref())?;
            return session.begin(self).map(|pending| Pending { started, ..pending });
        }
        let connection = Connection::trusting(&self.url, self.trust.as_ref())?;
        self.begin_on(connection)
            .map(|pending| Pending { started, ..pending })
    }

    /// Sends on a connection that is there already.
    ///
    /// # Errors
    /// When the connection fails. A peer that answers before it has read the request and then closes is no
    /// failure yet: its answer may be waiting.
    pub fn begin_on(&self, mut connection: Connection) -> Result<Pending, Failure> {
        let started = Instant::now();
        let url = Url::parse(&self.url).unwrap_or_else(|e| panic!("{e}"));
        let sent = connection.wire.write(&self.bytes(&url));
        if self.half_close && sent.is_ok() {
            connection.wire.half_close()?;
        }
        Ok(Pending {
            way: Way::One(connection),
            started,
            is_head: self.method == "HEAD",
        })
    }

    /// The head and body of the request over HTTP/2.
    pub(super) fn http2(&self, scheme: &str) -> (http::Request<()>, Bytes) {
        let url = Url::parse(&self.url).unwrap_or_else(|e| panic!("{e}"));
        let uri = format!("{scheme}://{}{}", url.authority, url.path);
        let mut head = http::Request::builder().method(self.method.as_str()).uri(uri);
        let given = |name: &str| self.headers.iter().any(|(k, _)| k.eq_ignore_ascii_case(name));
        if !self.body.is_empty() && !given("content-type") {
            head = head.header("content-type", "application/json");
        }
        if !self.body.is_empty() && self.chunked.is_none() && !given("content-length") {
            head = head.header("content-length", self.length());
        }
        for (name, value) in &self.headers {
            head = head.header(name.as_str(), value.as_str());
        }
        let head = head.body(()).unwrap_or_else(|e| panic!("{}: {e}", self.url));
        (head, Bytes::copy_from_slice(&self.body))
    }

    pub(super) fn is_whole(&self) -> bool {
        !self.unfinished
    }

    fn length(&self) -> usize {
        self.body.len() + usize::from(self.unfinished)
    }

    /// The bytes of the request.
    fn bytes(&self, url: &Url) -> Vec<u8> {
        let version = if self.http10 { "HTTP/1.0" } else { "HTTP/1.1" };
        let mut head = format!("{} {} {version}\r\n", self.method, url.path);
        let mut add = |name: &str, value: &str| {
            if !self.headers.iter().any(|(k, _)| k.eq_ignore_ascii_case(name)) {
                head += &format!("{name}: {value}\r\n");
            }
        };
        add("host", &url.authority);
        if !self.body.is_empty() {
            add("content-type", "application/json");
        }
        if self.chunked.is_some() {
            add("transfer-encoding", "chunked");
        } else if !self.body.is_empty() || self.method == "POST" {
            add("content-length", &self.length().to_string());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let mut bytes = (head + "\r\n").into_bytes();
        match self.chunked {
            None => bytes.extend_from_slice(&self.body),
            Some(size) => {
                for chunk in self.body.chunks(size) {
                    bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                if self.is_whole() {
                    bytes.extend_from_slice(b"0\r\n\r\n");
                }
            }
        }
        bytes
    }
}

/// A connection, to be used for one request after another.
#[derive(Debug)]
pub struct Connection {
    pub(super) wire: Wire,
    pub(super) inbox: Vec<u8>,
}

impl Connection {
    /// Connects to the host of a URL.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn to(url: &str) -> Result<Connection, Failure> {
        Connection::trusting(url, None)
    }

    /// Connects to the host of a URL, under TLS if it is `https`.
    ///
    /// # Errors
    /// When the connection or its handshake fails.
    ///
    /// # Panics
    /// If the URL is `https` and nobody is trusted.
    pub fn trusting(url: &str, trust: Option<&Trust>) -> Result<Connection, Failure> {
        let url = Url::parse(url).unwrap_or_else(|e| panic!("{e}"));
        let socket = connect(&url)?;
        let wire = if url.tls {
            let trust = trust.unwrap_or_else(|| panic!("https without a trusted authority"));
            Wire::encrypted(socket, &url, trust)?
        } else {
            Wire::plain(socket)
        };
        Ok(Connection {
            wire,
            inbox: Vec::new(),
        })
    }

    /// For the answer to a request that has been sent on it already.
    pub fn awaiting(self) -> Pending {
        Pending {
            way: Way::One(self),
            started: Instant::now(),
            is_head: false,
        }
    }

    /// The certificate that the server has shown.
    pub fn peer_certificate(&self) -> Option<Vec<u8>> {
        self.wire.peer_certificate()
    }

    /// Sends one request and gives the whole answer, and the connection if it can carry another.
    ///
    /// # Errors
    /// When there is no complete head.
    pub fn send(self, request: &Request) -> Result<(Response, Option<Connection>), Failure> {
        let mut stream = request.begin_on(self)?.head(request.patience)?;
        let end = stream.finish(request.patience);
        Ok(stream.into_parts(end))
    }
}

/// A request that has been sent and not been answered yet.
#[derive(Debug)]
pub struct Pending {
    pub(super) way: Way,
    pub(super) started: Instant,
    pub(super) is_head: bool,
}

/// What an answer comes through.
#[derive(Debug)]
pub(super) enum Way {
    One(Connection),
    Two(Answer),
}

impl Pending {
    pub(super) fn over_http2(answer: Answer, started: Instant) -> Pending {
        Pending {
            way: Way::Two(answer),
            started,
            is_head: false,
        }
    }

    /// Waits for the head of the answer.
    ///
    /// # Errors
    /// When no complete head comes.
    pub fn head(self, within: Duration) -> Result<StreamClient, Failure> {
        StreamClient::start(self, within)
    }

    /// Waits for the whole answer.
    ///
    /// # Errors
    /// When no complete head comes.
    pub fn response(self, within: Duration) -> Result<Response, Failure> {
        self.response_and_rest(within).map(|(response, _)| response)
    }

    /// Waits for the whole answer, and gives the connection too if it can carry another.
    ///
    /// # Errors
    /// When no complete head comes.
    pub fn response_and_rest(self, within: Duration) -> Result<(Response, Option<Connection>), Failure> {
        let mut stream = self.head(within)?;
        let end = stream.finish(within);
        Ok(stream.into_parts(end))
    }

    /// Sends another request behind this one, which has no answer yet; see [`Connection::awaiting`].
    ///
    /// # Errors
    /// When the connection fails.
    ///
    /// # Panics
    /// Over HTTP/2.
    pub fn pipelined(mut self, request: &Request) -> Result<Pending, Failure> {
        let Way::One(connection) = &mut self.way else {
            panic!("nothing is pipelined over HTTP/2")
        };
        let url = Url::parse(&request.url).unwrap_or_else(|e| panic!("{e}"));
        connection.wire.write(&request.bytes(&url))?;
        Ok(self)
    }

    /// Closes the connection now; over HTTP/2 resets the stream.
    pub fn abort(self) {
        drop(self);
    }

    /// Says under TLS that nothing more comes, and closes the connection only when this is dropped.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn close_notify(&mut self) -> Result<(), Failure> {
        match &mut self.way {
            Way::One(connection) => connection.wire.close_notify().map_err(Failure::from),
            Way::Two(_) => Ok(()),
        }
    }
}

impl End {
    /// True if the body came to its proper end.
    pub fn is_whole(self) -> bool {
        matches!(self, End::Complete | End::Closed)
    }

    /// True if the server ended it before its proper end.
    pub fn is_cut(self) -> bool {
        matches!(self, End::Premature | End::Reset)
    }
}
