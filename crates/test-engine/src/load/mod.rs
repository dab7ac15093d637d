//! A load generator for loopback: one thread, plain sockets, a few microseconds a request.
//!
//! Closed loop: each connection sends its next request when the last is answered; the rate is what the server
//! can do. Open loop (with a rate): requests are due at fixed times whether or not the server keeps up, and each
//! latency counts from the time the request was due, not from when a connection was free to send it. So a stall
//! is seen in full by every request it delayed. Source: Gil Tene, "How NOT to Measure Latency", 2013
//! (coordinated omission).

mod exchange;
mod hold;
mod pace;
mod report;

pub use hold::hold;
pub use report::{Latency, Report};

use crate::url::Url;
use exchange::Exchange;
use pace::Pace;
use report::Tally;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// After the end of the run, how long answers may still take.
const GRACE: Duration = Duration::from_secs(10);

/// What to send, how much and for how long.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where to; a loopback address.
    pub url: String,
    /// Connections, each with one request at a time.
    pub connections: usize,
    /// How long to begin requests.
    pub duration: Duration,
    /// Requests per second over all connections; absent: closed loop.
    pub rate: Option<f64>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// Body of every request.
    pub body: Vec<u8>,
    /// Answers are streams: their chunks are timed, and one without its end marker is a failure.
    pub stream: bool,
    /// How long one request may take.
    pub timeout: Duration,
    /// In what time the connections begin, one after another; zero: all at once.
    pub ramp: Duration,
}

impl Load {
    /// A closed loop of 8 connections for 5 s, with a small chat request.
    pub fn new(url: &str) -> Load {
        Load {
            url: url.to_owned(),
            connections: 8,
            duration: Duration::from_secs(5),
            rate: None,
            headers: Vec::new(),
            body: chat_body(200, false),
            stream: false,
            timeout: Duration::from_secs(30),
            ramp: Duration::ZERO,
        }
    }

    /// Sets the body to a chat request of about `size` bytes.
    #[must_use]
    pub fn size(mut self, size: usize) -> Load {
        self.body = chat_body(size, self.stream);
        self
    }

    /// Runs and gives the result. Takes at most the duration and 10 s more.
    ///
    /// # Errors
    /// A text that says what is wrong with the parameters: a target that is not loopback, no connections, a rate
    /// that is not above 0.
    pub fn run(&self) -> Result<Report, String> {
        let url = loopback(&self.url)?;
        if self.connections == 0 {
            return Err("connections must be at least 1".to_owned());
        }
        if self.rate.is_some_and(|r| !r.is_finite() || r <= 0.0) {
            return Err("the rate must be above 0".to_owned());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("cannot start the runtime: {e}"))?;
        Ok(runtime.block_on(self.drive(&url)))
    }

    async fn drive(&self, url: &Url) -> Report {
        let tally = Arc::new(Mutex::new(Tally::default()));
        let bytes = Arc::new(self.request_bytes(url));
        let mut exchanges = Vec::new();
        for _ in 0..self.connections {
            let mut exchange = Exchange::new(url.addr, bytes.clone(), self.stream, self.timeout);
            // A failure shows again, and is counted, when the first request is sent.
            let _ = exchange.connect().await;
            exchanges.push(exchange);
        }
        let started = Instant::now();
        let end = started + self.duration;
        let pace = self.rate.map(|rate| Pace::start(rate, started, end));
        let step = self.ramp / u32::try_from(self.connections).unwrap_or(u32::MAX);
        let starts = (0..).map(|index| started + step * index);
        let work = |(exchange, start): (Exchange, Instant)| {
            let (pace, tally) = (pace.clone(), tally.clone());
            tokio::spawn(async move {
                if start > started {
                    tokio::time::sleep_until(start.into()).await;
                }
                work(exchange, pace, end, tally).await;
            })
        };
        let workers: Vec<_> = exchanges.into_iter().zip(starts).map(work).collect();
        let all = async {
            for worker in workers {
                let _ = worker.await;
            }
        };
        let whole = tokio::time::timeout(self.duration + GRACE, all).await.is_ok();
        let unsent = pace.map_or(0, |p| p.unsent());
        let tally = std::mem::take(&mut *tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        tally.report(
            started.elapsed().min(self.duration.max(Duration::from_millis(1))),
            unsent,
            whole,
        )
    }

    pub(super) fn request_bytes(&self, url: &Url) -> Vec<u8> {
        let mut head = format!("POST {} HTTP/1.1\r\nhost: {}\r\n", url.path, url.authority);
        if !self
            .headers
            .iter()
            .any(|(k, _)| k.eq_ignore_ascii_case("content-type"))
        {
            head += "content-type: application/json\r\n";
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n", self.body.len());
        [head.as_bytes(), &self.body].concat()
    }
}

fn loopback(text: &str) -> Result<Url, String> {
    let url = Url::parse(text)?;
    let ip = url.addr.ip();
    if !ip.is_loopback() {
        return Err(format!(
            "{text}: {ip} is not a loopback address; load goes to this machine only"
        ));
    }
    Ok(url)
}

/// A chat request of about `size` bytes.
pub fn chat_body(size: usize, stream: bool) -> Vec<u8> {
    let flag = if stream { r#","stream":true"# } else { "" };
    let frame =
        |text: &str| format!(r#"{{"model":"fast","messages":[{{"role":"user","content":"{text}"}}]{flag}}}"#);
    let text = "words of a prompt ".repeat(size / 18 + 1);
    let room = size.saturating_sub(frame("").len()).min(text.len());
    frame(&text[..room]).into_bytes()
}

async fn work(mut exchange: Exchange, pace: Option<Arc<Pace>>, end: Instant, tally: Arc<Mutex<Tally>>) {
    loop {
        let due = match &pace {
            Some(pace) => match pace.next().await {
                Some(due) => due,
                None => return,
            },
            None if Instant::now() >= end => return,
            None => Instant::now(),
        };
        let outcome = exchange.once().await;
        let failed = outcome.is_err();
        tally
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .add(due, outcome);
        if failed {
            // A server that refuses at once must not turn the closed loop into a flood.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_it_must_not_do() {
        let check = |load: Load, expect: &str| {
            let error = load.run().unwrap_err();
            assert!(error.contains(expect), "{error}");
        };
        check(Load::new("http://192.0.2.1:80/"), "not a loopback address");
        check(
            Load {
                connections: 0,
                ..Load::new("http://127.0.0.1:9/")
            },
            "connections",
        );
        check(
            Load {
                rate: Some(0.0),
                ..Load::new("http://127.0.0.1:9/")
            },
            "rate",
        );
    }

    #[test]
    fn bodies_have_the_size_asked_for() {
        for size in [100, 1000, 100_000] {
            let body = chat_body(size, true);
            assert_eq!(body.len(), size);
            assert!(
                serde_json::from_slice::<serde_json::Value>(&body).unwrap()["stream"]
                    .as_bool()
                    .unwrap()
            );
        }
    }
}
