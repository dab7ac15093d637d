//! What an error of HTTP/2 means for the request that met it.

use h2::Reason;

/// What became of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The peer has not begun with it and says so (RFC 9113, sections 6.8 and 8.7).
    NotBegun,
    /// The peer reset it.
    Reset,
    /// One of the two broke the protocol, or the peer is annoyed.
    Malformed,
    /// The connection ended.
    Ended,
}

/// What `error` means.
///
/// The codec gives the peer's GOAWAY as the error of a stream only where its last stream is an earlier one.
pub(crate) fn of(error: &h2::Error) -> Fault {
    let remote = error.is_remote();
    let Some(reason) = error.reason() else {
        return Fault::Ended;
    };
    if remote && (error.is_go_away() || reason == Reason::REFUSED_STREAM) {
        return Fault::NotBegun;
    }
    let against_the_rules = [
        Reason::PROTOCOL_ERROR,
        Reason::FLOW_CONTROL_ERROR,
        Reason::SETTINGS_TIMEOUT,
        Reason::STREAM_CLOSED,
        Reason::FRAME_SIZE_ERROR,
        Reason::COMPRESSION_ERROR,
        Reason::ENHANCE_YOUR_CALM,
        Reason::INADEQUATE_SECURITY,
        Reason::HTTP_1_1_REQUIRED,
    ];
    if !remote || against_the_rules.contains(&reason) {
        Fault::Malformed
    } else {
        Fault::Reset
    }
}

/// `error` in words of ours and of the specification: a peer can put any text into a GOAWAY.
pub(crate) fn text(error: &h2::Error) -> String {
    let Some(reason) = error.reason() else {
        return "the connection ended".into();
    };
    let who = if error.is_remote() {
        "the upstream"
    } else {
        "the gateway"
    };
    let what = if error.is_go_away() {
        "closed the connection"
    } else {
        "reset the stream"
    };
    format!("{who} {what}: {reason:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_our_own_are_told_from_the_peers() {
        // What the codec makes of a bare reason counts as the user's own.
        let own = h2::Error::from(Reason::CANCEL);
        assert_eq!(of(&own), Fault::Malformed);
        assert_eq!(text(&own), "the gateway reset the stream: CANCEL");
    }
}
