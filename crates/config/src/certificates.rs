//! Certificates in words: what is wrong with one, and until when it counts.

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};
use std::time::Duration;

/// How long before its end a certificate is warned of.
const SOON: Duration = Duration::from_hours(14 * 24);

/// What a TLS error means, in a sentence without a full stop, and where it can be said how to mend it.
#[must_use]
pub fn tls_error(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate_error(error),
        error => error.to_string(),
    }
}

/// As [`tls_error`], for an error of a stream under TLS.
#[must_use]
pub fn tls_io_error(error: &std::io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    inner.map_or_else(|| error.to_string(), tls_error)
}

fn certificate_error(error: &CertificateError) -> String {
    use CertificateError as E;
    match error {
        E::ExpiredContext { not_after, .. } => {
            format!("the certificate has expired on {}: renew it", date(*not_after))
        }
        E::Expired => "the certificate has expired: renew it".to_owned(),
        E::NotValidYetContext { not_before, .. } => format!(
            "the certificate is not valid before {}: wait, or set the clock of this machine right",
            date(*not_before)
        ),
        E::NotValidYet => {
            "the certificate is not valid yet: wait, or set the clock of this machine right".to_owned()
        }
        E::NotValidForNameContext { expected, presented } => {
            let names: Vec<&str> = presented.iter().map(|name| bare(name)).collect();
            let held = match names.as_slice() {
                [] => "names no host (subjectAltName)".to_owned(),
                names => format!("is for {}", names.join(", ")),
            };
            format!(
                "the certificate {held}, not for {}: use one of its names, or make one with this name as subjectAltName",
                expected.to_str()
            )
        }
        E::NotValidForName => "the certificate is for another name".to_owned(),
        E::UnknownIssuer => {
            "no authority that is trusted here has signed the certificate: trust the authority that has (`ca`, `client_ca`), and have \
             the peer send the certificates in between"
                .to_owned()
        }
        E::BadSignature => "the certificate was not signed by the authority that it names".to_owned(),
        E::BadEncoding => "the certificate is damaged, or no X.509 certificate".to_owned(),
        E::Revoked => "the certificate has been revoked".to_owned(),
        E::UnhandledCriticalExtension => CRITICAL.to_owned(),
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => {
            "the certificate is not meant for this side of a connection: its extendedKeyUsage must have serverAuth \
             for a server, clientAuth for a client"
                .to_owned()
        }
        error => other(&format!("{error:?}")),
    }
}

const CRITICAL: &str = "the certificate has a critical extension that is not understood";

/// What the library that checks certificates has no public word for.
fn other(debug: &str) -> String {
    if debug.contains("UnsupportedCriticalExtension") {
        CRITICAL.to_owned()
    } else if debug.contains("UnsupportedCertVersion") {
        "the certificate is of X.509 version 1: make one of version 3, which has extensions, such as subjectAltName".to_owned()
    } else if debug.contains("CaUsedAsEndEntity") {
        "an authority's certificate is shown as the peer's own (a self-signed one with CA:TRUE): make one with \
         CA:FALSE, or have the authority sign one"
            .to_owned()
    } else if debug.contains("EndEntityUsedAsCa") {
        "the certificate was signed with one that is no authority's (CA:FALSE)".to_owned()
    } else {
        let bare = debug
            .strip_prefix("Other(OtherError(")
            .and_then(|inner| inner.strip_suffix("))"));
        format!("the certificate cannot be used: {}", bare.unwrap_or(debug))
    }
}

/// `host` of `DnsName("host")`.
fn bare(presented: &str) -> &str {
    let inside = presented
        .split_once('(')
        .map_or(presented, |(_, inside)| inside.trim_end_matches(')'));
    inside.trim_matches('"')
}

/// A day of the calendar, in UTC.
fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(
        |_| "a day beyond the calendar".to_owned(),
        |time| time.strftime("%Y-%m-%d").to_string(),
    )
}

/// What is to be told of the time in which these certificates count; none: they do for longer than two weeks.
pub(crate) fn lifetime(chain: &[CertificateDer<'_>]) -> Option<String> {
    let now = UnixTime::now();
    let later = UnixTime::since_unix_epoch(Duration::from_secs(now.as_secs()).saturating_add(SOON));
    chain
        .iter()
        .find_map(|certificate| match validity(certificate, now) {
            Some(CertificateError::ExpiredContext { not_after, .. }) => Some(format!(
                "the certificate has expired on {}, so that peers refuse it",
                date(not_after)
            )),
            Some(CertificateError::NotValidYetContext { not_before, .. }) => Some(format!(
                "the certificate is not valid before {}, so that peers refuse it",
                date(not_before)
            )),
            _ => match validity(certificate, later) {
                Some(CertificateError::ExpiredContext { not_after, .. }) => {
                    Some(format!("the certificate expires on {}", date(not_after)))
                }
                _ => None,
            },
        })
}

/// What is wrong with a certificate at that time. Its validity is looked at before it is asked who has signed it.
fn validity(certificate: &CertificateDer<'_>, time: UnixTime) -> Option<CertificateError> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let nobody = RootCertStore::empty();
    let algorithms = provider.signature_verification_algorithms.all;
    match verify_server_cert_signed_by_trust_anchor(&parsed, &nobody, &[], time, algorithms) {
        Err(Error::InvalidCertificate(error)) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CustomExtension, IsCa, KeyPair, date_time_ymd};

    fn told(change: fn(&mut CertificateParams), trusted: bool) -> String {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        change(&mut params);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        if trusted {
            roots.add(certificate.der().clone()).unwrap();
        }
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let algorithms = provider.signature_verification_algorithms.all;
        let refused = ParsedCertificate::try_from(certificate.der()).and_then(|parsed| {
            verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], UnixTime::now(), algorithms)
        });
        tls_error(&refused.unwrap_err())
    }

    #[test]
    fn errors_are_sentences() {
        let authority =
            |params: &mut CertificateParams| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let told_of_authority = told(authority, true);
        assert!(
            told_of_authority.starts_with("an authority's certificate is shown as the peer's own"),
            "{told_of_authority}"
        );
        let stranger = told(|_| {}, false);
        assert!(
            stranger.starts_with("no authority that is trusted here"),
            "{stranger}"
        );
        let old = told(|params| params.not_after = date_time_ymd(2001, 2, 3), true);
        assert_eq!(old, "the certificate has expired on 2001-02-03: renew it");
        let young = told(|params| params.not_before = date_time_ymd(3000, 1, 1), true);
        assert!(young.contains("is not valid before 3000-01-01"), "{young}");
        let critical = |params: &mut CertificateParams| {
            let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
            extension.set_criticality(true);
            params.custom_extensions.push(extension);
        };
        let strange = told(critical, false);
        assert_eq!(
            strange,
            "the certificate has a critical extension that is not understood"
        );
    }

    #[test]
    fn an_error_without_a_sentence_is_named_as_it_is() {
        let named = other("Other(OtherError(MissingOrMalformedExtensions))");
        assert_eq!(
            named,
            "the certificate cannot be used: MissingOrMalformedExtensions"
        );
        assert_eq!(other("Strange"), "the certificate cannot be used: Strange");
    }
}
