//! Certificates that a peer may show: what is wrong with them is said in a sentence.

use rustls::client::{WebPkiServerVerifier, danger::ServerCertVerifier as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, Error, RootCertStore};
use std::io::{Error as IoError, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use weighbridge_config::{tls_error, tls_io_error};

/// Longest sentence, bytes.
const SENTENCE_MAX: usize = 16 * 1024;

/// Shows the certificates of a PEM file to a client and to a server: the first as the peer's own, the last as the authority
/// too.
pub(super) fn check(pem: &[u8]) {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .collect();
    let (Some((first, between)), Some(last)) = (found.split_first(), found.last()) else {
        return;
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    if let Err(error) = roots.add(last.clone()) {
        check_sentence(error);
        return;
    }
    let roots = Arc::new(roots);
    let name = ServerName::try_from("localhost").expect("a name");
    let client = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
    let server = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
    for year in [0, 30, 60, 300] {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(year * 366 * 24 * 3600));
        if let Ok(client) = &client
            && let Err(error) = client.verify_server_cert(first, between, &name, &[], now)
        {
            check_sentence(error);
        }
        if let Ok(server) = &server
            && let Err(error) = server.verify_client_cert(first, between, now)
        {
            check_sentence(error);
        }
    }
    // What verifiers of other libraries may say.
    for error in [
        CertificateError::Expired,
        CertificateError::NotValidYet,
        CertificateError::NotValidForName,
        CertificateError::Revoked,
        CertificateError::InvalidPurpose,
    ] {
        check_sentence(Error::InvalidCertificate(error));
    }
}

fn check_sentence(error: Error) {
    let told = tls_error(&error);
    assert!(
        !told.is_empty() && told.len() <= SENTENCE_MAX,
        "{} bytes",
        told.len()
    );
    assert!(!told.ends_with('.') && !told.contains("Other("), "{told}");
    assert_eq!(tls_io_error(&IoError::new(ErrorKind::InvalidData, error)), told);
}
