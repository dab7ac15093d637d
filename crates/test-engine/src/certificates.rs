//! Certificates, made when a test needs them: authorities, and what they sign, as PEM and for rustls.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An authority that signs certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its key, both in PEM.
#[derive(Clone)]
pub struct Certificate {
    /// The certificate.
    pub cert: String,
    /// Its key.
    pub key: String,
}

/// Whom a test client trusts under TLS, and who it is.
#[derive(Clone)]
pub struct Trust(Arc<RootCertStore>, Option<Certificate>);

impl std::fmt::Debug for Trust {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Trust")
    }
}

impl Authority {
    /// An authority of this name with a new key.
    pub fn new(name: &str) -> Authority {
        let mut params = params(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        Authority { issuer }
    }

    /// The authority's own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Writes the authority's certificate to `NAME.pem` in `directory`, and gives its path.
    pub fn write(&self, directory: &Path, name: &str) -> PathBuf {
        put(directory, &format!("{name}.pem"), &self.pem())
    }

    /// What trusts this authority and no other.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority");
        roots
    }

    /// For a client that trusts this authority, and shows `identity` if it is asked.
    pub fn trusted(&self, identity: Option<&Certificate>) -> Trust {
        Trust(Arc::new(self.roots()), identity.cloned())
    }

    /// A certificate for these host names and addresses, to be used on either side; the first is its common name too.
    pub fn issue(&self, names: &[&str]) -> Certificate {
        let all: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(all).expect("host names");
        if let Some(&name) = names.first() {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        self.sign(params)
    }

    /// A certificate of a server on loopback, and of nothing else.
    pub fn server(&self) -> Certificate {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ServerAuth);
        self.sign(params)
    }

    /// A certificate of a client, and of nothing else.
    pub fn client(&self, name: &str) -> Certificate {
        let mut params = params(name);
        params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ClientAuth);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Certificate {
        let key = key();
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        Certificate {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}

/// Writes a file in one step, so that who reads it at the same time sees the old or the new one.
fn put(directory: &Path, name: &str, text: &str) -> PathBuf {
    let (path, new) = (directory.join(name), directory.join(format!("{name}.new")));
    fs::write(&new, text).expect("the file can be written");
    fs::rename(new, &path).expect("the file can be replaced");
    path
}

impl Certificate {
    /// Writes `cert.pem` and `key.pem` into a directory, each in one step, and gives their paths.
    pub fn write(&self, directory: &Path) -> (PathBuf, PathBuf) {
        (
            put(directory, "cert.pem", &self.cert),
            put(directory, "key.pem", &self.key),
        )
    }

    /// As [`Certificate::write`], to `NAME.pem` and `NAME.key`.
    pub fn write_as(&self, directory: &Path, name: &str) -> (PathBuf, PathBuf) {
        (
            put(directory, &format!("{name}.pem"), &self.cert),
            put(directory, &format!("{name}.key"), &self.key),
        )
    }

    /// The certificate as it is sent.
    pub fn der(&self) -> Vec<u8> {
        self.identity().0.remove(0).to_vec()
    }

    /// The certificate and its key, as rustls wants them.
    pub fn identity(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let cert = CertificateDer::from_pem_slice(self.cert.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        (vec![cert.expect("a certificate")], key.expect("a key"))
    }
}

impl Trust {
    /// For a client that speaks these protocols.
    pub(crate) fn config(&self, alpn: &[&[u8]]) -> Arc<ClientConfig> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_root_certificates(self.0.clone());
        let mut config = match &self.1 {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = own.identity();
                builder.with_client_auth_cert(chain, key).expect("an identity")
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}
