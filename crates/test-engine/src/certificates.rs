//! Certificates made at test time: an authority, and what it signs, as PEM and for rustls.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};

/// An authority that exists for one test.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate with its key.
pub struct Identity {
    /// The certificate, PEM.
    pub certificate: String,
    /// Its key, PEM.
    pub key: String,
}

impl Authority {
    /// A new authority of this name.
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    /// Signs a certificate for these host names and addresses; the first is its common name too.
    pub fn issue(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names.clone()).expect("host names");
        if let Some(name) = names.first() {
            params.distinguished_name.push(DnType::CommonName, name.as_str());
        }
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, &self.issuer).expect("a certificate");
        Identity {
            certificate: signed.pem(),
            key: key.serialize_pem(),
        }
    }

    /// The authority's own certificate, PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Writes the authority's certificate to `NAME.pem` in `dir`.
    pub fn write(&self, dir: &Path, name: &str) -> PathBuf {
        write(dir, &format!("{name}.pem"), &self.pem)
    }

    /// What trusts this authority and no other.
    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        let own = CertificateDer::from_pem_slice(self.pem.as_bytes()).expect("its own PEM");
        roots.add(own).expect("an authority");
        roots
    }
}

impl Identity {
    /// Writes certificate and key to `NAME.pem` and `NAME.key` in `dir`.
    pub fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        (
            write(dir, &format!("{name}.pem"), &self.certificate),
            write(dir, &format!("{name}.key"), &self.key),
        )
    }

    /// The certificate and its key, as rustls wants them.
    pub fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        (vec![certificate.expect("its own PEM")], key.expect("its own PEM"))
    }
}

fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("a directory that can be written to");
    path
}
