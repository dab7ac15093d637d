//! The side that faces engines: connections, and one exchange on one of them.

pub(crate) mod addresses;
pub(crate) mod alert;
pub(crate) mod body;
pub(crate) mod connect;
mod http1;
mod http2;
pub(crate) mod link;
pub(crate) mod pool;
pub(crate) mod tls;
