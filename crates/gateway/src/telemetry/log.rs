//! Lines for a reader who may be slow, such as the request log on standard output: written by one thread, so that no
//! request waits for it.

use prometheus_client::metrics::counter::Counter;
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

/// Lines that may wait before new ones are dropped (and counted).
const QUEUE: usize = 65_536;
/// Bytes gathered into one write.
const BATCH: usize = 64 * 1024;
/// How long a line may wait for others. Waking the writer costs the worker more than making the line, so under load it
/// wakes once in this time and not once a line.
const GATHER: Duration = Duration::from_millis(5);
/// Longest wait for queued lines to be written.
const FLUSH_WAIT: Duration = Duration::from_secs(2);

/// Counts lines that found the queue full.
pub type Dropped = Counter;

/// Hands lines to the writer.
#[derive(Clone)]
pub struct LogWriter {
    lines: SyncSender<Message>,
    dropped: Dropped,
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
    pub fn start(thread: &str, mut out: Box<dyn Write + Send>, dropped: Dropped) -> std::io::Result<Self> {
        let (lines, received) = sync_channel(QUEUE);
        std::thread::Builder::new()
            .name(thread.to_owned())
            .spawn(move || write_all(&received, &mut *out))?;
        Ok(Self { lines, dropped })
    }

    /// Queues one line, which holds its own newline.
    pub fn line(&self, line: Vec<u8>) {
        if let Err(TrySendError::Full(_)) = self.lines.try_send(Message::Line(line)) {
            self.dropped.inc();
        }
    }

    /// Returns when all lines queued so far are written, or after [`FLUSH_WAIT`]: a reader that has stopped reading must
    /// not keep the gateway from ending. True: all are written.
    pub fn flush(&self) -> bool {
        let deadline = Instant::now() + FLUSH_WAIT;
        let (done, wait) = sync_channel(1);
        let mut message = Message::Flush(done);
        while let Err(error) = self.lines.try_send(message) {
            // A full queue empties within one batch, if it empties at all.
            let (TrySendError::Full(returned), true) = (error, Instant::now() < deadline) else {
                return false;
            };
            message = returned;
            std::thread::sleep(GATHER);
        }
        wait.recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .is_ok()
    }
}

/// A reader that went away (a closed pipe) must not end the gateway, so failed writes are passed over.
fn write_all(received: &Receiver<Message>, out: &mut dyn Write) {
    let mut batch = Vec::with_capacity(BATCH);
    while let Ok(first) = received.recv() {
        if matches!(first, Message::Line(_)) {
            std::thread::sleep(GATHER);
        }
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Line(line) => batch.extend_from_slice(&line),
                Message::Flush(done) => {
                    write_out(&mut batch, out);
                    let _ = done.send(());
                }
            }
            if batch.len() >= BATCH {
                write_out(&mut batch, out);
            }
            next = received.try_recv().ok();
        }
        write_out(&mut batch, out);
    }
}

fn write_out(batch: &mut Vec<u8>, out: &mut dyn Write) {
    let _ = out.write_all(batch).and_then(|()| out.flush());
    batch.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_is_written_once_and_in_order() {
        let out = Shared::default();
        let log = LogWriter::start("test", Box::new(out.clone()), Dropped::default()).unwrap();
        let mut expected = String::new();
        // More than a batch, so that it is written in several.
        for number in 0..10_000 {
            let line = format!("{{\"number\":{number}}}\n");
            expected += &line;
            log.line(line.into_bytes());
        }
        assert!(log.flush());
        assert_eq!(
            String::from_utf8(out.0.lock().unwrap().clone()).unwrap(),
            expected
        );
        log.line(b"alone\n".to_vec());
        assert!(log.flush());
        assert!(out.0.lock().unwrap().ends_with(b"}\nalone\n"));
    }

    /// A pipe that nobody reads.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // Until its other end is dropped.
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_reads_nothing_is_not_waited_for() {
        let (reader, pipe) = std::sync::mpsc::channel();
        let dropped = Dropped::default();
        let log = LogWriter::start("test", Box::new(Stuck(pipe)), dropped.clone()).unwrap();
        // More than the queue holds, so that the wish to flush does not even fit.
        for _ in 0..2 * QUEUE {
            log.line(b"x\n".to_vec());
        }
        assert!(!log.flush());
        assert!(dropped.get() > 0);
        drop(reader);
    }
}
