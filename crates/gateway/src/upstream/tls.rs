//! TLS towards upstreams.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use weighbridge_config::resolved::{HttpVersion, PoolTls};
use weighbridge_config::tls_error;

/// A client config that trusts the system's authorities or the pool's own, with the pool's client certificate, and that
/// offers the pool's versions of HTTP.
pub(crate) fn client_config(tls: &PoolTls, http: HttpVersion) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots(tls)?);
    let mut config = match (&tls.client_cert, &tls.client_key) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates(cert)?, private_key(key)?)
            .map_err(|error| format!("tls.client_cert {}: {}", cert.display(), tls_error(&error)))?,
        _ => builder.with_no_client_auth(),
    };
    let offered: &[&[u8]] = match http {
        HttpVersion::Auto => &[b"h2", b"http/1.1"],
        HttpVersion::One => &[b"http/1.1"],
        HttpVersion::Two => &[b"h2"],
    };
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

fn roots(tls: &PoolTls) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    if let Some(path) = &tls.ca {
        for certificate in certificates(path)? {
            store
                .add(certificate)
                .map_err(|error| format!("tls.ca {}: {}", path.display(), tls_error(&error)))?;
        }
        return Ok(store);
    }
    let system = rustls_native_certs::load_native_certs();
    store.add_parsable_certificates(system.certs);
    if store.is_empty() {
        return Err("no trusted authorities on this system: install ca-certificates or set tls.ca".into());
    }
    Ok(store)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .map_err(|error| format!("{}: {error}", path.display()))?
        .collect();
    let found = found.map_err(|error| format!("{}: {error}", path.display()))?;
    if found.is_empty() {
        Err(format!("{}: holds no certificate", path.display()))
    } else {
        Ok(found)
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| format!("{}: {error}", path.display()))
}
