//! `server.tls` and `pools[].tls`.

use crate::certificates;
use crate::identity::{self, Identity, Misfit, Wrong};
use crate::leaf::Text;
use crate::model::pools as pools_model;
use crate::model::server as model;
use crate::read::{At, Reader};
use crate::resolved::{PoolTls, ServerTls};
use crate::yaml::NodeId;
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use std::path::PathBuf;

/// A file that the config names, with its bytes.
struct File {
    node: NodeId,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl File {
    fn read(reader: &mut Reader<'_>, At { node, value }: At<Text>) -> Option<Self> {
        let path = reader
            .directory
            .map_or_else(|| PathBuf::from(&value.0), |directory| directory.join(&value.0));
        let bytes = or_problem(reader, node, identity::read(&path))?;
        Some(Self { node, path, bytes })
    }
}

fn or_problem<T>(reader: &mut Reader<'_>, node: NodeId, found: Result<T, Wrong>) -> Option<T> {
    found
        .map_err(|(message, hint)| reader.problem(node, message, hint))
        .ok()
}

/// The identity that a certificate and its key make; none where what is wrong with them is reported.
fn pair(
    reader: &mut Reader<'_>,
    (cert, key): (&File, &File),
    (roots, hash): (Option<RootCertStore>, String),
) -> Option<Identity> {
    // Both are looked at, so that all that is wrong is told.
    let chain = or_problem(reader, cert.node, identity::chain(&cert.bytes));
    let private = or_problem(reader, key.node, identity::private_key(&key.bytes));
    let chain = chain?;
    if let Some(told) = certificates::lifetime(&chain) {
        reader.warn(
            cert.node,
            told,
            "renew it; the gateway takes the new file while it serves",
        );
    }
    match Identity::new(chain, private?, (roots, hash)) {
        Ok(identity) => return Some(identity),
        Err(Misfit::Certificate(message)) => reader.problem(
            cert.node,
            message,
            "give a certificate of X.509 version 3 in PEM; docs/configuration.md shows how to make one",
        ),
        Err(Misfit::Key(message)) => reader.problem(
            key.node,
            message,
            "give the key that the certificate was made with, in PEM",
        ),
    }
    None
}

/// Loads what the files hold; none where that is reported, as is every key that is missing.
pub(super) fn server(reader: &mut Reader<'_>, given: model::ServerTls) -> Option<ServerTls> {
    // All of them are looked at, so that all that is wrong is told.
    let cert = given.cert.and_then(|cert| File::read(reader, cert));
    let key = given.key.and_then(|key| File::read(reader, key));
    let wants_clients = given.client_ca.is_some();
    let client_ca = given
        .client_ca
        .and_then(|client_ca| File::read(reader, client_ca));
    let roots = client_ca
        .as_ref()
        .and_then(|client_ca| or_problem(reader, client_ca.node, identity::authorities(&client_ca.bytes)));
    let (cert, key) = match (cert, key) {
        (Some(cert), Some(key)) => (cert, key),
        (cert, key) => {
            let _ = cert.and_then(|cert| or_problem(reader, cert.node, identity::chain(&cert.bytes)));
            let _ = key.and_then(|key| or_problem(reader, key.node, identity::private_key(&key.bytes)));
            return None;
        }
    };
    let hash = identity::hash(
        [Some(&cert), Some(&key), client_ca.as_ref()]
            .into_iter()
            .flatten()
            .map(|file| Some(&*file.bytes)),
    );
    let identity = pair(reader, (&cert, &key), (roots, hash))?;
    (wants_clients == identity.client_roots().is_some()).then(|| ServerTls {
        cert: cert.path,
        key: key.path,
        client_ca: client_ca.map(|file| file.path),
        identity,
    })
}

/// TLS towards a pool. The gateway loads the files by itself; here it is found out whether it can.
pub(super) fn upstream(reader: &mut Reader<'_>, given: pools_model::Tls) -> PoolTls {
    match (&given.client_cert, &given.client_key) {
        (Some(cert), None) => reader.problem(
            cert.node,
            "a client certificate needs its key",
            "add `client_key`",
        ),
        (None, Some(key)) => reader.problem(
            key.node,
            "a client key needs its certificate",
            "add `client_cert`",
        ),
        _ => {}
    }
    let ca = given.ca.and_then(|ca| File::read(reader, ca));
    if let Some(ca) = &ca {
        or_problem(reader, ca.node, identity::authorities(&ca.bytes));
    }
    let cert = given.client_cert.and_then(|cert| File::read(reader, cert));
    let key = given.client_key.and_then(|key| File::read(reader, key));
    if let (Some(cert), Some(key)) = (&cert, &key) {
        pair(reader, (cert, key), (None, String::new()));
    }
    if let Some(At { node, value }) = &given.server_name
        && ServerName::try_from(value.0.as_str()).is_err()
    {
        reader.problem(
            *node,
            "this is no name that a certificate can hold",
            "give a host name or an IP address, without a port",
        );
    }
    PoolTls {
        ca: ca.map(|file| file.path),
        client_cert: cert.map(|file| file.path),
        client_key: key.map(|file| file.path),
        server_name: given.server_name.map(|name| name.value.0),
    }
}
