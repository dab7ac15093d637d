//! Messages of the gateway itself: written to standard error by a thread of their own, so that nobody who serves
//! requests waits for a reader; and what is said of a fault of the program.

use std::any::Any;
use std::io::{IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Registry, reload};
use weighbridge_gateway::telemetry::log::{Dropped, LogWriter};

static WRITER: OnceLock<(LogWriter, Dropped)> = OnceLock::new();
static LEVEL: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Sends messages of this severity to standard error. Set once; in one process that runs several gateways the first wins.
pub(crate) fn start(level: &str) -> std::io::Result<Flush> {
    if WRITER.get().is_none() {
        let dropped = Dropped::default();
        let writer = LogWriter::start("messages", Box::new(std::io::stderr()), dropped.clone())?;
        if WRITER.set((writer.clone(), dropped)).is_ok() {
            let (filter, handle) = reload::Layer::new(threshold(level));
            let lines = tracing_subscriber::fmt::layer()
                .with_writer(Writer(writer))
                .with_target(false)
                .with_ansi(std::io::stderr().is_terminal());
            let registry = tracing_subscriber::registry().with(filter).with(lines);
            if registry.try_init().is_ok() {
                let _ = LEVEL.set(handle);
            }
        }
    }
    Ok(Flush)
}

/// From now on, messages of this severity.
pub(crate) fn set_level(level: &str) {
    if let Some(handle) = LEVEL.get() {
        // It fails only where nothing is written any more.
        let _ = handle.reload(threshold(level));
    }
}

/// What our own crates say from `level` on, and what others say only from warnings on: the crates that read frames log one
/// line for each below that, with whatever a peer put into it.
fn threshold(level: &str) -> Targets {
    let level = level.parse().unwrap_or(LevelFilter::INFO);
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target("weighbridge", level)
}

/// Messages that nobody read in time; none before [`start`].
pub(crate) fn dropped() -> Option<Dropped> {
    WRITER.get().map(|(_, dropped)| dropped.clone())
}

/// Writes what is queued when it is dropped, as far as it is read.
pub(crate) struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        flush();
    }
}

fn flush() {
    if let Some((writer, _)) = WRITER.get() {
        writer.flush();
    }
}

struct Writer(LogWriter);

impl<'a> MakeWriter<'a> for Writer {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(&self.0)
    }
}

/// Takes one message, which comes in one piece.
struct Line<'a>(&'a LogWriter);

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.line(one_line(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The message on one line, as whoever collects lines reads it: what would be others is joined to it.
fn one_line(bytes: &[u8]) -> Vec<u8> {
    let message = bytes.trim_ascii_end();
    if !message.contains(&b'\n') {
        return bytes.to_vec();
    }
    let lines = message.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let mut line = lines.join(&b"; "[..]);
    line.push(b'\n');
    line
}

/// Has a panic say where it happened, and what it says only where that is part of the program.
///
/// What a panic is made to say while it runs may quote whatever was at hand: a key, a prompt, the file of the config.
pub(crate) fn tell_of_panics() {
    std::panic::set_hook(Box::new(|info| {
        let what = described(info);
        if WRITER.get().is_some() {
            tracing::error!("{what}");
            flush();
        } else {
            let _ = writeln!(std::io::stderr(), "weighbridge: {what}");
        }
    }));
}

fn described(info: &PanicHookInfo<'_>) -> String {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed").to_owned();
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = std::backtrace::Backtrace::capture();
    let trace = match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => format!("\n{backtrace}"),
        _ => String::new(),
    };
    format!(
        "a fault of the program at {place}, thread `{name}`: {}. Please report it.{trace}",
        shown(info.payload())
    )
}

fn shown(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .unwrap_or("its message is withheld, because it may hold data of a request or of the config")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn messages_are_one_line_each() {
        for (message, line) in [
            ("a\n", "a\n"),
            ("a", "a"),
            (
                "w.yaml:1:2: wrong\n    mend it\nw.yaml:2:1: too\n",
                "w.yaml:1:2: wrong; mend it; w.yaml:2:1: too\n",
            ),
            ("a\n\nb\n", "a; b\n"),
        ] {
            assert_eq!(one_line(message.as_bytes()), line.as_bytes());
        }
    }

    #[test]
    fn crates_that_read_frames_tell_warnings_only() {
        use tracing::Level;
        let filter = threshold("trace");
        assert!(filter.would_enable("weighbridge_gateway::client", &Level::TRACE));
        assert!(filter.would_enable("h2::proto", &Level::WARN));
        assert!(!filter.would_enable("h2::codec::framed_read", &Level::DEBUG));
        assert!(!threshold("error").would_enable("h2::proto", &Level::WARN));
    }

    #[test]
    fn a_panic_tells_its_place_and_no_data() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let (seen, before) = (told.clone(), std::panic::take_hook());
        std::panic::set_hook(Box::new(move |info| seen.lock().unwrap().push(described(info))));
        let secret = String::from("sk-canary");
        for panics in [
            std::panic::catch_unwind(|| panic!("bad key {secret}")),
            std::panic::catch_unwind(|| assert_eq!(secret.parse::<u8>().map_err(|_| &secret).unwrap(), 1)),
            std::panic::catch_unwind(|| {
                let _ = &secret["é".len() + 5..100];
            }),
            std::panic::catch_unwind(|| panic!("a plain word")),
        ] {
            panics.unwrap_err();
        }
        std::panic::set_hook(before);
        let told = told.lock().unwrap().join("\n");
        assert!(!told.contains("sk-canary"), "{told}");
        assert!(
            told.contains("messages.rs:") && told.contains("a plain word"),
            "{told}"
        );
        assert_eq!(told.matches("is withheld").count(), 3, "{told}");
    }
}
