//! The side that faces clients: sockets, connections, and whether a client is still there.

pub(crate) mod connection;
mod encrypted;
mod http2;
pub(crate) mod plainly;
mod preface;
pub(crate) mod presence;
#[cfg(test)]
mod slow;
pub(crate) mod socket;
pub(crate) mod streams;
pub(crate) mod tls;
pub(crate) mod turn;
