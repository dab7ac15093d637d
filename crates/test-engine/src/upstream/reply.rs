//! Answers in one piece: response heads, errors, and the ways in which a body can be wrong.

use super::answer::Answer;
use super::conn::{Out, Stop};
use super::encode::Coding;
use crate::clock;
use crate::http1::parse_head;
use crate::json::Obj;

/// Bodies are written in steps of this size unless the mode says otherwise.
const STEP: usize = 256 * 1024;

/// An answer in one piece.
pub(crate) struct Plain {
    status: u16,
    content_type: Option<&'static str>,
    body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Plain {
    pub(crate) fn new(status: u16, content_type: &'static str, body: &str) -> Plain {
        let (content_type, body) = (Some(content_type), body.as_bytes().to_vec());
        Plain {
            status,
            content_type,
            body,
            headers: Vec::new(),
        }
    }

    pub(crate) fn json(body: String) -> Plain {
        Plain {
            status: 200,
            content_type: Some("application/json"),
            body: body.into_bytes(),
            headers: Vec::new(),
        }
    }

    pub(crate) fn bytes(content_type: &'static str, body: Vec<u8>) -> Plain {
        Plain {
            status: 200,
            content_type: Some(content_type),
            body,
            headers: Vec::new(),
        }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Plain {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// What a response head says besides what the mode adds.
pub(crate) struct HeadFacts<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) headers: &'a [(String, String)],
    pub(crate) length: Option<usize>,
    pub(crate) chunked: bool,
}

/// The reason phrase of a status.
pub(crate) fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        307 => "Temporary Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        529 => "Overloaded",
        _ => "Other",
    }
}

impl Answer<'_> {
    /// True if only the end of the connection ends the body.
    pub(crate) fn ends_with_connection(&self) -> bool {
        self.mode.has("close_delimited") || self.mode.has("proto10")
    }

    pub(crate) fn head(&self, facts: &HeadFacts<'_>) -> Vec<u8> {
        let m = &self.mode;
        let version = if m.has("proto10") { "HTTP/1.0" } else { "HTTP/1.1" };
        let id = self.record.lock().map_or(0, |r| r.id);
        let name = &self.shared.name;
        let mut lines = vec![
            format!("{version} {} {}", facts.status, reason(facts.status)),
            format!("x-mock-name: {name}"),
            format!("x-request-id: up-{name}-{id}"),
        ];
        if let Some(content_type) = facts.content_type {
            lines.push(format!(
                "content-type: {}",
                m.get("ctype").unwrap_or(content_type)
            ));
        }
        if let Some(length) = facts.length {
            let claimed = i64::try_from(length)
                .unwrap_or(i64::MAX)
                .saturating_add(m.int("short", 0));
            lines.push(format!("content-length: {claimed}"));
        }
        if facts.chunked {
            lines.push("transfer-encoding: chunked".to_owned());
        }
        if m.has("conn_close") || m.has("close_delimited") {
            lines.push("connection: close".to_owned());
        }
        for (name, value) in facts.headers.iter().chain(m.headers()) {
            lines.push(format!("{name}: {value}"));
        }
        (lines.join("\r\n") + "\r\n\r\n").into_bytes()
    }

    pub(crate) async fn send_head(&self, out: &Out<'_>, facts: &HeadFacts<'_>) -> Result<(), Stop> {
        let bytes = self.head(facts);
        let Out::Http2(reply) = out else {
            return out.send(&bytes).await;
        };
        let mut head = http::Response::new(());
        *head.status_mut() = http::StatusCode::from_u16(facts.status).unwrap_or_default();
        for (name, value) in parse_head(&bytes).headers {
            let of_http1 = ["connection", "transfer-encoding", "keep-alive"];
            let (Ok(name), Ok(value)) = (
                http::HeaderName::try_from(name.to_ascii_lowercase()),
                http::HeaderValue::try_from(value),
            ) else {
                continue;
            };
            if !of_http1.contains(&name.as_str()) {
                head.headers_mut().append(name, value);
            }
        }
        reply.head(head)
    }

    /// Writes an answer in one piece; says whether the connection may be kept.
    pub(crate) async fn send_plain(&self, out: &Out<'_>, mut plain: Plain) -> Result<bool, Stop> {
        let m = &self.mode;
        if let Some(coding) = Coding::choose(m, &self.request.head).filter(|_| !plain.body.is_empty()) {
            plain.body = coding.all(&plain.body);
            plain = plain.header("content-encoding", coding.name());
        }
        let both = m.has("both") && !out.is_http2();
        let facts = HeadFacts {
            status: plain.status,
            content_type: plain.content_type,
            headers: &plain.headers,
            length: (!self.ends_with_connection() || out.is_http2()).then_some(plain.body.len()),
            chunked: both,
        };
        self.note(|r| r.status = Some(plain.status));
        self.send_head(out, &facts).await?;
        self.note(|r| r.t_headers = Some(clock::now()));
        self.before_body().await;
        if both {
            plain.body = [
                format!("{:x}\r\n", plain.body.len()).as_bytes(),
                &plain.body,
                b"\r\n0\r\n\r\n",
            ]
            .concat();
        }
        if self.request.method != "HEAD" {
            self.send_body(out, &plain.body).await?;
        }
        if m.has("short") {
            return Err(Stop::Cut { rst: false });
        }
        out.end()?;
        Ok(!(self.ends_with_connection() || m.has("conn_close") || m.has("early")))
    }

    async fn send_body(&self, out: &Out<'_>, body: &[u8]) -> Result<(), Stop> {
        let m = &self.mode;
        let step = m.count("split").filter(|n| *n > 0).unwrap_or(STEP);
        let cut = m.count("cut");
        let mut sent = 0;
        for piece in body.chunks(step) {
            if sent > 0 && cut.is_some_and(|at| sent >= at) {
                return Err(self.cut(sent));
            }
            out.send(piece).await?;
            sent += piece.len();
            self.note(|r| r.bytes_sent = sent as u64);
            if m.has("split_delay") {
                self.nap("split_delay", 0.0).await;
            }
        }
        Ok(())
    }

    /// Notes a cut after `n` events or bytes.
    pub(crate) fn cut(&self, n: usize) -> Stop {
        self.note(|r| r.cut_after = Some(n as u64));
        Stop::Cut {
            rst: self.mode.is("cut_kind", "rst"),
        }
    }

    /// An error answer in the shape the mode or the path asks for.
    pub(crate) fn error(&self, status: u16, message: Option<&str>) -> Plain {
        let m = &self.mode;
        let message = message.map_or_else(
            || format!("scripted {status} of {}", self.shared.name),
            str::to_owned,
        );
        let kind = m.get("err_type").unwrap_or(match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        });
        let shape = m.get("body").unwrap_or(if self.is_anthropic() {
            "anthropic"
        } else {
            "openai"
        });
        let mut plain = match shape {
            "openai" => {
                let error = Obj::new()
                    .str("message", &message)
                    .str("type", kind)
                    .null("param");
                Plain::json(
                    Obj::new()
                        .obj("error", error.str("code", &status.to_string()))
                        .end(),
                )
            }
            "anthropic" => {
                let error = Obj::new().str("type", kind).str("message", &message);
                Plain::json(Obj::new().str("type", "error").obj("error", error).end())
            }
            "detail" => Plain::json(Obj::new().str("detail", &message).end()),
            "html" => {
                let page = format!(
                    "<html><head><title>{status}</title></head><body><h1>{message}</h1></body></html>"
                );
                Plain::new(status, "text/html", &page)
            }
            "empty" => Plain {
                status,
                content_type: None,
                body: Vec::new(),
                headers: Vec::new(),
            },
            "badjson" => Plain::new(status, "application/json", "{\"error\": {\"message\": \"cut sho"),
            _ => Plain::new(status, "text/plain", &message),
        };
        plain.status = status;
        match m.get("retry_after") {
            Some(value) => plain.header("retry-after", value),
            None => plain,
        }
    }
}
