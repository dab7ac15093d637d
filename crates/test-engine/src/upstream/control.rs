//! The control endpoints below `/__`, for tests that are not written in Rust and for hands.

use super::conn::{Conn, Stop, send};
use super::state::{Order, Settings, Shared, all_logs};
use crate::http1::Head;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Reads the body of a control request and answers it. Control requests are not logged.
pub(crate) async fn answer(shared: &Arc<Shared>, conn: &mut Conn, head: &Head) -> Result<(), Stop> {
    let body = conn.body(head).await?;
    let target = head.start.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let (status, reply) = match carry_out(shared, path, query, &body) {
        Ok(reply) => (200, reply),
        Err(why) => (400, json!({ "error": why })),
    };
    let reply = reply.to_string();
    let head = format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        super::reply::reason(status),
        reply.len()
    );
    send(&conn.stream, format!("{head}{reply}").as_bytes()).await
}

fn carry_out(shared: &Arc<Shared>, path: &str, query: &str, body: &[u8]) -> Result<Value, String> {
    let data: Value = match body.trim_ascii() {
        b"" => Value::Null,
        body => serde_json::from_slice(body).map_err(|e| format!("the body is not JSON: {e}"))?,
    };
    let done = json!({ "ok": true });
    match path {
        "/__log" => {
            let log = shared.log();
            if query.split('&').any(|q| q == "clear" || q.starts_with("clear=")) {
                shared.lock().log.clear();
            }
            Ok(json!(log))
        }
        "/__all" => Ok(json!(all_logs())),
        "/__stats" => Ok(json!(shared.stats())),
        "/__reset" => {
            shared.reset();
            Ok(done)
        }
        "/__script" => {
            let script =
                serde_json::from_value(data).map_err(|e| format!("expected a list of modes: {e}"))?;
            shared.lock().script = script;
            Ok(done)
        }
        "/__set" => {
            shared.lock().settings.update(&data)?;
            Ok(done)
        }
        "/__refuse" => {
            let seconds = query.split('&').find_map(|q| q.strip_prefix("s=")).unwrap_or("5");
            let seconds = seconds
                .parse()
                .map_err(|_| format!("s={seconds} is not a number of seconds"))?;
            let time = Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string())?;
            tokio::spawn(refuse(shared.clone(), time));
            Ok(done)
        }
        _ => Err(format!("unknown control path {path}")),
    }
}

/// Stops listening for a while.
pub(crate) async fn refuse(shared: Arc<Shared>, time: Duration) {
    let (done, stopped) = oneshot::channel();
    let _ = shared.orders.send(Order::Stop { kill: false, done });
    let _ = stopped.await;
    tokio::time::sleep(time).await;
    let (done, listening) = oneshot::channel();
    let _ = shared.orders.send(Order::Listen { done });
    let _ = listening.await;
}

impl Settings {
    /// Takes over the keys that are present.
    fn update(&mut self, data: &Value) -> Result<(), String> {
        let Some(data) = data.as_object() else {
            return Err("expected an object".to_owned());
        };
        for (key, value) in data {
            self.update_one(key, value)
                .ok_or_else(|| format!("{key}: {value} is not understood"))?;
        }
        Ok(())
    }

    fn update_one(&mut self, key: &str, value: &Value) -> Option<()> {
        let status = || value.as_u64().and_then(|n| u16::try_from(n).ok());
        match key {
            "mode" => value.as_str()?.clone_into(&mut self.mode),
            "health" => self.health = status()?,
            "metrics" => self.metrics = Some(value.as_str()?.to_owned()),
            "metrics_status" => self.metrics_status = status()?,
            "running" if value.is_null() => self.running = None,
            "running" => self.running = Some(value.as_f64()?),
            "waiting" => self.waiting = value.as_f64()?,
            "kv" => self.kv = value.as_f64()?,
            "http2" => self.http2 = serde_json::from_value(value.clone()).ok()?,
            "models" => {
                let names = value.as_array()?.iter().map(|v| v.as_str().map(str::to_owned));
                self.models = names.collect::<Option<_>>()?;
            }
            _ => return None,
        }
        Some(())
    }
}
