//! Who the gateway is under TLS, and whom it lets in: certificates and keys, loaded and found to fit together.

use crate::certificates::tls_error;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{Error, RootCertStore};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// Largest file of certificates or keys, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// A certificate chain with its key, and the authorities whose clients may come in. Two are equal if their files hold the
/// same bytes.
#[derive(Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    client_roots: Option<Arc<RootCertStore>>,
    hash: String,
}

impl Identity {
    /// The certificate chain and its key.
    #[must_use]
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// Authorities of client certificates; none: clients need no certificate.
    #[must_use]
    pub fn client_roots(&self) -> Option<&Arc<RootCertStore>> {
        self.client_roots.as_ref()
    }

    /// SHA-256 of the files in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    pub(crate) fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
        (client_roots, hash): (Option<RootCertStore>, String),
    ) -> Result<Self, Misfit> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let certified = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            Error::InconsistentKeys(_) => {
                Misfit::Key("this key does not belong to the certificate".to_owned())
            }
            Error::InvalidCertificate(why) => Misfit::Certificate(tls_error(&Error::InvalidCertificate(why))),
            error => Misfit::Key(format!("the key cannot be used: {error}")),
        })?;
        Ok(Self {
            certified: Arc::new(certified),
            client_roots: client_roots.map(Arc::new),
            hash,
        })
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// Which of the two does not fit, and why.
pub(crate) enum Misfit {
    Certificate(String),
    Key(String),
}

/// What is wrong with a file, and how to mend it.
pub(crate) type Wrong = (String, &'static str);

/// The bytes of a PEM file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Wrong> {
    const HINT: &str = "give the path of a PEM file, relative to this config file";
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        let reason = crate::secret::reason(&error);
        (format!("the file cannot be read: {reason}"), HINT)
    })?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(("the file is larger than 1 MiB".to_owned(), HINT));
    }
    Ok(bytes)
}

/// The certificates of a chain in a PEM file, at least one.
pub(crate) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Wrong> {
    certificates(
        pem,
        "the file must hold `-----BEGIN CERTIFICATE-----` and what follows, the certificate of the key first",
    )
}

/// The certificates of a PEM file, at least one.
fn certificates(pem: &[u8], hint: &'static str) -> Result<Vec<CertificateDer<'static>>, Wrong> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match found {
        Ok(found) if found.is_empty() => Err(("there is no certificate in the file".to_owned(), hint)),
        Ok(found) => Ok(found),
        Err(error) => Err((format!("the file is no PEM file: {error}"), hint)),
    }
}

/// The private key of a PEM file.
pub(crate) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, Wrong> {
    const HINT: &str = "the file must hold `-----BEGIN PRIVATE KEY-----` and what follows";
    let sealed = b"BEGIN ENCRYPTED PRIVATE KEY";
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound if pem.windows(sealed.len()).any(|window| window == sealed) => (
            "the key is encrypted, and nobody is there to type its password".to_owned(),
            "decrypt it with `openssl pkey -in KEY -out NEW`, and let only the gateway's user read it",
        ),
        pem::Error::NoItemsFound => ("there is no private key in the file".to_owned(), HINT),
        // What is wrong may be quoted in the error, and may be a part of the key.
        _ => ("the file is no PEM file".to_owned(), HINT),
    })
}

/// The authorities of a PEM file.
pub(crate) fn authorities(pem: &[u8]) -> Result<RootCertStore, Wrong> {
    const HINT: &str = "give the certificates of the authorities that sign what the other side shows, each from `-----BEGIN CERTIFICATE-----` on";
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem, HINT)? {
        store.add(certificate).map_err(|error| {
            let why = tls_error(&error);
            (
                format!("a certificate in the file cannot be used as an authority: {why}"),
                HINT,
            )
        })?;
    }
    Ok(store)
}

/// One hash of several files; a file that cannot be read counts as a content of its own.
pub(crate) fn hash<'a>(files: impl IntoIterator<Item = Option<&'a [u8]>>) -> String {
    let mut all = Sha256::new();
    for file in files {
        match file {
            Some(bytes) => {
                all.update([1]);
                all.update(Sha256::digest(bytes));
            }
            None => all.update([0]),
        }
    }
    all.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
