//! One request at a time over HTTP/1.1, each on a connection of its own.

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

/// Longest wait for a whole answer.
const WAIT: Duration = Duration::from_secs(10);
/// Largest answer, bytes.
const ANSWER_MAX: usize = 64 << 20;

/// Talks to one gateway.
pub(crate) struct Client {
    host: String,
    port: u16,
    authorization: Option<HeaderValue>,
    runtime: Runtime,
}

/// An answer, whatever its status.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// Why there is no answer.
pub(crate) enum Unreached {
    /// Nobody listens.
    Refused,
    /// For a person.
    Other(String),
}

impl Client {
    /// For the gateway at this host and port.
    pub(crate) fn new((host, port): (String, u16), token: Option<String>) -> Result<Self, String> {
        let authorization = token.map(|token| {
            let mut value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| "the admin token holds characters that no header can carry".to_owned())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("cannot start: {error}"))?;
        Ok(Self {
            host,
            port,
            authorization: authorization.transpose()?,
            runtime,
        })
    }

    /// For messages.
    pub(crate) fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Sends a request and waits for the whole answer.
    pub(crate) fn ask(&self, method: Method, path: &str, body: String) -> Result<Answer, Unreached> {
        let late = |_| Unreached::Other(format!("nothing within {} s", WAIT.as_secs()));
        self.runtime.block_on(async {
            tokio::time::timeout(WAIT, self.exchange(method, path, body))
                .await
                .map_err(late)?
        })
    }

    async fn exchange(&self, method: Method, path: &str, body: String) -> Result<Answer, Unreached> {
        let other = |error: hyper::Error| Unreached::Other(error.to_string());
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::ConnectionRefused => Unreached::Refused,
                _ => Unreached::Other(error.to_string()),
            })?;
        // The address rather than the name: a listener off loopback answers to no names but its own addresses.
        let peer = stream
            .peer_addr()
            .map_err(|error| Unreached::Other(error.to_string()))?;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = path
            .parse()
            .map_err(|_| Unreached::Other(format!("{path} is no path")))?;
        let host = HeaderValue::try_from(peer.to_string());
        request.headers_mut().insert(
            HOST,
            host.map_err(|_| Unreached::Other("its address makes no header".to_owned()))?,
        );
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(other)?;
        let driven = tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(other)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_MAX)
            .collect()
            .await
            .map_err(|error| Unreached::Other(error.to_string()))?;
        driven.abort();
        Ok(Answer {
            status,
            body: body.to_bytes(),
        })
    }
}
