//! One page of metrics: where it is, and getting it.

use super::board::Source;
use crate::snapshot::Upstream;
use crate::upstream::alert;
use crate::upstream::connect::{ConnectError, connect_once};
use crate::upstream::link::{Incoming, Link, RequestBody};
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use secrecy::ExposeSecret;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Largest page that is read.
const PAGE_MAX: usize = 4 * 1024 * 1024;
/// Least time that a page is waited for.
const TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// A page.
#[derive(Clone)]
pub(super) struct Page {
    /// Whom to ask: the endpoint itself, or what stands at another port or host in its place.
    at: Arc<Upstream>,
    path: String,
    pub(super) source: Source,
    pub(super) interval: Duration,
}

/// What tells pages apart. What stands in it for a URL holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageKey {
    pool: Arc<str>,
    address: String,
    source: Source,
}

/// Why a page could not be read.
#[derive(Debug)]
pub(super) enum Fault {
    /// It is not there, or is none of an engine that is known; that it will be is not to be expected soon.
    Absent(String),
    /// It is there, but is more than is read; that it shrinks is not to be expected soon.
    TooLarge(String),
    /// It may be there in a moment.
    Failing(String),
}

impl Fault {
    /// Whether there is little hope that the next attempt goes better.
    pub(super) fn is_lasting(&self) -> bool {
        matches!(self, Self::Absent(_) | Self::TooLarge(_))
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Absent(text) | Self::TooLarge(text) | Self::Failing(text) => text,
        }
    }
}

impl PageKey {
    #[cfg(test)]
    pub(super) fn of_test(address: &str) -> Self {
        Self {
            pool: "pool".into(),
            address: address.into(),
            source: Source::Engine,
        }
    }
}

impl Page {
    /// The pages that speak of an endpoint.
    pub(super) fn of(upstream: &Arc<Upstream>) -> Vec<Self> {
        let scrape = upstream.pool.config.scrape.as_ref();
        let interval = scrape.map_or(Duration::from_secs(1), |scrape| scrape.interval);
        let engine = scrape.map(|scrape| Self {
            at: upstream.metrics_at.clone().unwrap_or_else(|| upstream.clone()),
            path: scrape.path.clone(),
            source: Source::Engine,
            interval,
        });
        let gpus = upstream.gpus_at.clone().map(|at| Self {
            at,
            path: String::new(),
            source: Source::Gpu,
            interval,
        });
        engine.into_iter().chain(gpus).collect()
    }

    pub(super) fn key(&self) -> PageKey {
        let addresses = self.at.addresses.shown();
        PageKey {
            pool: self.at.pool_name().clone(),
            address: format!("{}{} {addresses}", self.at.url.digest(), self.path),
            source: self.source,
        }
    }

    /// Gets the page on `link`, or on a new connection, which is kept there.
    pub(super) async fn fetch(&self, link: &mut Option<Link>) -> Result<Bytes, Fault> {
        let deadline = Instant::now() + self.interval.max(TIMEOUT_MIN);
        let fetched = timeout_at(deadline, self.ask(link, deadline)).await;
        fetched.unwrap_or_else(|_| Err(Fault::Failing("it did not come in time".to_owned())))
    }

    async fn ask(&self, kept: &mut Option<Link>, deadline: Instant) -> Result<Bytes, Fault> {
        if let Some(mut link) = kept.take()
            && link.suits(&self.at)
            && link.is_open().await
        {
            // What was kept may have been closed a moment ago: then a new one is asked.
            if let Ok(response) = link.send(self.request()?).await {
                let page = body(&mut link, response).await;
                *kept = Some(link).filter(|_| page.is_ok());
                return page;
            }
        }
        let mut link = connect_once(&self.at, deadline).await.map_err(unreachable)?;
        let sent = link.send(self.request()?).await;
        let response = sent.map_err(|failure| {
            Fault::Failing(match failure.alert {
                Some(alert) => alert::text(alert, self.at.shows_certificate()),
                None => failure.error.to_string(),
            })
        })?;
        let page = body(&mut link, response).await;
        *kept = Some(link).filter(|_| page.is_ok());
        page
    }

    fn request(&self) -> Result<Request<RequestBody>, Fault> {
        let url = &self.at.url;
        let uri = match &url.query {
            Some(query) => format!("{}{}?{}", url.prefix, self.path, query.expose_secret()),
            None => format!("{}{}", url.prefix, self.path),
        };
        let mut request = Request::new(RequestBody::Whole(Bytes::new()));
        *request.method_mut() = Method::GET;
        *request.uri_mut() = uri
            .try_into()
            .map_err(|_| Fault::Absent("its path makes no valid URI".to_owned()))?;
        let headers = request.headers_mut();
        headers.insert(HOST, self.at.host.clone());
        headers.insert(USER_AGENT, HeaderValue::from_static("weighbridge-scrape"));
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("text/plain;version=0.0.4, */*;q=0.1"),
        );
        if let Some((name, value)) = self.at.pool.credentials.first() {
            headers.insert(name, value.clone());
        }
        Ok(request)
    }
}

fn unreachable(error: ConnectError) -> Fault {
    Fault::Failing(match error {
        ConnectError::Refused => "the connection was refused".to_owned(),
        ConnectError::Timeout => "no connection in time".to_owned(),
        ConnectError::Other(text) => text,
    })
}

/// The page, if it is one.
async fn body(link: &mut Link, response: Response<Incoming>) -> Result<Bytes, Fault> {
    let status = response.status();
    if !status.is_success() {
        let text = format!("status {}", status.as_u16());
        let none = [
            StatusCode::NOT_FOUND,
            StatusCode::METHOD_NOT_ALLOWED,
            StatusCode::NOT_IMPLEMENTED,
        ];
        return Err(if none.contains(&status) {
            Fault::Absent(text)
        } else {
            Fault::Failing(text)
        });
    }
    let framed = [CONTENT_LENGTH, TRANSFER_ENCODING];
    let framed = framed.iter().any(|name| response.headers().contains_key(name));
    let mut body = response.into_body();
    let mut page = BytesMut::new();
    link.drive(async move {
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.map_err(|error| Fault::Failing(error.to_string()))?;
            if let Some(data) = frame.data_ref() {
                page.extend_from_slice(data);
            }
            if page.len() > PAGE_MAX {
                return Err(Fault::TooLarge(format!(
                    "it is larger than {} MiB",
                    PAGE_MAX >> 20
                )));
            }
        }
        // A last line without its end is cut off, unless the answer says where it ends and came that far.
        if framed && page.last() != Some(&b'\n') {
            page.extend_from_slice(b"\n");
        }
        Ok(page.freeze())
    })
    .await
}
