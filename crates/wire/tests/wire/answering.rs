//! Whatever an upstream answers, the client gets a whole error in its own shape.

use std::time::SystemTime;

use proptest::prelude::*;
use weighbridge_wire::{
    Api, Protocol, body_error, body_usage, client_status, passes_untouched, retry_after, upstream_error,
};

/// Bodies near enough to real ones to reach every branch, cut and joined at random.
fn answer() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(br#"{"error":{"message":"m","type":"t","code":"429","param":null}}"#.to_vec()),
        Just(br#"{"error":"#.to_vec()),
        Just(br#"{"type":"error","#.to_vec()),
        Just(br#""error":{"type":"overloaded_error","message":" "}}"#.to_vec()),
        Just(br#"{"detail":[{"loc":["body",1],"msg":"x"},7,null]}"#.to_vec()),
        Just(br#"{"object":"error","message":["#.to_vec()),
        Just(br#"{"usage":{"prompt_tokens":1,"input_tokens":18446744073709551615,"cache_read_input_tokens":9}}"#.to_vec()),
        Just(b"<html><title>".to_vec()),
        Just("é<b>&amp;\u{2028}</title>".as_bytes().to_vec()),
        Just("text é ".repeat(500).into_bytes()),
        proptest::collection::vec(any::<u8>(), 0..12),
    ];
    proptest::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_answer_becomes_a_whole_error(
        body in answer(),
        status in any::<u16>(),
        content_type in prop_oneof![Just(None), Just(Some("application/json")), Just(Some("text/html"))],
    ) {
        for protocol in [Protocol::OpenAi, Protocol::Anthropic] {
            let error = upstream_error(protocol, status, content_type, &body);
            prop_assert_eq!(error.status, client_status(protocol, status));
            prop_assert!(error.message.len() <= 2048);
            // What is rendered is itself fit to pass: whole, bounded and no page.
            let rendered = error.render(protocol);
            prop_assert!(passes_untouched(protocol, error.status, Some("application/json"), &rendered), "{rendered:?}");
        }
    }

    #[test]
    fn looking_into_answers_is_total(body in answer()) {
        let error = body_error(&body);
        prop_assert!(error.is_none_or(|error| !error.message.is_empty()));
        for api in [Api::ChatCompletions, Api::Responses, Api::Messages] {
            let usage = body_usage(api, &body);
            prop_assert!(usage.is_none() || serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok());
        }
        if let Some(wait) = retry_after::parse(&body, SystemTime::now()) {
            prop_assert!(SystemTime::now().checked_add(wait).is_some());
        }
    }
}
