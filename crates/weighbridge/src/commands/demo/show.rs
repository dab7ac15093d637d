//! What the demo prints.

use super::fleet::Fleet;
use super::ledger::Ledger;
use super::summary::Summary;
use super::traffic::Told;
use super::why;
use crate::commands::serve::Started;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weighbridge_gateway::Gateway;
use weighbridge_gateway::admin_view::endpoints;

/// Time between two tables.
const TABLE_EVERY: Duration = Duration::from_secs(5);
/// Answers shown at the start, then after each table.
const ANSWERS: [u64; 2] = [4, 1];
/// Tables between two reminders that nothing is real.
const REMIND_EVERY: u64 = 6;
/// Characters of an answer that are shown.
const EXCERPT: usize = 60;

/// Writes lines for people, or none. A reader that went away does not end the demo.
pub(super) struct Printer {
    to_stderr: bool,
    quiet: bool,
    /// Answers that may still be shown before the next table.
    answers: AtomicU64,
}

/// What everybody on it works with.
pub(super) struct Stage<'a> {
    pub(super) gateway: &'a Arc<Gateway>,
    pub(super) ledger: &'a Ledger,
    pub(super) printer: &'a Printer,
}

impl Printer {
    pub(super) fn new(json: bool, quiet: bool) -> Self {
        Self {
            to_stderr: json,
            quiet,
            answers: AtomicU64::new(ANSWERS[0]),
        }
    }

    pub(super) fn say(&self, text: &str) {
        if self.quiet {
        } else if self.to_stderr {
            let _ = writeln!(std::io::stderr(), "{text}");
        } else {
            let _ = writeln!(std::io::stdout(), "{text}");
        }
    }

    /// Prints JSON for machines, on one line.
    pub(super) fn result(&self, value: &impl Serialize) {
        if let Ok(text) = serde_json::to_string(value) {
            let _ = writeln!(std::io::stdout(), "{text}");
        }
    }
}

/// Says what this is and where everything is.
pub(super) fn opening(printer: &Printer, started: &Started, fleet: &Fleet) {
    let gateway = started.running.listen;
    let mut text = format!(
        "Weighbridge demo: engines, gateway and traffic in one process.\n\
         THE ENGINES ARE SIMULATED: their timing follows a model of Llama-3.1-8B on one GPU, their words mean nothing.\n\n  \
         gateway   http://{gateway}/v1\n"
    );
    if let Some(admin) = started.admin_listen {
        let _ = writeln!(
            text,
            "  admin     http://{admin}  (metrics: http://{admin}/metrics)"
        );
    }
    if let Some(token) = &started.token_file {
        let _ = writeln!(text, "  token     {}", token.path().display());
    }
    for engine in &fleet.engines {
        let (pool, name, address, speed) = (engine.pool, engine.name, engine.address, engine.config.speed);
        let _ = writeln!(
            text,
            "  engine    {:<12} http://{address}  simulated, {speed} x the modelled speed",
            format!("{pool}/{name}")
        );
    }
    let _ = write!(
        text,
        "\nTry it:\n  curl -N http://{gateway}/v1/chat/completions -H 'content-type: application/json' \\\n    \
         -d '{{\"model\":\"llama-8b\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'\n"
    );
    if let Some(admin) = started.admin_listen {
        let _ = writeln!(text, "  weighbridge status --admin {admin}");
    }
    text.push_str("Ctrl-C ends it.\n");
    printer.say(&text);
}

/// Shows a chat that has ended: failures always, answers now and then.
pub(super) fn told(stage: &Stage<'_>, chat: &Told) {
    let (who, turn, model) = (chat.who, chat.turn, chat.model);
    let answer = match &chat.answer {
        Ok(answer) => answer,
        Err(error) => {
            stage
                .printer
                .say(&format!("{who}, turn {turn}, {model}: FAILED, {error}"));
            return;
        }
    };
    let left = stage.printer.answers.load(Ordering::Relaxed);
    if left == 0 {
        return;
    }
    let Some(decision) = why::decision_about(stage.gateway, &chat.request_id) else {
        return;
    };
    stage.printer.answers.store(left - 1, Ordering::Relaxed);
    let place = format!(
        "{}/{}",
        decision.target.as_deref().unwrap_or_default(),
        decision.endpoint.as_deref().unwrap_or_default()
    );
    let text: String = answer.text.trim().chars().take(EXCERPT).collect();
    stage.printer.say(&format!(
        "{who}, turn {turn}, {model} -> {place}: \"{}...\"\n  first token {} ms, {} ms in all; why {place}: {}",
        text.replace('\n', " "),
        answer.first_token.as_millis(),
        answer.total.as_millis(),
        why::sentence(&decision)
    ));
}

/// Prints the table of endpoints every few seconds, for ever.
pub(super) async fn table_now_and_then(stage: &Stage<'_>) {
    for count in 1_u64.. {
        tokio::time::sleep(TABLE_EVERY).await;
        stage.printer.say(&table(stage));
        if count.is_multiple_of(REMIND_EVERY) {
            stage
                .printer
                .say("(These engines are simulated; nothing they say means anything.)");
        }
        stage.printer.answers.store(ANSWERS[1], Ordering::Relaxed);
    }
}

fn table(stage: &Stage<'_>) -> String {
    let view = stage.gateway.view();
    let shown = endpoints(stage.gateway, &stage.gateway.snapshot(), &view);
    let book = stage.ledger.book();
    let seconds = stage.gateway.clock().uptime().as_secs();
    let mut text = format!(
        "\n{:>5} s  {} requests, {} answered, {} failed, {} by clients that left\n  {:<16} {:<10} {:>9} {:>8} {:>7}",
        seconds,
        book.requests,
        book.count("ok"),
        book.failed(),
        book.count("client_closed"),
        "simulated engine",
        "state",
        "in flight",
        "served",
        "failed"
    );
    for endpoint in shown {
        let (served, failed) = book.by_engine.get(&endpoint.name).copied().unwrap_or_default();
        let reason = if endpoint.reason.is_empty() {
            String::new()
        } else {
            format!("  {}", endpoint.reason)
        };
        let _ = write!(
            text,
            "\n  {:<16} {:<10} {:>9} {served:>8} {failed:>7}{reason}",
            format!("{}/{}", endpoint.pool, endpoint.name),
            endpoint.state.as_str(),
            endpoint.inflight
        );
    }
    text.push('\n');
    text
}

/// The last lines.
pub(super) fn closing(printer: &Printer, summary: &Summary) {
    let mut text = format!(
        "Simulated engines answered {} of {} requests; {} failed",
        summary.ok, summary.requests, summary.failed.total
    );
    if summary.kills.total > 0 {
        let _ = write!(
            text,
            " while engines were killed {} times ({} of the failures have another cause)",
            summary.kills.total, summary.failed.unexplained
        );
    }
    printer.say(&format!("{text}."));
}
