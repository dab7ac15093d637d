//! One streamed chat through the gateway, as any client would ask it.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use weighbridge_wire::sse::Scanner;

/// Longest that a chat may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is asked.
pub(super) struct Question {
    pub(super) request_id: String,
    pub(super) session: String,
    pub(super) model: String,
    /// The conversation so far, the new question last.
    pub(super) messages: Vec<Value>,
    pub(super) max_tokens: u32,
}

/// What came back.
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) first_token: Duration,
    pub(super) total: Duration,
}

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Asks and reads the answer to its end. The error is a sentence for a person.
pub(super) async fn ask(gateway: SocketAddr, question: &Question) -> Result<Answer, String> {
    match tokio::time::timeout(PATIENCE, exchange(gateway, question)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

async fn exchange(gateway: SocketAddr, question: &Question) -> Result<Answer, Error> {
    let began = Instant::now();
    let stream = TcpStream::connect(gateway).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let talk = async {
        let response = sender.send_request(request(gateway, question)?).await?;
        read(response, began).await
    };
    let mut connection = std::pin::pin!(connection);
    let mut talk = std::pin::pin!(talk);
    tokio::select! {
        answer = &mut talk => answer,
        // The connection's end can come before the reader has taken the last piece.
        _ = &mut connection => talk.await,
    }
}

fn request(gateway: SocketAddr, question: &Question) -> Result<Request<Full<Bytes>>, Error> {
    let body = json!({
        "model": question.model,
        "messages": question.messages,
        "max_tokens": question.max_tokens,
        "stream": true,
    });
    Ok(Request::post("/v1/chat/completions")
        .header("host", gateway.to_string())
        .header("content-type", "application/json")
        .header("x-session-id", &question.session)
        .header("x-request-id", &question.request_id)
        .body(Full::new(Bytes::from(body.to_string())))?)
}

async fn read(response: Response<Incoming>, began: Instant) -> Result<Answer, Error> {
    let status = response.status();
    let mut body = response.into_body();
    if !status.is_success() {
        let said = body.collect().await?.to_bytes();
        return Err(format!("{status}: {}", message(&said).unwrap_or_default()).into());
    }
    let mut reading = Reading::default();
    let mut scanner = Scanner::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| "the stream was cut")?;
        if let Ok(data) = frame.into_data() {
            scanner.feed(&data, |event| reading.event(event.data, began));
        }
    }
    match (reading.error, reading.done) {
        (Some(error), _) => Err(error.into()),
        (None, false) => Err("the stream ended before its end mark".into()),
        (None, true) => Ok(Answer {
            text: reading.text,
            first_token: reading.first_token.unwrap_or_else(|| began.elapsed()),
            total: began.elapsed(),
        }),
    }
}

/// The message of an error.
fn message(json: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(json).ok()?;
    Some(value.get("error")?.get("message")?.as_str()?.to_owned())
}

#[derive(Default)]
struct Reading {
    text: String,
    first_token: Option<Duration>,
    done: bool,
    error: Option<String>,
}

impl Reading {
    fn event(&mut self, data: &[u8], began: Instant) {
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        let Ok(value) = serde_json::from_slice::<Value>(data) else {
            return;
        };
        if let Some(text) = value.pointer("/choices/0/delta/content").and_then(Value::as_str)
            && !text.is_empty()
        {
            self.first_token.get_or_insert_with(|| began.elapsed());
            self.text.push_str(text);
        } else if value.get("error").is_some() {
            self.error = Some(message(data).unwrap_or_else(|| "the stream broke".into()));
        }
    }
}
