//! Request log: one JSON line each on standard output, written by one thread so that no request waits for it.

use super::metrics::Metrics;
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

/// Lines that may wait before new ones are dropped (and counted).
const QUEUE: usize = 65_536;
/// Bytes gathered into one write.
const BATCH: usize = 64 * 1024;

/// Hands lines to the writer.
#[derive(Clone)]
pub struct LogWriter {
    lines: SyncSender<Message>,
    metrics: Metrics,
}

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

impl LogWriter {
    /// Starts the writing thread.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(mut out: Box<dyn Write + Send>, metrics: Metrics) -> std::io::Result<Self> {
        let (lines, received) = sync_channel(QUEUE);
        std::thread::Builder::new()
            .name("request-log".into())
            .spawn(move || write_all(&received, &mut *out))?;
        Ok(Self { lines, metrics })
    }

    /// Queues one line, which holds its own newline.
    pub(crate) fn line(&self, line: Vec<u8>) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Message::Line(line)) {
            self.metrics.log_dropped();
        }
    }

    /// Returns when all lines queued so far are written.
    pub fn flush(&self) {
        let (done, wait) = sync_channel(1);
        if self.lines.send(Message::Flush(done)).is_ok() {
            let _ = wait.recv();
        }
    }
}

/// A reader that went away (a closed pipe) must not end the gateway, so failed writes are passed over.
fn write_all(received: &Receiver<Message>, out: &mut dyn Write) {
    let mut batch = Vec::with_capacity(BATCH);
    while let Ok(first) = received.recv() {
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => batch.extend_from_slice(&line),
                Message::Flush(done) => {
                    let _ = out.write_all(&batch).and_then(|()| out.flush());
                    batch.clear();
                    let _ = done.send(());
                }
            }
            next = if batch.len() < BATCH {
                received.try_recv().ok()
            } else {
                None
            };
        }
        let _ = out.write_all(&batch).and_then(|()| out.flush());
        batch.clear();
    }
}
