//! What is known of each recorded stream and body, counted from the recordings by other means.

use weighbridge_wire::{Api, BodyPath, Peek, StreamObserver, Usage, body_error, body_usage};

use crate::recorded;

/// How a recording ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// With a reason and the terminal event.
    Whole,
    /// With a reason; the recording leaves the terminal event out.
    Unterminated,
    /// With the terminal event only.
    Unfinished,
}

/// Prompt, completion and cached tokens.
type Counts = Option<(u64, u64, Option<u64>)>;

/// Path, call, events, events with content, usage, ending.
#[rustfmt::skip]
const STREAMS: &[(&str, Api, u64, u64, Counts, Ending)] = &[
    ("anthropic-sdk-python/basic_response.txt", Api::Messages, 8, 3, Some((11, 6, None)), Ending::Whole),
    ("anthropic-sdk-python/compaction_response.txt", Api::Messages, 9, 2, Some((30, 8, None)), Ending::Whole),
    ("anthropic-sdk-python/fallback_credit_response.txt", Api::Messages, 6, 1, Some((25, 8, None)), Ending::Whole),
    ("anthropic-sdk-python/fallback_response.txt", Api::Messages, 8, 1, Some((25, 8, None)), Ending::Whole),
    ("anthropic-sdk-python/incomplete_partial_json_response.txt", Api::Messages, 15, 9, Some((450, 124, Some(0))), Ending::Whole),
    ("anthropic-sdk-python/refusal_response.txt", Api::Messages, 5, 0, Some((20, 0, None)), Ending::Whole),
    ("anthropic-sdk-python/stream-a-refusal.sse", Api::Messages, 13, 6, Some((28, 106, Some(0))), Ending::Whole),
    ("anthropic-sdk-python/stream-a-toolrefusal.sse", Api::Messages, 18, 9, Some((28, 106, Some(0))), Ending::Whole),
    ("anthropic-sdk-python/stream-b-fallback.sse", Api::Messages, 20, 15, Some((31, 547, Some(0))), Ending::Whole),
    ("anthropic-sdk-python/tool_use_response.txt", Api::Messages, 14, 7, Some((377, 65, Some(0))), Ending::Whole),
    ("envoy-ai-gateway/chat-streaming-detailed-usage.0.sse", Api::ChatCompletions, 4, 0, Some((12, 100, Some(0))), Ending::Whole),
    ("envoy-ai-gateway/chat-streaming-web-search.0.sse", Api::ChatCompletions, 26, 23, None, Ending::Whole),
    ("envoy-ai-gateway/chat-streaming.0.sse", Api::ChatCompletions, 51, 48, None, Ending::Whole),
    ("envoy-ai-gateway/completion-streaming-usage.0.sse", Api::Completions, 27, 25, Some((31, 25, None)), Ending::Whole),
    ("envoy-ai-gateway/completion-streaming.0.sse", Api::Completions, 26, 25, None, Ending::Whole),
    ("simonw-llm/test_openai_responses__test_responses_basic_streaming.0.sse", Api::Responses, 9, 1, Some((11, 5, Some(0))), Ending::Whole),
    ("simonw-llm/test_openai_responses__test_responses_tool_use_streaming.0.sse", Api::Responses, 17, 11, Some((58, 23, Some(0))), Ending::Whole),
    ("simonw-llm/test_openai_responses__test_responses_tool_use_streaming.1.sse", Api::Responses, 22, 14, Some((94, 18, Some(0))), Ending::Whole),
    ("simonw-llm/test_tools__test_tool_use_basic.0.sse", Api::ChatCompletions, 15, 12, Some((54, 20, Some(0))), Ending::Whole),
    ("simonw-llm/test_tools__test_tool_use_basic.1.sse", Api::ChatCompletions, 28, 24, Some((87, 26, Some(0))), Ending::Whole),
    ("simonw-llm/test_tools_streaming__test_tools_streaming_variant_a.0.sse", Api::ChatCompletions, 6, 2, Some((57, 17, Some(0))), Ending::Unfinished),
    ("simonw-llm/test_tools_streaming__test_tools_streaming_variant_a.1.sse", Api::ChatCompletions, 18, 14, Some((107, 15, Some(0))), Ending::Whole),
    ("simonw-llm/test_tools_streaming__test_tools_streaming_variant_b.0.sse", Api::ChatCompletions, 5, 1, Some((57, 17, Some(0))), Ending::Unfinished),
    ("simonw-llm/test_tools_streaming__test_tools_streaming_variant_b.1.sse", Api::ChatCompletions, 18, 14, Some((107, 15, Some(0))), Ending::Whole),
    ("simonw-llm/test_tools_streaming__test_tools_streaming_variant_c.0.sse", Api::ChatCompletions, 5, 2, Some((56, 12, Some(0))), Ending::Whole),
    ("simonw-llm/test_tools_streaming__test_tools_streaming_variant_c.1.sse", Api::ChatCompletions, 18, 14, Some((105, 16, Some(0))), Ending::Whole),
    ("simonw-llm/test_tools_streaming__test_tools_streaming_variant_d.0.sse", Api::ChatCompletions, 4, 1, Some((57, 17, Some(0))), Ending::Whole),
    ("simonw-llm/test_tools_streaming__test_tools_streaming_variant_d.1.sse", Api::ChatCompletions, 17, 14, Some((107, 15, Some(0))), Ending::Whole),
    ("vercel-ai/anthropic-json-tool.1.chunks.txt", Api::Messages, 8, 3, Some((849, 47, Some(0))), Ending::Whole),
    ("vercel-ai/anthropic-json-tool.2.chunks.txt", Api::Messages, 12, 5, Some((849, 47, Some(0))), Ending::Whole),
    ("vercel-ai/anthropic-text.chunks.txt", Api::Messages, 11, 6, Some((12, 30, Some(0))), Ending::Whole),
    ("vercel-ai/anthropic-tool-no-args.chunks.txt", Api::Messages, 10, 3, Some((565, 48, Some(0))), Ending::Whole),
    ("vercel-ai/anthropic-tool-search-bm25.1.chunks.txt", Api::Messages, 45, 27, Some((1040, 41, Some(0))), Ending::Whole),
    ("vercel-ai/anthropic-tool-search-deferred-bm25.chunks.txt", Api::Messages, 113, 90, Some((1639, 95, Some(0))), Ending::Whole),
    ("vercel-ai/anthropic-tool-search-deferred-regex.chunks.txt", Api::Messages, 117, 94, Some((1758, 118, Some(0))), Ending::Whole),
    ("vercel-ai/anthropic-tool-search-regex.1.chunks.txt", Api::Messages, 50, 34, Some((1071, 67, Some(0))), Ending::Whole),
    ("vercel-ai/deepseek-reasoning.chunks.txt", Api::ChatCompletions, 220, 218, Some((18, 219, Some(0))), Ending::Unterminated),
    ("vercel-ai/deepseek-text.chunks.txt", Api::ChatCompletions, 402, 400, Some((13, 400, Some(0))), Ending::Unterminated),
    ("vercel-ai/deepseek-tool-call.chunks.txt", Api::ChatCompletions, 52, 50, Some((339, 83, Some(320))), Ending::Unterminated),
    ("vercel-ai/mistral-incremental-tool-call.chunks.txt", Api::ChatCompletions, 3, 2, Some((171, 14, Some(128))), Ending::Unterminated),
    ("vercel-ai/mistral-reasoning.chunks.txt", Api::ChatCompletions, 4, 3, Some((10, 46, None)), Ending::Unterminated),
    ("vercel-ai/mistral-text.chunks.txt", Api::ChatCompletions, 8, 6, Some((13, 8, None)), Ending::Unterminated),
    ("vercel-ai/mistral-tool-call.chunks.txt", Api::ChatCompletions, 2, 1, Some((124, 22, None)), Ending::Unterminated),
    ("vercel-ai/openai-error.1.chunks.txt", Api::Responses, 4, 0, None, Ending::Unfinished),
    ("vercel-ai/openai-local-shell-tool.1.chunks.txt", Api::Responses, 7, 0, Some((407, 151, Some(0))), Ending::Whole),
    ("vercel-ai/openai-reasoning-encrypted-content.1.chunks.txt", Api::Responses, 110, 79, Some((299, 12, Some(0))), Ending::Whole),
    ("vercel-ai/openai-text.chunks.txt", Api::ChatCompletions, 303, 300, Some((16, 300, Some(0))), Ending::Unterminated),
    ("vercel-ai/openai-web-search-tool.1.chunks.txt", Api::Responses, 185, 121, Some((31073, 4416, Some(3712))), Ending::Whole),
    ("vercel-ai/xai-text.chunks.txt", Api::ChatCompletions, 344, 342, Some((12, 2, Some(11))), Ending::Unterminated),
    ("vercel-ai/xai-tool-call.chunks.txt", Api::ChatCompletions, 230, 228, Some((307, 26, Some(306))), Ending::Unterminated),
];

#[test]
fn every_recorded_stream_is_understood() {
    let mut known: Vec<_> = STREAMS.iter().map(|stream| stream.0.to_owned()).collect();
    let mut found: Vec<_> = recorded::streams().into_iter().map(|(path, _)| path).collect();
    known.sort();
    found.sort();
    assert_eq!(known, found, "a recording without a row, or the reverse");
    for &(path, api, events, content, counts, ending) in STREAMS {
        let mut observer = StreamObserver::new(api);
        let mut first_content = 0;
        for chunk in recorded::stream(path).chunks(1000) {
            first_content += u64::from(observer.feed(chunk).first_content);
        }
        observer.finish();
        assert_eq!(
            (observer.events(), observer.content_events()),
            (events, content),
            "{path}"
        );
        assert_eq!(first_content, content.min(1), "{path}");
        assert_eq!(observer.usage(), counts.map(usage), "{path}");
        assert_eq!(observer.done(), ending != Ending::Unterminated, "{path}");
        assert_eq!(observer.finished(), ending != Ending::Unfinished, "{path}");
        assert_eq!(observer.error().is_some(), path.contains("error"), "{path}");
    }
}

fn usage((prompt_tokens, completion_tokens, cached_tokens): (u64, u64, Option<u64>)) -> Usage {
    Usage {
        prompt_tokens,
        completion_tokens,
        cached_tokens,
    }
}

#[test]
fn a_recorded_failure_is_told_once_and_comes_first() {
    let mut observer = StreamObserver::new(Api::Responses);
    observer.feed(&recorded::stream("vercel-ai/openai-error.1.chunks.txt"));
    let error = observer.error().unwrap();
    assert_eq!(error.status, Some(429));
    assert_eq!(error.kind.as_deref(), Some("insufficient_quota"));
    assert!(
        error.message.starts_with("You exceeded your current quota"),
        "{}",
        error.message
    );
    assert!(observer.error_first());
}

#[test]
fn usage_of_recorded_answers() {
    let check = |path: &str, api, counts| {
        assert_eq!(
            body_usage(api, &recorded::read(path)),
            Some(usage(counts)),
            "{path}"
        );
        assert_eq!(body_error(&recorded::read(path)), None, "{path}");
    };
    check("vercel-ai/anthropic-text.json", Api::Messages, (12, 29, Some(0)));
    check(
        "simonw-llm/test_openai_responses__test_responses_basic_non_streaming.0.json",
        Api::Responses,
        (11, 5, Some(0)),
    );
    for path in recorded::ending(".json")
        .into_iter()
        .filter(|path| path.starts_with("envoy-ai-gateway/chat-"))
    {
        let body = recorded::read(&path);
        let tree: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let expect = tree["usage"].as_object().map(|said| {
            let cached = said
                .get("prompt_tokens_details")
                .and_then(|details| details["cached_tokens"].as_u64());
            usage((
                said["prompt_tokens"].as_u64().unwrap(),
                said["completion_tokens"].as_u64().unwrap(),
                cached,
            ))
        });
        assert_eq!(body_usage(Api::ChatCompletions, &body), expect, "{path}");
        assert_eq!(body_error(&body).is_some(), tree.get("error").is_some(), "{path}");
    }
}

#[test]
fn every_recorded_request_is_read() {
    let wanted = [
        BodyPath::parse("messages").unwrap(),
        BodyPath::parse("input").unwrap(),
    ];
    for path in recorded::ending(".request.json") {
        let body = recorded::read(&path);
        let tree: serde_json::Value = serde_json::from_slice(&body).unwrap();
        let peek = Peek::new(&body, &wanted).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(peek.model.as_deref(), tree["model"].as_str(), "{path}");
        assert_eq!(peek.stream, tree["stream"].as_bool().unwrap_or(false), "{path}");
        assert_eq!(
            peek.include_usage,
            tree["stream_options"]["include_usage"].as_bool(),
            "{path}"
        );
        assert_eq!(peek.found[0], None, "{path}");
        assert_eq!(
            peek.found[1].as_deref(),
            tree["input"].as_str().map(str::trim),
            "{path}"
        );
    }
}
