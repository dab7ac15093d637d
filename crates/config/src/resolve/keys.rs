//! `keys`.

use crate::model::keys as model;
use crate::read::{At, Reader};
use crate::resolved::ClientKey;
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::sync::Arc;

pub(super) fn keys(reader: &mut Reader<'_>, given: Vec<At<model::Key>>) -> Vec<At<ClientKey>> {
    let mut seen: HashMap<[u8; 32], String> = HashMap::new();
    let mut keys = Vec::with_capacity(given.len());
    for At { node, value } in given {
        let Some(key) = key(reader, At { node, value }) else {
            continue;
        };
        let path = reader.tree.path(node);
        if let Some(first) = seen.insert(key.sha256, path) {
            reader.problem(
                node,
                format!("this is the same key as {first}"),
                "give every entry its own key, or remove one",
            );
        }
        keys.push(At { node, value: key });
    }
    keys
}

fn key(reader: &mut Reader<'_>, At { node, value: given }: At<model::Key>) -> Option<ClientKey> {
    let both = (given.key, given.key_sha256);
    let sha256 = match both {
        (Some(key), None) => Some(Sha256::digest(key.value.0.expose_secret().as_bytes()).into()),
        (None, Some(digest)) => {
            let bytes = hexadecimal(&digest.value.0);
            if bytes.is_none() {
                reader.problem(
                    digest.node,
                    "a SHA-256 is 64 hexadecimal digits",
                    "make one with `printf %s \"$KEY\" | sha256sum`",
                );
            }
            bytes
        }
        (Some(_), Some(digest)) => {
            reader.problem(
                digest.node,
                "`key` and `key_sha256` are both given",
                "keep one of them",
            );
            None
        }
        (None, None) => {
            let named = ["key", "key_sha256"]
                .iter()
                .any(|key| reader.child(node, key).is_some());
            if !named {
                reader.problem(
                    node,
                    "the key `key` is missing",
                    "add `key: ${NAME}` or `key_sha256: …`",
                );
            }
            None
        }
    };
    let models = given.models.map(|models| {
        models
            .value
            .into_iter()
            .map(|At { node, value }| {
                if value.0.trim_end_matches('*').contains('*') || value.0.ends_with("**") {
                    reader.problem(
                        node,
                        "`*` stands for any rest and may only end a name",
                        "write `gpt-*`, or the whole name",
                    );
                }
                Arc::from(value.0)
            })
            .collect()
    });
    Some(ClientKey {
        name: given.name?.value.0.into(),
        sha256: sha256?,
        expires: given.expires.map(|moment| moment.value.0),
        tenant: given.tenant.map(|tenant| tenant.value.0.into()),
        tier: given.tier.map(|tier| tier.value.0.into()),
        models,
    })
}

fn hexadecimal(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}
