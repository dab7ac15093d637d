//! `cors`.

use crate::model::cors as model;
use crate::read::{At, Reader};
use crate::resolved::{Auth, Cors, Origin};

pub(super) fn cors(reader: &mut Reader<'_>, given: At<model::Cors>, auth: Auth) -> Option<Cors> {
    let origins = given.value.origins?;
    // A list all of whose entries are wrong has been reported, and is not empty.
    if reader.is_empty_list(origins.node) {
        reader.problem(
            origins.node,
            "no origin is named, so no page could call the gateway",
            "name one, such as `https://app.example`, or remove `cors`",
        );
    }
    let any = origins.value.iter().find(|origin| origin.value.0 == Origin::Any);
    if let Some(At { node, .. }) = any {
        if origins.value.len() > 1 {
            reader.warn(
                *node,
                "`*` allows every origin, so the others have no effect",
                "remove `*`, or the others",
            );
        }
        if auth == Auth::None {
            reader.warn(
                *node,
                "any web page that a user of this network visits can use the gateway, since no key is asked for",
                "name the origins, or add `keys`",
            );
        }
    }
    let origins = origins.value.into_iter().map(|origin| origin.value.0).collect();
    Some(Cors { origins })
}
