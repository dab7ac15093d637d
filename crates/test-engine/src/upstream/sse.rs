//! Streamed answers: server-sent events in every legal and some illegal forms.

use super::answer::Answer;
use super::conn::{Out, Stop};
use super::encode::{Coding, Encoder};
use super::events::{Dialect, Event};
use super::mode::Mode;
use super::reply::HeadFacts;
use super::shapes::Shapes;
use crate::clock;
use crate::json::Obj;
use std::time::Duration;

/// The length that `both` claims for a stream.
const FALSE_LENGTH: usize = 99_999;
/// Pause between the pieces of `split`: long enough for the reader to see them one by one.
const SPLIT_DELAY: Duration = Duration::from_micros(100);

/// How events are written.
struct Form<'a> {
    mode: &'a Mode,
    newline: &'static str,
    space: &'static str,
}

impl Form<'_> {
    fn of(mode: &Mode) -> Form<'_> {
        let newline = match () {
            () if mode.has("crlf") => "\r\n",
            () if mode.has("cr") => "\r",
            () => "\n",
        };
        Form {
            mode,
            newline,
            space: if mode.has("nospace") { "" } else { " " },
        }
    }

    fn event(&self, event: &Event, index: usize) -> Vec<u8> {
        let (nl, sp) = (self.newline, self.space);
        let mut out = String::new();
        if self.mode.has("sse_id") {
            out += &format!("id:{sp}{index}{nl}");
        }
        if let Some(name) = event.name {
            out += &format!("event:{sp}{name}{nl}");
        }
        match event.data.split_once(',') {
            Some((a, b)) if self.mode.has("multiline") && event.data.starts_with('{') => {
                out += &format!("data:{sp}{a},{nl}data:{sp}{b}{nl}");
            }
            _ => out += &format!("data:{sp}{}{nl}", event.data),
        }
        (out + nl).into_bytes()
    }

    fn comment(&self) -> Vec<u8> {
        format!(": ping{0}{0}", self.newline).into_bytes()
    }
}

/// Writes the bytes of a stream's body.
struct Writer<'a> {
    answer: &'a Answer<'a>,
    out: &'a Out<'a>,
    encoder: Option<Encoder>,
    chunked: bool,
}

impl Writer<'_> {
    async fn put(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let coded = self.encoder.as_mut().map(|e| e.push(bytes));
        let bytes = coded.as_deref().unwrap_or(bytes);
        let split = self.answer.mode.count("split").filter(|n| *n > 0);
        let step = split.unwrap_or(bytes.len()).max(1);
        for piece in bytes.chunks(step) {
            self.framed(piece).await?;
            if step < bytes.len() {
                self.pause().await;
            }
        }
        Ok(())
    }

    async fn pause(&self) {
        if self.answer.mode.has("split_delay") {
            self.answer.nap("split_delay", 0.0).await;
        } else {
            // The runtime's timer has a resolution of a millisecond, which makes thousands of pieces last for
            // seconds. The thread belongs to this upstream alone, so it may sleep.
            std::thread::sleep(SPLIT_DELAY);
            tokio::task::yield_now().await;
        }
    }

    async fn framed(&self, piece: &[u8]) -> Result<(), Stop> {
        if self.chunked {
            let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            self.out.send(&chunk).await?;
        } else {
            self.out.send(piece).await?;
        }
        self.answer.note(|r| r.bytes_sent += piece.len() as u64);
        Ok(())
    }

    async fn end(&mut self) -> Result<(), Stop> {
        if let Some(encoder) = self.encoder.take() {
            self.framed(&encoder.finish()).await?;
        }
        if self.chunked {
            self.out.send(b"0\r\n\r\n").await
        } else {
            self.out.end()
        }
    }
}

impl Answer<'_> {
    /// Writes a streamed answer; says whether the connection may be kept.
    pub(crate) async fn send_stream(&self, out: &Out<'_>, shapes: &Shapes<'_>) -> Result<bool, Stop> {
        let m = &self.mode;
        let coding = Coding::choose(m, &self.request.head);
        let chunked = !self.ends_with_connection() && !out.is_http2();
        let mut headers = vec![("cache-control".to_owned(), "no-cache".to_owned())];
        headers.extend(coding.map(|c| ("content-encoding".to_owned(), c.name().to_owned())));
        let facts = HeadFacts {
            status: 200,
            content_type: Some("text/event-stream"),
            headers: &headers,
            length: (m.has("both") && !out.is_http2()).then_some(FALSE_LENGTH),
            chunked,
        };
        self.note(|r| r.status = Some(200));
        self.send_head(out, &facts).await?;
        self.note(|r| r.t_headers = Some(clock::now()));
        self.before_body().await;
        let mut writer = Writer {
            answer: self,
            out,
            encoder: coding.map(Coding::encoder),
            chunked,
        };
        self.send_events(&mut writer, shapes).await?;
        writer.end().await?;
        Ok(!(self.ends_with_connection() || m.has("conn_close")))
    }

    async fn send_events(&self, writer: &mut Writer<'_>, shapes: &Shapes<'_>) -> Result<(), Stop> {
        let (m, form) = (&self.mode, Form::of(&self.mode));
        for _ in 0..m.count("comments").unwrap_or(0) {
            writer.put(&form.comment()).await?;
            self.nap("comment_gap", 0.1).await;
        }
        let mut events: Vec<Vec<u8>> = shapes
            .events()
            .iter()
            .enumerate()
            .map(|(i, event)| form.event(event, i))
            .collect();
        if m.has("coalesce") {
            events = vec![events.concat()];
        }
        let (fails, cut) = (m.count("error_event"), m.count("cut"));
        let hangs = m.get("hang").and_then(|v| v.parse().ok());
        let comment_every = m.count("comment_every").filter(|n| *n > 0);
        for (i, event) in events.iter().enumerate() {
            if fails == Some(i) {
                return self.fail_in_band(writer, shapes.dialect, i).await;
            }
            if cut == Some(i) {
                if m.is("cut_kind", "clean") {
                    self.note(|r| (r.outcome, r.cut_after) = (Some("cut_clean"), Some(i as u64)));
                    return Ok(());
                }
                return Err(self.cut(i));
            }
            if hangs == Some(i) {
                self.hang().await;
            }
            if i > 0 && comment_every.is_some_and(|n| i % n == 0) {
                writer.put(&form.comment()).await?;
            }
            writer.put(event).await?;
            self.note(|r| {
                r.events_sent = i as u64 + 1;
                r.t_first_event.get_or_insert_with(clock::now);
            });
            if m.has("gap") {
                self.nap("gap", 0.0).await;
            }
        }
        Ok(())
    }

    /// Ends the stream with an error event, as an engine that fails after it has sent its status does.
    async fn fail_in_band(
        &self,
        writer: &mut Writer<'_>,
        dialect: Dialect,
        index: usize,
    ) -> Result<(), Stop> {
        let (m, form) = (&self.mode, Form::of(&self.mode));
        let message = m.get("err_msg").unwrap_or("a scripted failure within the stream");
        if dialect == Dialect::Anthropic {
            let kind = m.get("err_type").unwrap_or("overloaded_error");
            let error = Obj::new().str("type", kind).str("message", message);
            writer
                .put(&form.event(&Event::typed("error", |o| o.obj("error", error)), index))
                .await?;
        } else {
            let error = Obj::new()
                .str("message", message)
                .str("type", m.get("err_type").unwrap_or("server_error"))
                .int("code", m.int("error_code", 500));
            writer
                .put(&form.event(&Event::unnamed(Obj::new().obj("error", error).end()), index))
                .await?;
            if !m.has("no_terminal") {
                writer
                    .put(&form.event(&Event::unnamed("[DONE]".to_owned()), index))
                    .await?;
            }
        }
        self.note(|r| r.outcome = Some("in_band_error"));
        Ok(())
    }
}
