//! `server.tls`.

use crate::identity::{self, Identity, Misfit, Wrong};
use crate::leaf::Text;
use crate::model::server as model;
use crate::read::{At, Reader};
use crate::resolved::ServerTls;
use crate::yaml::NodeId;
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

/// Loads what the files hold; none where that is reported, as is every key that is missing.
pub(super) fn server(reader: &mut Reader<'_>, given: model::ServerTls) -> Option<ServerTls> {
    // All of them are looked at, so that all that is wrong is told.
    let cert = given.cert.and_then(|cert| File::read(reader, cert));
    let key = given.key.and_then(|key| File::read(reader, key));
    let wants_clients = given.client_ca.is_some();
    let client_ca = given
        .client_ca
        .and_then(|client_ca| File::read(reader, client_ca));
    let chain = cert
        .as_ref()
        .and_then(|cert| or_problem(reader, cert.node, identity::certificates(&cert.bytes)));
    let private = key
        .as_ref()
        .and_then(|key| or_problem(reader, key.node, identity::private_key(&key.bytes)));
    let roots = client_ca
        .as_ref()
        .and_then(|client_ca| or_problem(reader, client_ca.node, identity::authorities(&client_ca.bytes)));
    let (cert, key) = (cert?, key?);
    let hash = identity::hash(
        [Some(&cert), Some(&key), client_ca.as_ref()]
            .into_iter()
            .flatten()
            .map(|file| Some(&*file.bytes)),
    );
    let identity = match Identity::new(chain?, private?, (roots, hash)) {
        Ok(identity) => identity,
        Err(Misfit::Certificate(message)) => {
            reader.problem(
                cert.node,
                message,
                "give a certificate in PEM that a TLS server may show",
            );
            return None;
        }
        Err(Misfit::Key(message)) => {
            reader.problem(
                key.node,
                message,
                "give the key that the certificate was made with, in PEM",
            );
            return None;
        }
    };
    (wants_clients == identity.client_roots().is_some()).then(|| ServerTls {
        cert: cert.path,
        key: key.path,
        client_ca: client_ca.map(|file| file.path),
        identity,
    })
}
