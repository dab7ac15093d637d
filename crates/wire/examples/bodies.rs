//! Does one kind of work on a body `--iterations` times and prints nothing: for counting instructions
//! (`valgrind --tool=callgrind`). The slope between two numbers of iterations is the cost of one.
//!
//! `bodies peek BYTES`, `bodies rewrite BYTES`, `bodies prompt BYTES`, `bodies observe CHUNKS`, `bodies inject CHUNKS`, `bodies inject-null CHUNKS`.

use bytes::Bytes;
use std::error::Error;
use std::hint::black_box;
use weighbridge_wire::prompt::{BLOCK_BYTES, Cut, Prompt};
use weighbridge_wire::{Api, BodyPath, Peek, StreamObserver, UnaskedUsage, rewrite_model};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [work, size, flag, iterations] = &arguments[..] else {
        return Err(
            "usage: bodies peek|rewrite|prompt|observe|inject|inject-null SIZE --iterations N".into(),
        );
    };
    if flag != "--iterations" {
        return Err(format!("{flag}: not --iterations").into());
    }
    let (size, iterations): (usize, u64) = (size.parse()?, iterations.parse()?);
    match work.as_str() {
        "peek" => peek(size, iterations),
        "rewrite" => rewrite(size, iterations),
        "prompt" => prompt(size, iterations),
        "observe" => {
            observe(size, iterations);
            Ok(())
        }
        "inject" => {
            inject(&stream(size, ""), iterations);
            Ok(())
        }
        "inject-null" => {
            inject(&stream(size, ",\"usage\":null"), iterations);
            Ok(())
        }
        _ => Err(format!("{work}: not peek, rewrite, prompt, observe, inject or inject-null").into()),
    }
}

/// What every request is asked: model, stream, and the body's own session key.
fn peek(size: usize, iterations: u64) -> Result<(), Box<dyn Error>> {
    let (body, wanted) = (chat(size), [BodyPath::parse("prompt_cache_key")?]);
    for _ in 0..iterations {
        black_box(Peek::new(black_box(&body), &wanted)?);
    }
    Ok(())
}

/// Another model's name in the same body.
fn rewrite(size: usize, iterations: u64) -> Result<(), Box<dyn Error>> {
    let body = Bytes::from(chat(size));
    let peek = Peek::new(&body, &[])?;
    for _ in 0..iterations {
        black_box(rewrite_model(black_box(&body), &peek, "Qwen/Qwen3-32B-Instruct"));
    }
    Ok(())
}

/// What a route asks that looks at the prefix cache: blocks, tokens, needs.
fn prompt(size: usize, iterations: u64) -> Result<(), Box<dyn Error>> {
    let body = String::from_utf8(chat(size))?;
    let cut = Cut {
        seed: 7,
        block_bytes: BLOCK_BYTES,
    };
    let mut prompt = Prompt::default();
    for _ in 0..iterations {
        prompt.read(black_box(&body), Api::ChatCompletions, Some(cut));
        black_box(&prompt);
    }
    Ok(())
}

/// A whole stream, one event a read, usage in the last.
fn observe(chunks: usize, iterations: u64) {
    let events = stream(chunks, "");
    for _ in 0..iterations {
        let mut observer = StreamObserver::new(Api::ChatCompletions);
        for event in &events {
            black_box(observer.feed(black_box(event)));
        }
        black_box(observer.finish());
    }
}

/// The same where the usage was asked for by the gateway and is taken out again.
fn inject(events: &[Bytes], iterations: u64) {
    for _ in 0..iterations {
        let mut observer = StreamObserver::new(Api::ChatCompletions);
        let mut unasked = UnaskedUsage::new();
        for event in events {
            black_box(observer.feed(black_box(event)));
            black_box(unasked.feed(black_box(event.clone())));
        }
        black_box((observer.finish(), unasked.finish()));
    }
}

/// The events of a stream, of which all but the last hold `usage` too.
fn stream(chunks: usize, usage: &str) -> Vec<Bytes> {
    let event = |delta: &str, rest: &str| {
        Bytes::from(format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
             \"model\":\"qwen3\",\"choices\":[{delta}]{rest}}}\n\n"
        ))
    };
    let token = "{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}";
    let stop = "{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}";
    let counted = ",\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":128,\"total_tokens\":139}";
    let mut events = vec![event(token, usage); chunks];
    let done = Bytes::from_static(b"data: [DONE]\n\n");
    events.extend([event(stop, usage), event("", counted), done]);
    events
}

/// A conversation in a body of `size` bytes, with the escapes that text has. The small fields stand last, where clients
/// that build their JSON by hand put them as often as not.
fn chat(size: usize) -> Vec<u8> {
    let turn = |role: &str, text: &str| format!("{{\"role\":\"{role}\",\"content\":\"{text}\"}}");
    let tail = "],\"model\":\"qwen3\",\"max_tokens\":256,\"stream\":true}";
    let mut body = "{\"messages\":[".to_owned();
    body += &turn("system", "You are a helpful assistant.");
    let text = "Some words, a \\\"quote\\\" and a line\\nof a prompt. ".repeat(40);
    let long = turn("user", &text);
    while body.len() + long.len() + 1 + tail.len() < size {
        body += ",";
        body += &long;
    }
    let frame = 1 + turn("user", "").len() + tail.len();
    let room = size.saturating_sub(body.len() + frame);
    body += ",";
    body += &turn("user", &"x".repeat(room));
    (body + tail).into_bytes()
}
