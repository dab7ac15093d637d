//! `/v1/embeddings`: vectors that lie closer together for texts with words in common.

use super::driver::Reason;
use super::http::{Answer, Fault, json_answer, read};
use super::plan::too_long;
use super::prompt::Prompt;
use super::server::{Server, unique_id, unix_seconds};
use hyper::StatusCode;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::{Value, json};
use weighbridge_sim::engine::{Work, WorkId};
use weighbridge_sim::text::embed;

const DIMENSIONS: usize = 384;
const DIMENSIONS_MAX: usize = 4096;

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    Text(String),
    Tokens(Vec<u32>),
    Texts(Vec<String>),
    TokenLists(Vec<Vec<u32>>),
}

impl Input {
    fn into_items(self) -> Vec<Item> {
        match self {
            Self::Text(text) => vec![Item::Text(text)],
            Self::Tokens(tokens) if tokens.is_empty() => Vec::new(),
            Self::Tokens(tokens) => vec![Item::Tokens(tokens)],
            Self::Texts(texts) => texts.into_iter().map(Item::Text).collect(),
            Self::TokenLists(lists) => lists.into_iter().map(Item::Tokens).collect(),
        }
    }
}

enum Item {
    Text(String),
    Tokens(Vec<u32>),
}

impl Item {
    fn work(&self, server: &Server) -> Work {
        let mut prompt = Prompt::new(server.block_size(), None);
        match self {
            Self::Text(text) => prompt.text(text),
            Self::Tokens(tokens) => prompt.numbered(tokens),
        }
        let tokens = prompt.bare();
        Work {
            id: WorkId(0),
            blocks: tokens.blocks().into(),
            prompt_tokens: tokens.tokens(),
            output_tokens: 0,
        }
    }

    fn vector(&self, dimensions: usize) -> Vec<f32> {
        match self {
            Self::Text(text) => embed(text, dimensions),
            Self::Tokens(tokens) => {
                let words: Vec<_> = tokens.iter().map(u32::to_string).collect();
                embed(&words.join(" "), dimensions)
            }
        }
    }
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Float,
    Base64,
}

#[derive(Deserialize)]
struct EmbeddingRequest {
    model: Option<String>,
    input: Input,
    dimensions: Option<usize>,
    encoding_format: Option<Encoding>,
}

/// `POST /v1/embeddings`
pub(super) async fn embeddings(server: &Server, body: Incoming) -> Result<Answer, Fault> {
    let request: EmbeddingRequest = read(body).await?;
    let model = server.model(request.model.as_deref())?;
    let dimensions = request.dimensions.unwrap_or(DIMENSIONS);
    if !(1..=DIMENSIONS_MAX).contains(&dimensions) {
        let message = format!("dimensions must be from 1 to {DIMENSIONS_MAX}, got {dimensions}.");
        return Err(Fault::bad_request(message).about("dimensions"));
    }
    let items = request.input.into_items();
    if items.is_empty() {
        return Err(Fault::bad_request("input is empty.").about("input"));
    }
    let works: Vec<_> = items.iter().map(|item| item.work(server)).collect();
    for work in &works {
        server
            .config
            .settings
            .check(work.prompt_tokens, 0)
            .map_err(|refusal| too_long(refusal, work.prompt_tokens, 0))?;
    }
    let tokens: u64 = works.iter().map(|work| u64::from(work.prompt_tokens)).sum();
    let tickets: Vec<_> = works
        .into_iter()
        .map(|work| server.engine.submit(work, Reason::Stop))
        .collect();
    for ticket in tickets {
        ticket.finished().await.ok_or_else(Fault::stopped)?;
    }
    let encoding = request.encoding_format.unwrap_or_default();
    let data: Vec<_> = items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let vector = encoded(&item.vector(dimensions), encoding);
            json!({"object": "embedding", "index": index, "embedding": vector})
        })
        .collect();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0});
    let body = json!({
        "id": unique_id("embd-"),
        "object": "list",
        "created": unix_seconds(),
        "model": model,
        "data": data,
        "usage": usage,
    });
    Ok(json_answer(StatusCode::OK, &body))
}

fn encoded(vector: &[f32], encoding: Encoding) -> Value {
    match encoding {
        Encoding::Float => json!(vector),
        Encoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|part| part.to_le_bytes()).collect();
            json!(base64(&bytes))
        }
    }
}

/// Base64 of RFC 4648 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, i| {
            bits << 8 | u32::from(group.get(i).copied().unwrap_or_default())
        });
        for i in 0..4 {
            let six = (bits >> (18 - 6 * i) & 63) as usize;
            text.push(if i <= group.len() {
                char::from(ALPHABET[six])
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_of_the_rfc() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in cases {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
