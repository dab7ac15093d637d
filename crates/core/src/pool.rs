//! What the endpoints of a pool have in common and is learned.

use std::sync::Arc;

/// State of one pool; kept for as long as a pool of its name is configured.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    pub(crate) name: Arc<str>,
}

impl Pool {
    /// A pool of which nothing is known.
    pub(crate) fn new(name: &Arc<str>) -> Self {
        let mut pool = Self::default();
        pool.name.clone_from(name);
        pool
    }
}
