//! What a request, or an attempt, came to: one word of a fixed list.

/// The words of the `outcome` label and of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A complete answer.
    Ok,
    /// The request was wrong; the gateway or the upstream said so with a 4xx.
    ClientError,
    /// The client left before the end.
    ClientClosed,
    /// A limit of the gateway refused it.
    RateLimited,
    /// Every candidate was full or cooling; nothing was sent upstream.
    Rejected,
    /// No candidate could be tried, or the gateway was draining.
    Unavailable,
    /// The upstream said 429 or 529.
    UpstreamRateLimited,
    /// The upstream said another 5xx, or something that is not an answer.
    UpstreamError,
    /// No connection could be made.
    ConnectError,
    /// A timeout of the gateway.
    Timeout,
    /// A stream that broke after its first byte had reached the client.
    UpstreamStreamError,
    /// An answer that ended cleanly before its end mark.
    UpstreamTruncated,
}

impl Outcome {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 12] = [
        Self::Ok,
        Self::ClientError,
        Self::ClientClosed,
        Self::RateLimited,
        Self::Rejected,
        Self::Unavailable,
        Self::UpstreamRateLimited,
        Self::UpstreamError,
        Self::ConnectError,
        Self::Timeout,
        Self::UpstreamStreamError,
        Self::UpstreamTruncated,
    ];

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ClientError => "client_error",
            Self::ClientClosed => "client_closed",
            Self::RateLimited => "rate_limited",
            Self::Rejected => "rejected",
            Self::Unavailable => "unavailable",
            Self::UpstreamRateLimited => "upstream_rate_limited",
            Self::UpstreamError => "upstream_error",
            Self::ConnectError => "connect_error",
            Self::Timeout => "timeout",
            Self::UpstreamStreamError => "upstream_stream_error",
            Self::UpstreamTruncated => "upstream_truncated",
        }
    }

    /// The word for an upstream's status.
    #[must_use]
    pub const fn of_upstream_status(status: u16) -> Self {
        match status {
            200..=299 => Self::Ok,
            429 | 529 => Self::UpstreamRateLimited,
            400..=499 => Self::ClientError,
            504 => Self::Timeout,
            _ => Self::UpstreamError,
        }
    }

    /// Whether an error log should hold it.
    #[must_use]
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Ok | Self::ClientClosed)
    }
}
