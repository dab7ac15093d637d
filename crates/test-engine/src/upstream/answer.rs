//! Which answer a request gets.

use super::conn::{Out, Stop};
use super::events::Dialect;
use super::mode::Mode;
use super::record::Record;
use super::reply::Plain;
use super::shapes::Shapes;
use super::state::{Shared, lock};
use crate::http1::Head;
use crate::json::{Obj, array, quote};
use memchr::memmem;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Markers are looked for in bodies up to this size only.
const MARKER_MAX: usize = 4 << 20;
/// How long `hang` hangs: longer than any test.
const HANG: Duration = Duration::from_secs(3600);

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    /// It may carry another request.
    pub(crate) alive: bool,
    /// It is closed when it has been idle for this long.
    pub(crate) idle: Option<Duration>,
}

/// A request that has been read.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) path: String,
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    /// The body, if it is a JSON object; else null.
    pub(crate) json: Value,
}

impl Request {
    pub(crate) fn new(head: Head, body: Vec<u8>) -> Request {
        let mut words = head.start.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split(['?', '#']).next().unwrap_or_default().to_owned();
        let json: Value = serde_json::from_slice(&body).unwrap_or_default();
        let json = if json.is_object() { json } else { Value::Null };
        Request {
            method,
            target,
            path,
            head,
            body,
            json,
        }
    }

    /// The model asked for; empty if there is none.
    pub(crate) fn model(&self) -> &str {
        self.json["model"].as_str().unwrap_or_default()
    }

    /// The mode in the last `[[mock:…]]` of the body.
    pub(crate) fn marker(&self) -> Option<String> {
        let body = self
            .body
            .get(..self.body.len().min(MARKER_MAX + 1))
            .filter(|b| b.len() <= MARKER_MAX)?;
        let marked = memmem::rfind_iter(body, b"[[mock:").find_map(|at| {
            let rest = &body[at + 7..];
            let end = memchr::memchr(b']', rest)?;
            (rest.get(end + 1) == Some(&b']')).then(|| &rest[..end])
        })?;
        Some(String::from_utf8_lossy(marked).into_owned())
    }
}

/// An answer in the making.
pub(crate) struct Answer<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) mode: Mode,
    pub(crate) request: Request,
    pub(crate) record: Arc<Mutex<Record>>,
}

impl Answer<'_> {
    /// Answers on `out`; says whether the connection may be kept.
    pub(crate) async fn run(&self, out: &Out<'_>) -> Result<bool, Stop> {
        let (m, path) = (&self.mode, self.request.path.as_str());
        self.before_headers().await?;
        if let Some(plain) = self.overridden() {
            return self.send_plain(out, plain).await;
        }
        if let Some(plain) = self.media() {
            return self.send_plain(out, plain).await;
        }
        if matches!(self.request.method.as_str(), "GET" | "HEAD") {
            return self.send_plain(out, self.get()).await;
        }
        if path.ends_with("/messages/count_tokens") {
            return self
                .send_plain(out, Plain::json(Obj::new().int("input_tokens", 42).end()))
                .await;
        }
        if path.ends_with("/embeddings") {
            return self.send_plain(out, Plain::json(self.embeddings())).await;
        }
        let Some(dialect) = Dialect::of_path(path) else {
            return self.send_plain(out, self.no_such_path()).await;
        };
        let text = self.text();
        let shapes = Shapes {
            name: &self.shared.name,
            mode: m,
            request: &self.request,
            text: &text,
            dialect,
        };
        if self.wants_stream() && !m.has("notjson_stream") {
            return self.send_stream(out, &shapes).await;
        }
        let mut body = shapes.whole();
        if m.is("body", "badjson") {
            let keep = body.char_indices().rev().nth(19).map_or(0, |(i, _)| i);
            body.truncate(keep);
        }
        self.send_plain(out, Plain::json(body)).await
    }

    async fn before_headers(&self) -> Result<(), Stop> {
        if self.mode.has("delay") {
            self.nap("delay", 0.0).await;
        }
        if self.mode.is("hang", "headers") {
            tokio::time::sleep(HANG).await;
        }
        if self.mode.has("goaway") || self.mode.has("silent") || self.mode.has("garbage") {
            self.hang().await;
        }
        if self.mode.has("rst") && !self.mode.has("cut") {
            return Err(Stop::Cut { rst: false });
        }
        match self.mode.get("drop") {
            Some(kind) => Err(Stop::Cut { rst: kind == "rst" }),
            None => Ok(()),
        }
    }

    /// Sleeps for the seconds of `key`, with some jitter if the mode asks for it.
    pub(crate) async fn nap(&self, key: &str, default: f64) {
        let jitter = self.mode.num("jitter", 0.0);
        let jitter = if jitter > 0.0 {
            jitter * super::jitter::share()
        } else {
            0.0
        };
        let time = self.mode.num(key, default) + jitter;
        tokio::time::sleep(Duration::from_secs_f64(time.clamp(0.0, HANG.as_secs_f64()))).await;
    }

    /// Sleeps where `hang=body` and `delay_body` ask for it.
    pub(crate) async fn before_body(&self) {
        if self.mode.is("hang", "body") {
            tokio::time::sleep(HANG).await;
        }
        if self.mode.has("delay_body") {
            let time = self.mode.num("delay_body", 0.0).clamp(0.0, HANG.as_secs_f64());
            tokio::time::sleep(Duration::from_secs_f64(time)).await;
        }
    }

    pub(crate) async fn hang(&self) {
        tokio::time::sleep(HANG).await;
    }

    /// The answer of modes that hold whatever the path is.
    fn overridden(&self) -> Option<Plain> {
        let m = &self.mode;
        if m.has("ok_error") {
            let message = m
                .get("err_msg")
                .unwrap_or("a scripted error in an answer with status 200");
            let error = Obj::new()
                .str("message", message)
                .str("type", "server_error")
                .int("code", 500);
            return Some(Plain::json(Obj::new().obj("error", error).end()));
        }
        if let Some(url) = m.get("redirect") {
            let status = u16::try_from(m.int("status", 307)).unwrap_or(307);
            return Some(Plain::new(status, "text/plain", "").header("location", url));
        }
        let status = u16::try_from(m.int("status", 200)).unwrap_or(200);
        (status >= 300).then(|| self.error(status, m.get("err_msg")))
    }

    pub(crate) fn is_anthropic(&self) -> bool {
        let path = &self.request.path;
        path.ends_with("/messages") || path.contains("/messages/")
    }

    fn no_such_path(&self) -> Plain {
        self.error(404, Some(&format!("no such path {}", self.request.path)))
    }

    fn embeddings(&self) -> String {
        let count = self.request.json["input"].as_array().map_or(1, Vec::len);
        let one = |i| {
            let i = i64::try_from(i).unwrap_or(i64::MAX);
            Obj::new()
                .str("object", "embedding")
                .int("index", i)
                .raw("embedding", "[0.1,0.2,0.3]")
                .end()
        };
        Obj::new()
            .str("object", "list")
            .raw("model", self.request.json["model"].to_string())
            .arr("data", (0..count).map(one))
            .obj("usage", Obj::new().int("prompt_tokens", 5).int("total_tokens", 5))
            .end()
    }

    fn get(&self) -> Plain {
        let settings = self.shared.lock().settings.clone();
        // The request that asks is not part of what it asks for.
        let in_flight = self.shared.stats().in_flight.saturating_sub(1);
        let running = settings
            .running
            .map_or_else(|| in_flight.to_string(), |n| n.to_string());
        match self.request.path.as_str() {
            "/health" | "/healthz" | "/ping" | "/live" | "/ready" => {
                Plain::new(settings.health, "application/json", "{}")
            }
            "/metrics" if settings.metrics.is_some() => {
                let stats = self.shared.stats();
                let page = settings.metrics.unwrap_or_default();
                let page = page
                    .replace("$in_flight", &running)
                    .replace("$total", &stats.total.to_string());
                Plain::new(settings.metrics_status, "text/plain; version=0.0.4", &page)
            }
            "/metrics" => {
                let gauge = |name: &str, value: &str| {
                    format!("# TYPE vllm:{name} gauge\nvllm:{name}{{model_name=\"mock-model\"}} {value}\n")
                };
                let text = gauge("num_requests_running", &running)
                    + &gauge("num_requests_waiting", &settings.waiting.to_string())
                    + &gauge("gpu_cache_usage_perc", &settings.kv.to_string());
                Plain::new(settings.metrics_status, "text/plain; version=0.0.4", &text)
            }
            "/load" => Plain::json(Obj::new().raw("server_load", running).end()),
            path if path.trim_end_matches('/').ends_with("/models") => {
                Plain::json(self.models(&settings.models))
            }
            _ => self.no_such_path(),
        }
    }

    fn models(&self, models: &[String]) -> String {
        let one = |id: &String| {
            let model = Obj::new()
                .str("id", id)
                .str("object", "model")
                .int("created", 1_700_000_000);
            model.str("owned_by", &self.shared.name).end()
        };
        Obj::new()
            .str("object", "list")
            .raw("data", array(models.iter().map(one)))
            .end()
    }

    /// The text of the completion.
    fn text(&self) -> String {
        let m = &self.mode;
        if m.has("echo") {
            return self.echo();
        }
        if m.has("empty_content") {
            return String::new();
        }
        let text = m.get("text").map_or_else(|| self.default_text(), str::to_owned);
        match m.count("big") {
            Some(bytes) => text
                .chars()
                .cycle()
                .take(if text.is_empty() { 0 } else { bytes })
                .collect(),
            None => text,
        }
    }

    fn default_text(&self) -> String {
        let words = if self.mode.has("unicode") {
            "Grüße an alle, 你好世界 🙂 👩\u{200d}👩\u{200d}👧 zażółć “so” \u{2028} und weiter. ".repeat(2)
        } else {
            "these are a few plain words that make up an answer ".to_owned()
        };
        format!("{}: {words}", self.shared.name)
    }

    fn echo(&self) -> String {
        let mut headers = Obj::new();
        let mut seen = Vec::new();
        for (name, value) in &self.request.head.headers {
            let name = name.to_ascii_lowercase();
            if !seen.contains(&name) {
                headers = headers.str(&name, value);
                seen.push(name);
            }
        }
        let body = if self.request.json.is_null() {
            "{}".into()
        } else {
            String::from_utf8_lossy(&self.request.body)
        };
        Obj::new()
            .str("replica", &self.shared.name)
            .raw("target", quote(&self.request.target))
            .obj("headers", headers)
            .raw("request", body)
            .end()
    }

    /// Changes the record.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Record)) {
        change(&mut lock(&self.record));
    }
}
