//! What an upstream remembers of one request.

use crate::clock;
use crate::http1;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// One request as the upstream saw it. Times are seconds of [`crate::clock`]. A field that has not happened
/// (yet) is `None`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record {
    /// Number of the request at this upstream, from 1.
    pub id: u64,
    /// When the head had been read.
    pub t: f64,
    /// Name of the upstream.
    pub replica: String,
    /// Number of the connection, unique in the process.
    pub conn: u64,
    /// Number of the request on its connection, from 1.
    pub nreq_on_conn: u64,
    /// Request method.
    pub method: String,
    /// Path and query as sent.
    pub target: String,
    /// Protocol version: as sent, or `HTTP/2`.
    pub version: String,
    /// Headers as sent, in order; of HTTP/2's own, `:authority` is among them.
    pub headers: Vec<(String, String)>,
    /// How often each header name (lower case) came.
    pub header_counts: BTreeMap<String, u32>,
    /// Bytes of the body as sent.
    pub body_len: u64,
    /// SHA-256 of the body as sent, in hexadecimal; empty until the body has been read.
    pub body_sha256: String,
    /// The body (gzip undone) as text, if it is at most 256 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The mode the request was answered in.
    pub mode: String,
    /// Where the mode came from: `script`, `header`, `marker`, `model`; absent for the default mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode_from: Option<&'static str>,
    /// Requests being answered at this upstream when this one began, itself included.
    pub in_flight_at_start: u64,
    /// Status sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// When the response head had been written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_headers: Option<f64>,
    /// When the first event of a stream had been written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_first_event: Option<f64>,
    /// Stream events written.
    pub events_sent: u64,
    /// Body bytes written (as encoded, without chunk framing).
    pub bytes_sent: u64,
    /// Where a `cut` fell: events of a stream, bytes of a body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_after: Option<u64>,
    /// When the peer closed, half-closed or reset the connection before the answer was complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_eof_at: Option<f64>,
    /// Code of the RST_STREAM with which the peer ended a stream of HTTP/2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset_by_peer: Option<u32>,
    /// `completed`, `cut`, `cut_clean`, `in_band_error`, `peer_gone`, `request_body_truncated` or `killed`;
    /// absent while the request runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<&'static str>,
    /// When the request was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub t_end: Option<f64>,
}

impl Record {
    /// The first value of a request header.
    pub fn header(&self, name: &str) -> Option<&str> {
        http1::header(&self.headers, name)
    }

    /// How often a request header came.
    pub fn header_count(&self, name: &str) -> u32 {
        self.header_counts
            .get(&name.to_ascii_lowercase())
            .copied()
            .unwrap_or(0)
    }

    /// The body as JSON; null if it is none or was too large to be kept.
    pub fn json(&self) -> serde_json::Value {
        self.body
            .as_deref()
            .and_then(|b| serde_json::from_str(b).ok())
            .unwrap_or_default()
    }

    /// True while the request is being answered.
    pub fn is_running(&self) -> bool {
        self.t_end.is_none()
    }

    /// True if the request ended with this outcome.
    pub fn ended_as(&self, outcome: &str) -> bool {
        self.outcome == Some(outcome) && self.t_end.is_some()
    }

    /// [`Record::t`] as an instant.
    pub fn started(&self) -> Instant {
        clock::instant(self.t)
    }

    /// [`Record::t_end`] as an instant.
    pub fn ended(&self) -> Option<Instant> {
        self.t_end.map(clock::instant)
    }
}
