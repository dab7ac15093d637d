//! `keys`.

use crate::forms::Moment;
use crate::leaf::{Hexadecimal, Name};
use crate::read::{At, section};
use crate::secret::Secret;

section! {
    /// A key that clients show.
    Key {
        /// Whose it is, for logs and metrics. Two keys may share a name while one is rotated out.
        name: Name,
        /// The key itself; this or `key_sha256` must be given.
        key: Secret,
        /// SHA-256 of the key in hexadecimal, instead of the key.
        key_sha256: Hexadecimal,
        /// When it ends: a date (the start of that day, UTC) or a time.
        expires: Moment,
        /// The tenant it belongs to.
        tenant: Name,
        /// Free-form tier.
        tier: Name,
        /// Routes it may use; `*` at the end of a name stands for any rest. Default: all.
        models: Vec<At<Name>>,
    }
    required [name]
    later [priority, max_priority, limits, passthrough]
}
