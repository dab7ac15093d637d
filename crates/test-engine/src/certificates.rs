//! Certificates, made when a test needs them.

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

    /// A certificate of a server on loopback.
    pub fn server(&self) -> Certificate {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ServerAuth);
        self.sign(params)
    }

    /// A certificate of a client.
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

    /// For a client that trusts this authority, and shows `identity` if it is asked.
    pub fn trusted(&self, identity: Option<&Certificate>) -> Trust {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("an authority");
        Trust(Arc::new(roots), identity.cloned())
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

impl Certificate {
    /// Writes `cert.pem` and `key.pem` into a directory, each in one step, and gives their paths.
    pub fn write(&self, directory: &Path) -> (PathBuf, PathBuf) {
        let put = |name: &str, text: &str| {
            let (path, new) = (directory.join(name), directory.join(format!("{name}.new")));
            fs::write(&new, text).expect("the file can be written");
            fs::rename(new, &path).expect("the file can be replaced");
            path
        };
        (put("cert.pem", &self.cert), put("key.pem", &self.key))
    }

    /// The certificate as it is sent.
    pub fn der(&self) -> Vec<u8> {
        let der = CertificateDer::from_pem_slice(self.cert.as_bytes());
        der.expect("a certificate").to_vec()
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
                let cert = CertificateDer::from_pem_slice(own.cert.as_bytes()).expect("a certificate");
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("a key");
                builder
                    .with_client_auth_cert(vec![cert], key)
                    .expect("an identity")
            }
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}
