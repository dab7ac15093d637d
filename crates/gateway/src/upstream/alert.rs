//! TLS alerts: why an engine ended a connection, in words for the log.
//!
//! With TLS 1.3 an engine judges our certificate after our side of the handshake is done, so that its alert comes where an
//! answer is read (RFC 8446, sections 4.4.2.4 and 6.2).

use rustls::AlertDescription as Alert;
use std::io;

/// The alert that the peer sent instead of what was to be read.
pub(crate) fn of(error: &io::Error) -> Option<Alert> {
    let tls = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match tls {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

/// What `alert` says to a client that `shows` a certificate, or none.
pub(crate) fn text(alert: Alert, shows: bool) -> String {
    let objection = match alert {
        Alert::CertificateRequired => return ASKS.to_owned(),
        Alert::BadCertificate => "bad certificate",
        Alert::UnsupportedCertificate => "unsupported certificate",
        Alert::CertificateRevoked => "certificate revoked",
        Alert::CertificateExpired => "certificate expired",
        Alert::CertificateUnknown => "certificate unknown",
        Alert::UnknownCA => "unknown ca",
        Alert::AccessDenied => "access denied",
        Alert::DecryptError => "decrypt error",
        other => return format!("TLS: the engine ended the connection with the alert {other:?}"),
    };
    if shows {
        format!("TLS: the engine refuses our client certificate ({objection})")
    } else {
        format!("{ASKS} ({objection})")
    }
}

const ASKS: &str = "TLS: the engine asks for a client certificate";
