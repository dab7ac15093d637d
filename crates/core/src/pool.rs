//! What the endpoints of a pool have in common and is learned.

use std::sync::Arc;

/// State of one pool; kept for as long as a pool of its name is configured.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub(crate) name: Arc<str>,
}
