//! Recognising that a server refuses a prompt as longer than its model takes.
//!
//! There is no status of its own for it: OpenAI has a code, llama.cpp a type, all others a sentence.

use crate::api::Protocol;
use crate::error::upstream_error;
use crate::said::InBandError;

/// Types and codes: OpenAI's, llama.cpp's, and what some gateways make of them.
const WORDS: [&str; 4] = [
    "context_length_exceeded",
    "exceed_context_size_error",
    "context_window_exceeded",
    "model_context_window_exceeded",
];

/// Parts of sentences, in lower case; all parts of one line must be there.
const SENTENCES: [&[&str]; 14] = [
    // OpenAI, vLLM and what follows them: "This model's maximum context length is N tokens. However, …".
    &["maximum context length"],
    // vLLM: "The decoder prompt (length N) is longer than the maximum model length of N."
    &["prompt", "longer than the maximum model length"],
    // vLLM: "The prompt (total length N) is too long to fit into the model (context length N)."
    &["too long to fit into the model"],
    // SGLang: "The input (N tokens) is longer than the model's context length (N tokens)."
    &["longer than the model's context length"],
    // SGLang: "Input length (N tokens) exceeds the maximum allowed length (N tokens)."
    &["input length", "exceeds the maximum allowed"],
    // llama.cpp: "the request (N tokens) exceeds the available context size (N tokens), try increasing it".
    &["exceeds the available context size"],
    // llama.cpp: "input (N tokens) is too large to process. increase the physical batch size".
    &["is too large to process", "batch size"],
    // text-generation-inference: "`inputs` tokens + `max_new_tokens` must be <= N. Given: …".
    &["`inputs`", "must be <="],
    // Anthropic: "prompt is too long: N tokens > N maximum".
    &["prompt is too long"],
    // Anthropic: "input length and `max_tokens` exceed context limit: N + N > N".
    &["exceed context limit"],
    // OpenAI's Responses: "Your input exceeds the context window of this model."
    &["exceeds the context window"],
    // Gemini: "The input token count (N) exceeds the maximum number of tokens allowed (N)."
    &["input token count", "exceeds the maximum"],
    // Mistral: "Prompt contains N tokens … too large for model with N maximum context length".
    &["too large for model with"],
    // xAI: "This model's maximum prompt length is N but the request contains N tokens."
    &["maximum prompt length is"],
];

fn says_so(words: [Option<&str>; 2], message: &str) -> bool {
    if words.into_iter().flatten().any(|word| WORDS.contains(&word)) {
        return true;
    }
    let message = message.to_ascii_lowercase();
    SENTENCES
        .iter()
        .any(|parts| parts.iter().all(|part| message.contains(part)))
}

/// Whether a failed answer says that the prompt, or the prompt with what it asks for, is longer than the model takes. Looks
/// at the error's own fields only, since some servers quote the request.
#[must_use]
pub fn is_too_long(status: u16, content_type: Option<&str>, body: &[u8]) -> bool {
    if !matches!(status, 400 | 413 | 422 | 500) {
        return false;
    }
    let error = upstream_error(Protocol::OpenAi, status, content_type, body);
    says_so([error.code.as_deref(), error.kind.as_deref()], &error.message)
}

impl InBandError {
    /// Whether it says that the prompt is longer than the model takes.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        says_so([self.code.as_deref(), self.kind.as_deref()], &self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body_error;

    /// As reported from real servers in public.
    const REFUSED: [(u16, &str); 12] = [
        (
            400,
            r#"{"error":{"message":"This model's maximum context length is 4097 tokens. However, your messages resulted in 6164 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the messages, 10000 in the completion). Please reduce the length of the messages or completion. None","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"The decoder prompt (length 10127) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"The input (61709 tokens) is longer than the model's context length (40960 tokens).","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 132528 tokens: 66992 tokens from the input messages and 65536 tokens for the completion.","type":"BadRequestError","param":null,"code":400}"#,
        ),
        (
            400,
            r#"{"object":"error","message":"Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens).","type":"BadRequestError","code":400}"#,
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":13392,"n_ctx":8192}}"#,
        ),
        (
            500,
            r#"{"error":{"code":500,"message":"input is too large to process. increase the physical batch size","type":"server_error"}}"#,
        ),
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        ),
        (
            422,
            r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`","error_type":"validation"}"#,
        ),
        (
            400,
            r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":null}}"#,
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
        ),
    ];

    #[test]
    fn the_words_of_each_server() {
        for (status, body) in REFUSED {
            assert!(
                is_too_long(status, Some("application/json"), body.as_bytes()),
                "{body}"
            );
            if let Some(error) = body_error(body.as_bytes()) {
                assert!(error.is_too_long(), "{error:?}");
            }
        }
    }

    #[test]
    fn other_errors_are_none() {
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"max_tokens must be positive","type":"invalid_request_error","code":null}}"#,
            ),
            (
                400,
                r#"{"error":{"message":"Invalid 'tools' format","type":"invalid_request_error"}}"#,
            ),
            (
                413,
                r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
            ),
            (
                429,
                r#"{"error":{"message":"This model's maximum context length is 1 token","code":"rate_limit_exceeded"}}"#,
            ),
            (400, ""),
            (400, "<html><title>Bad Request</title></html>"),
            // What quotes the request is not taken at its word.
            (
                422,
                r#"{"detail":[{"loc":["body","temperature"],"msg":"Input should be a number","input":"prompt is too long"}]}"#,
            ),
        ] {
            assert!(
                !is_too_long(status, Some("application/json"), body.as_bytes()),
                "{body}"
            );
        }
    }
}
