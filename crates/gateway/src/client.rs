//! The side that faces clients: sockets, connections, and whether a client is still there.

pub(crate) mod connection;
pub(crate) mod presence;
#[cfg(test)]
mod slow;
pub(crate) mod socket;
pub(crate) mod turn;
