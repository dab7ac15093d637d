//! The cache, the batch and cancellation, seen from outside.

use super::client::{EngineProcess, eventually};
use super::{MODEL, ask, fast};
use serde_json::json;

/// An answer that would take an engine at its own speed minutes.
fn endless(text: &str, stream: bool) -> String {
    ask(
        text,
        json!({"max_tokens": 20_000, "ignore_eos": true, "stream": stream}),
    )
    .to_string()
}

#[test]
fn a_repeated_prefix_is_found_in_the_cache() {
    let engine = fast();
    let document = "some words of a long text ".repeat(1400);
    let cached = |question: &str| {
        let body = ask(&format!("{document}{question}"), json!({"max_tokens": 2}));
        let usage = engine.post("/v1/chat/completions", &body).json()["usage"].clone();
        (
            usage["prompt_tokens"].as_u64().unwrap(),
            usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap(),
        )
    };
    let (tokens, first) = cached("who?");
    assert!(tokens > 8000 && first == 0, "{tokens} tokens, {first} cached");
    let (tokens, second) = cached("and when?");
    assert!(second + 32 > tokens, "{tokens} tokens, {second} cached");
    assert_eq!(engine.metric("prefix_cache_hits_total"), second as f64);

    let body = json!({
        "model": MODEL, "max_tokens": 2, "messages": [{"role": "user", "content": format!("{document}why?")}],
    });
    let usage = engine.post("/v1/messages", &body).json()["usage"].clone();
    assert_eq!(
        usage["cache_read_input_tokens"], second,
        "both dialects share the cache"
    );
    assert!(usage["input_tokens"].as_u64().unwrap() < 32);
}

#[test]
fn the_next_turn_of_a_conversation_finds_the_last_answer() {
    let engine = fast();
    let first = engine
        .post(
            "/v1/chat/completions",
            &ask("Begin.", json!({"max_tokens": 200, "min_tokens": 200})),
        )
        .json();
    let said = &first["choices"][0]["message"];
    let body = json!({"model": MODEL, "max_tokens": 1, "messages": [
        {"role": "user", "content": "Begin."}, said, {"role": "user", "content": "Go on."},
    ]});
    let second = engine.post("/v1/chat/completions", &body).json();
    let cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
        .as_u64()
        .unwrap();
    assert!(cached >= 176, "{cached} cached of {}", second["usage"]);
}

#[test]
fn metrics_follow_the_load_and_leaving_clients_free_their_blocks() {
    let engine = EngineProcess::start(&["--max-num-seqs", "2"]);
    let mut streams: Vec<_> = (0..2)
        .map(|index| {
            engine.open(
                "POST",
                "/v1/chat/completions",
                &endless(&format!("client {index}"), true),
            )
        })
        .collect();
    for stream in &mut streams {
        assert!(stream.chunk());
    }
    let third = engine.request("POST", "/v1/chat/completions", &endless("client 2", false));
    eventually("one waits behind two", || {
        let state = (
            engine.metric("num_requests_running"),
            engine.metric("num_requests_waiting"),
        );
        (state == (2.0, 1.0)).then_some(())
    });
    assert!(engine.metric("kv_cache_usage_perc") > 0.0);
    assert_eq!(engine.get("/load").json()["server_load"], 3);
    assert!(engine.metric("time_to_first_token_seconds_count") >= 2.0);

    drop(streams);
    eventually("the third runs alone", || {
        let state = (
            engine.metric("num_requests_running"),
            engine.metric("num_requests_waiting"),
        );
        (state == (1.0, 0.0)).then_some(())
    });
    drop(third);
    eventually("all is free", || {
        (engine.metric("num_requests_running") == 0.0).then_some(())
    });
    assert_eq!(engine.metric("kv_cache_usage_perc"), 0.0);
    let page = engine.get("/metrics").body;
    assert!(page.contains("finished_reason=\"abort\"} 3.0"), "{page}");
}

#[test]
fn a_small_cache_preempts_and_all_answers_are_whole() {
    let engine = EngineProcess::start(&["--speed", "1000", "--kv-blocks", "40"]);
    let replies: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|index| {
                let engine = &engine;
                let body = ask(
                    &format!("client {index}"),
                    json!({"max_tokens": 300, "ignore_eos": true, "stream": true}),
                );
                scope.spawn(move || engine.post("/v1/chat/completions", &body))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for reply in &replies {
        assert_eq!(reply.events().len(), 302, "role, tokens, end");
    }
    assert!(engine.metric("num_preemptions_total") > 0.0);
    assert_eq!(engine.metric("generation_tokens_total"), 2400.0);
    assert_eq!(engine.metric("kv_cache_usage_perc"), 0.0);
}
