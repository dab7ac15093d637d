//! The side that faces engines: connections, and one exchange on one of them.

pub(crate) mod addresses;
pub(crate) mod body;
pub(crate) mod connect;
pub(crate) mod link;
pub(crate) mod pool;
pub(crate) mod tls;
