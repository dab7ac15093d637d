//! Prints how fast prompts are read: the estimate of tokens alone, and whole bodies with their blocks.
//!
//!     cargo run --release -p weighbridge-wire --example prompt_speed

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use weighbridge_wire::prompt::{BLOCK_BYTES, Cut, Prompt};
use weighbridge_wire::{Api, Peek, TextTokens};

const CUT: Cut = Cut {
    seed: 7,
    block_bytes: BLOCK_BYTES,
};
const ENGLISH: &str = "The committee, which had met twice since spring, couldn't agree on what the report should say; \
                       its chair asked for another month, and \\\"a fresh pair of eyes\\\".\\n";
const CHINESE: &str = "会议从上午九点一直开到傍晚，大家对方案的细节仍有不同看法，最后决定下周再讨论一次。";
const CODE: &str = "    let mut total = 0;\\n    for (name, value) in &self.fields {\\n        total += value.len() as u64; // \
                    as it stands\\n    }\\n";

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = io::stdout().lock();
    for (name, text) in [("English", ENGLISH), ("Chinese", CHINESE), ("code", CODE)] {
        let text = text.replace("\\n", "\n").replace("\\\"", "\"").repeat(2000);
        let time = best(|| {
            let mut counted = TextTokens::default();
            counted.add(black_box(&text));
            counted.tokens()
        });
        row(&mut out, &format!("estimate, {name}"), text.len(), (time, 0))?;
    }
    for (name, text, turns, bytes) in [
        ("English, 2 KiB", ENGLISH, 4, 2 << 10),
        ("English, 16 KiB", ENGLISH, 8, 16 << 10),
        ("English, 8k tokens", ENGLISH, 10, 35_000),
        ("English, 100k tokens", ENGLISH, 40, 430_000),
        ("code, 100k tokens", CODE, 40, 380_000),
        ("Chinese, 100k tokens", CHINESE, 40, 450_000),
        ("no escapes, 400 KB", "four words and more, ", 1, 400_000),
    ] {
        let body = chat(text, turns, bytes);
        let mut prompt = Prompt::default();
        let time = best(|| {
            prompt.read(black_box(&body), Api::ChatCompletions, Some(CUT));
            prompt.tokens
        });
        row(&mut out, name, body.len(), (time, prompt.tokens))?;
        let time =
            best(|| Peek::new(black_box(body.as_bytes()), &[]).map_or(0, |peek| u64::from(peek.stream)));
        row(&mut out, "    (peek of the same)", body.len(), (time, 0))?;
    }
    Ok(())
}

fn row(out: &mut impl Write, name: &str, bytes: usize, (time, tokens): (Duration, u64)) -> io::Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let rate = bytes as f64 / time.as_secs_f64() / 1e6;
    let micros = time.as_secs_f64() * 1e6;
    writeln!(
        out,
        "{name:24} {bytes:8} B {micros:9.1} us {rate:7.0} MB/s {tokens:8} tokens"
    )
}

/// The shortest of many runs.
fn best(mut run: impl FnMut() -> u64) -> Duration {
    let mut best = Duration::MAX;
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        let start = Instant::now();
        black_box(run());
        best = best.min(start.elapsed());
    }
    best
}

fn chat(text: &str, turns: usize, bytes: usize) -> String {
    let turn = text.repeat((bytes / turns / text.len()).max(1));
    let messages: Vec<String> = (0..turns)
        .map(|turn_no| {
            let role = if turn_no % 2 == 0 { "user" } else { "assistant" };
            format!(r#"{{"role":"{role}","content":"{turn}"}}"#)
        })
        .collect();
    format!(
        r#"{{"model":"m","messages":[{}],"max_tokens":256,"stream":true}}"#,
        messages.join(",")
    )
}
